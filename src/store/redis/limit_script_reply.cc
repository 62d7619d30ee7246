#include <algorithm>

#include "base/fixed_vector.h"
#include "core/plan.h"
#include "store/redis/digits.h"
#include "store/redis/limit_script.h"
#include "store/redis/record_summary.h"

namespace weir::store::redis {

namespace {

using core::Ask;
using core::Bucket;
using core::Concurrency;
using core::SlidingLog;

constexpr int kMaxRounds = 4;
constexpr std::string_view kLastRefund = "1r";
constexpr std::string_view kUnexpectedReply =
    "the store's reply is not one of weir's scripts: a proxy between weir and the store may have "
    "changed it";

std::int64_t number_of(const wire::RespValue& value) {
  if (value.kind == wire::RespValue::Kind::integer) return value.number;
  std::uint64_t number = 0;
  const char* const first = value.text.data();
  const bool is_one = read_digits(first, first + value.text.size(), number) != nullptr;
  return is_one ? to_int64(Int128{number}) : -1;
}

// The head of a reply: the outcome, and the server's time.
struct ReplyHead {
  std::int64_t flag = -1;
  std::int64_t seconds = -1;
  std::int64_t micros = -1;
};

// The value that the script found for each limit.
using FoundTexts = FixedVector<wire::RespValue, core::kMaxLimits>;

// Parses the reply of the take script, which is one text: a line of three numbers, then a line for
// each key, empty if the key was missing.
bool read_packed(std::string_view text, ReplyHead& head, FoundTexts& lines) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto read = [&](std::int64_t& number, char behind) {
    std::uint64_t digits = 0;
    at = read_digits(at, end, digits);
    if (at == nullptr || at == end || *at++ != behind) return false;
    number = to_int64(Int128{digits});
    return true;
  };
  if (!read(head.flag, ' ') || !read(head.seconds, ' ') || !read(head.micros, '\n')) {
    return false;
  }
  using Kind = wire::RespValue::Kind;
  while (lines.size() < core::kMaxLimits) {
    const std::string_view rest(at, static_cast<std::size_t>(end - at));
    const std::string_view line = rest.substr(0, rest.find('\n'));
    lines.emplace_back(
        wire::RespValue{.kind = line.empty() ? Kind::null : Kind::bulk, .text = line});
    if (line.size() == rest.size()) return true;
    at += line.size() + 1;
  }
  return false;
}

LimitScript::ReplyResult misconfigured(StoreResponse& response, std::string_view why) {
  response.kind = StoreResponse::Kind::misconfigured;
  response.error = why;
  return LimitScript::ReplyResult::answered;
}

// True if a bucket was written at the present price, after that took effect.
bool is_current(const Bucket& limit, const core::PriceHistory* history,
                const StoredState& remembered) {
  return (remembered.state.what & core::gcra::kStampMask) == limit.stamp &&
         micros(remembered.written) >= micros(core::present_since(history));
}

// Converts a bucket that was written at another price to the present one.
void carry_over(const StoreItem& item, Instant now, StoredState& remembered) {
  const auto* bucket = std::get_if<Bucket>(item.limit);
  if (bucket == nullptr || is_current(*bucket, item.history, remembered)) return;
  remembered.state = state_under_current_limit(
      *bucket, {remembered.state, remembered.interval, remembered.written}, now, item.history);
}

// Applies to its receipt a refund whose response was lost. It counts in full, although a bucket may
// have refunded less.
void apply_lost_refund(const core::Limit& limit, const LastRefund& last, core::Receipt& receipt) {
  const Permits left = std::max<Permits>(receipt.taken - last.back, 0);
  std::visit(
      [&](const auto& l) {
        if constexpr (core::kHasState<std::decay_t<decltype(l)>>) {
          if (last.is_exact) (void)refund(l, receipt.after, receipt.at, receipt, last.back);
        }
      },
      limit);
  if (last.is_exact && receipt.taken == left) return;
  receipt.taken = left;
  if (std::holds_alternative<Bucket>(limit)) receipt.after.when = core::kNoInstant;
}

}  // namespace

// The values that a reply reports, in the form the core decides on. Elements are constructed only
// for items that exist: a request may have many, and most have one.
struct LimitScript::FoundValues {
  Instant now{};
  FixedVector<core::Charge, core::kMaxLimits> charges;
  FixedVector<StoredState, core::kMaxLimits> remembered;
  FixedVector<Permits, core::kMaxLimits> given_back;
  FixedVector<LogSummary, core::kMaxLimits> logs;
  FixedVector<HoldersSummary, core::kMaxLimits> holders;
  std::uint32_t held = 0;  // bit i: the holder holds permits of item i
};

LimitScript::ReplyResult LimitScript::on_reply(std::span<const wire::RespValue> reply,
                                               StoreResponse& response) {
  using Kind = wire::RespValue::Kind;
  response.decisions.clear();
  response.receipts.clear();
  response.error.clear();
  response.left = false;
  response.held = 0;
  if (reply.empty()) return misconfigured(response, kUnexpectedReply);
  if (reply[0].kind == Kind::error) return misconfigured(response, reply[0].text);
  ReplyHead head;
  FoundTexts lines;
  std::span<const wire::RespValue> texts;
  if (reply[0].kind == Kind::bulk) {
    if (!read_packed(reply[0].text, head, lines)) return misconfigured(response, kUnexpectedReply);
    texts = lines;
  } else if (reply[0].kind == Kind::array && reply.size() >= 4) {
    head = {number_of(reply[1]), number_of(reply[2]), number_of(reply[3])};
    texts = reply.subspan(4);
  }
  constexpr std::int64_t million = 1'000'000;
  constexpr std::int64_t latest = ns(kLatest) / 1'000'000'000;
  const auto [flag, seconds, microsecond] = head;
  if (seconds < 0 || seconds > latest || microsecond < 0 || microsecond >= million) {
    return misconfigured(response, kUnexpectedReply);
  }
  response.now = request_.now ? test_time_ : at_micro(seconds * million + microsecond);
  response.kind = StoreResponse::Kind::decided;
  if (request_.verb == StoreVerb::reset || request_.verb == StoreVerb::leave ||
      request_.verb == StoreVerb::start) {
    response.left = request_.verb == StoreVerb::leave && flag == 1;
    response.verdict = {};
    return ReplyResult::answered;
  }
  if (texts.size() != request_.items.size()) return misconfigured(response, kUnexpectedReply);
  if (flag == 2) return prepare_next_round(texts, response.now, response);

  FoundValues found;
  found.now = response.now;
  if (!read_found(texts, found)) return misconfigured(response, kUnexpectedReply);
  response.held = found.held;
  response.decisions.resize(request_.items.size());
  if (request_.verb == StoreVerb::peek) {
    response.verdict = core::peek(found.charges, found.now, kAsking, response.decisions);
  } else if (request_.verb == StoreVerb::settle) {
    answer_settle(found, response);
  } else {
    answer_take(found, flag == 1, response);
  }
  return ReplyResult::answered;
}

bool LimitScript::read_found(std::span<const wire::RespValue> texts, FoundValues& found) const {
  const bool settles = request_.verb == StoreVerb::settle;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const StoreItem& item = this->item(i);
    const std::string_view text = texts[i].text;
    Ask ask = item.ask;
    if (settles && ask.cost < 0) ask.cost = 0;
    core::Charge& charge = found.charges.emplace_back(core::Charge{
        .limit = item.limit, .ask = ask, .shadow = item.shadow, .history = item.history});
    const auto new_birth = static_cast<std::uint64_t>(micros(found.now));
    StoredState& remembered = found.remembered.emplace_back(
        StoredState{.state = {}, .birth = request_.now ? test_birth_ : new_birth});
    Permits& given_back = found.given_back.emplace_back(0);
    const bool present = texts[i].kind != wire::RespValue::Kind::null;
    if (const auto* log = std::get_if<SlidingLog>(item.limit)) {
      LogFacts facts;
      if (!read_text(text, facts)) return false;
      remembered.birth = facts.birth;
      given_back = facts.given_back;
      LogSummary& summary = found.logs.emplace_back();
      summarize(*log, facts, settles ? 0 : item.ask.cost, summary);
      charge.memory.emplace<core::AdmissionLog>(summary.head, summary.ring);
    } else if (const auto* limit = std::get_if<Concurrency>(item.limit)) {
      HolderFacts facts;
      if (!read_text(text, facts)) return false;
      HoldersSummary& summary = found.holders.emplace_back();
      summarize(*limit, facts, settles ? 0 : item.ask.cost, summary);
      if (facts.own_until > 0) found.held |= std::uint32_t{1} << i;
      charge.memory.emplace<core::Holders>(summary.size, summary.seats);
    } else {
      const bool replaced = present && !hints_[i].exchanges && !hints_[i].expected.empty() &&
                            hints_[i].expected == text;
      const std::string_view current = replaced ? std::string_view(hints_[i].replacement) : text;
      if (present && !read_text(*item.limit, current, remembered)) return false;
      if (present) carry_over(item, found.now, remembered);
      charge.memory = &remembered.state;
    }
  }
  return true;
}

void LimitScript::answer_take(FoundValues& found, bool admitted, StoreResponse& response) const {
  FixedVector<core::Receipt, core::kMaxLimits> receipts;
  if (request_.wants_receipts) {
    for (std::size_t i = 0; i < request_.items.size(); ++i) receipts.emplace_back();
  }
  const std::span<core::Receipt> wanted = receipts;
  response.verdict = core::take(found.charges, found.now, kAsking, wanted, response.decisions);
  if (static_cast<bool>(response.verdict.decision) != admitted) {
    misconfigured(
        response,
        "the store's script and this program decided differently, which is a bug in weir: "
        "please report it with the policy; the store's decision was dropped");
    return;
  }
  if (!admitted) return;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    response.receipts.push_back({wanted[i], found.remembered[i].birth});
  }
}

// Applies the same corrections to the values found as the script did, and updates the receipts.
void LimitScript::answer_settle(FoundValues& found, StoreResponse& response) const {
  std::array<core::Receipt, core::kMaxLimits> receipts{};
  std::array<core::State, core::kMaxLimits> before{};
  for (std::size_t i = 0; i < request_.items.size(); ++i) {
    if (item(i).ask.cost >= 0) continue;
    if (!is_list(*item(i).limit)) found.charges[i].ask.cost = item(i).ask.cost;
    if (i >= request_.receipts.size()) continue;
    StoreReceipt& own = request_.receipts[i];
    // The key is gone, or is another incarnation: the receipt is worth nothing.
    if (own.birth != found.remembered[i].birth) own.receipt = {};
    if (refund_of(i) == 0) continue;
    receipts[i] = own.receipt;
    before[i] = found.remembered[i].state;
    if (std::holds_alternative<SlidingLog>(*item(i).limit)) {
      receipts[i].taken -= found.given_back[i];
    } else if (!is_list(*item(i).limit)) {
      found.charges[i].ask.cost = -refund_of(i);
    }
  }
  response.verdict =
      core::settle(found.charges, found.now, std::span(receipts).first(request_.items.size()),
                   response.decisions);
  for (std::size_t i = 0; i < request_.receipts.size(); ++i) {
    if (refund_of(i) == 0) continue;
    StoreReceipt& own = request_.receipts[i];
    if (request_.receipt_name.empty()) {
      own.receipt = receipts[i];
      continue;
    }
    const bool is_made = found.given_back[i] > 0 || found.remembered[i].state != before[i];
    if (is_made) ++own.refunds;
    own.unknown_until = {};
    own.update(receipts[i]);
  }
  // A refund never refuses.
  for (std::size_t i = 0; i < request_.items.size(); ++i) {
    if (item(i).ask.cost < 0) response.verdict.refusing &= ~(std::uint32_t{1} << i);
  }
}

// ---- Again

LimitScript::ReplyResult LimitScript::prepare_next_round(std::span<const wire::RespValue> texts,
                                                         Instant now, StoreResponse& response) {
  if (++round_ >= kMaxRounds) {
    response.kind = StoreResponse::Kind::unavailable;
    response.error = "other clients changed the key during each attempt; nothing was charged";
    return ReplyResult::answered;
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const StoreItem& item = this->item(i);
    ItemHint& hint = hints_[i];
    StoredState stored{};
    const bool present = texts[i].kind != wire::RespValue::Kind::null;
    if (request_.verb == StoreVerb::settle && texts[i].text.starts_with(kLastRefund)) {
      note_last_refund(i, texts[i].text);
      continue;
    }
    if (is_list(*item.limit)) continue;
    if (present && !read_text(*item.limit, texts[i].text, stored)) {
      return misconfigured(response, kUnexpectedReply);
    }
    hint.calendar_time = std::max(now, core::instant_of(stored.state.when));
    const auto* bucket = std::get_if<Bucket>(item.limit);
    if (bucket == nullptr) continue;
    hint.expected.clear();
    hint.replacement.clear();
    if (request_.verb == StoreVerb::settle && item.ask.cost < 0) {
      prepare_exchange(i, stored, present ? texts[i].text : std::string_view{}, now);
    } else if (present && !is_current(*bucket, item.history, stored)) {
      hint.expected = texts[i].text;
      carry_over(item, now, stored);
      append_text(hint.replacement, *item.limit, {stored.state, stored.birth, now});
    }
  }
  write_command();
  return ReplyResult::again;
}

// The last refund with an item's receipt was made, and its response was lost. If the server has
// lost the refund's number, the receipt becomes worthless.
void LimitScript::note_last_refund(std::size_t i, std::string_view text) {
  StoreReceipt& own = request_.receipts[i];
  own.unknown_until = {};
  hints_[i].expected.clear();
  hints_[i].replacement.clear();
  hints_[i].exchanges = false;
  LastRefund last;
  if (!read_text(text, last) || last.number != own.refunds + 1) {
    own.receipt = {};
    return;
  }
  own.refunds = last.number;
  core::Receipt left = own.receipt;
  apply_lost_refund(*item(i).limit, last, left);
  own.update(left);
}

// Computes the bucket after a refund at another price than that of the take.
void LimitScript::prepare_exchange(std::size_t i, StoredState stored, std::string_view text,
                                   Instant now) {
  ItemHint& hint = hints_[i];
  const Bucket& bucket = std::get<Bucket>(*item(i).limit);
  core::Receipt receipt = request_.receipts[i].receipt;
  hint.exchanges = true;
  hint.expected = text;
  hint.replacement = text;
  carry_over(item(i), now, stored);
  core::State next = stored.state;
  if (request_.receipts[i].birth == stored.birth) {
    next = refund(bucket, stored.state, now, receipt, refund_of(i));
  }
  hint.rest_at = micros_rounded_up(rest_at(bucket, next, now));
  if (next == stored.state) return;
  hint.replacement.clear();
  append_text(hint.replacement, *item(i).limit, {next, stored.birth, now});
}

}  // namespace weir::store::redis
