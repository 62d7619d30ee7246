#include <algorithm>

#include "base/fixed_vector.h"
#include "core/plan.h"
#include "store/redis/conversation.h"
#include "store/redis/digits.h"
#include "store/redis/imitation.h"

namespace weir::store::redis {

namespace {

using core::Ask;
using core::Bucket;
using core::Concurrency;
using core::ExactLog;

constexpr int kMostRounds = 4;
constexpr std::string_view kLastRefund = "1r";
constexpr std::string_view kStrange =
    "the store's answer is not one that our scripts give: something between it and us changes them";

std::int64_t number_of(const wire::RespValue& value) {
  if (value.kind == wire::RespValue::Kind::integer) return value.number;
  std::uint64_t number = 0;
  const char* const first = value.text.data();
  const bool is_one = read_digits(first, first + value.text.size(), number) != nullptr;
  return is_one ? to_int64(Int128{number}) : -1;
}

// What a reply begins with: what came of the question, and the time.
struct Heading {
  std::int64_t flag = -1;
  std::int64_t seconds = -1;
  std::int64_t micros = -1;
};

// What was found for each limit.
using Lines = FixedVector<wire::RespValue, core::kMaxLimits>;

// The text that the script for most takes replies with: a line of three numbers, then one for each
// key, empty if it was not there.
bool read_folded(std::string_view text, Heading& heading, Lines& lines) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto read = [&](std::int64_t& number, char behind) {
    std::uint64_t digits = 0;
    at = read_digits(at, end, digits);
    if (at == nullptr || at == end || *at++ != behind) return false;
    number = to_int64(Int128{digits});
    return true;
  };
  if (!read(heading.flag, ' ') || !read(heading.seconds, ' ') || !read(heading.micros, '\n')) {
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

Conversation::Next misconfigured(SharedAnswer& answer, std::string_view why) {
  answer.kind = SharedAnswer::Kind::misconfigured;
  answer.error = why;
  return Conversation::Next::answered;
}

// Whether a bucket was written at the present price, since that holds.
bool is_current(const Bucket& limit, const core::PriceHistory* history,
                const Remembered& remembered) {
  return (remembered.state.what & core::gcra::kStampMask) == limit.stamp &&
         micros(remembered.written) >= micros(core::present_since(history));
}

// Brings a bucket that was written at another price to the present one.
void carry_over(const SharedItem& item, Instant now, Remembered& remembered) {
  const auto* bucket = std::get_if<Bucket>(item.limit);
  if (bucket == nullptr || is_current(*bucket, item.history, remembered)) return;
  remembered.state =
      carried(*bucket, {remembered.state, remembered.pace, remembered.written}, now, item.history);
}

// What a refund leaves of its receipt, when only this is known of it. It counts as all that it
// asked for, though a bucket may have had less to give back.
void give_back_unseen(const core::Limit& limit, const LastRefund& last, core::Receipt& receipt) {
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

// What a reply says was there, as memories for the core, and as what becomes of receipts. (No time
// is spent on what is not there: a plan may have many limits, and most have one.)
struct Conversation::Found {
  Instant now{};
  FixedVector<core::Charge, core::kMaxLimits> charges;
  FixedVector<Remembered, core::kMaxLimits> remembered;
  FixedVector<Permits, core::kMaxLimits> given_back;
  FixedVector<SmallLog, core::kMaxLimits> logs;
  FixedVector<SmallHolders, core::kMaxLimits> holders;
  std::uint32_t held = 0;  // bit i: who asks has its seat
};

Conversation::Next Conversation::on_reply(std::span<const wire::RespValue> reply,
                                          SharedAnswer& answer) {
  using Kind = wire::RespValue::Kind;
  answer.decisions.clear();
  answer.receipts.clear();
  answer.error.clear();
  answer.left = false;
  answer.held = 0;
  if (reply.empty()) return misconfigured(answer, kStrange);
  if (reply[0].kind == Kind::error) return misconfigured(answer, reply[0].text);
  Heading heading;
  Lines lines;
  std::span<const wire::RespValue> texts;
  if (reply[0].kind == Kind::bulk) {
    if (!read_folded(reply[0].text, heading, lines)) return misconfigured(answer, kStrange);
    texts = lines;
  } else if (reply[0].kind == Kind::array && reply.size() >= 4) {
    heading = {number_of(reply[1]), number_of(reply[2]), number_of(reply[3])};
    texts = reply.subspan(4);
  }
  constexpr std::int64_t million = 1'000'000;
  constexpr std::int64_t latest = ns(kLatest) / 1'000'000'000;
  const auto [flag, seconds, sub] = heading;
  if (seconds < 0 || seconds > latest || sub < 0 || sub >= million) {
    return misconfigured(answer, kStrange);
  }
  answer.now = question_.now ? test_time_ : at_micro(seconds * million + sub);
  answer.kind = SharedAnswer::Kind::decided;
  if (question_.verb == SharedVerb::reset || question_.verb == SharedVerb::leave ||
      question_.verb == SharedVerb::start) {
    answer.left = question_.verb == SharedVerb::leave && flag == 1;
    answer.verdict = {};
    return Next::answered;
  }
  if (texts.size() != question_.items.size()) return misconfigured(answer, kStrange);
  if (flag == 2) return learn(texts, answer.now, answer);

  Found found;
  found.now = answer.now;
  if (!read_found(texts, found)) return misconfigured(answer, kStrange);
  answer.held = found.held;
  answer.decisions.resize(question_.items.size());
  if (question_.verb == SharedVerb::peek) {
    answer.verdict = core::peek(found.charges, found.now, kAsking, answer.decisions);
  } else if (question_.verb == SharedVerb::settle) {
    settle(found, answer);
  } else {
    answer_take(found, flag == 1, answer);
  }
  return Next::answered;
}

bool Conversation::read_found(std::span<const wire::RespValue> texts, Found& found) const {
  const bool settles = question_.verb == SharedVerb::settle;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const SharedItem& item = this->item(i);
    const std::string_view text = texts[i].text;
    Ask ask = item.ask;
    if (settles && ask.cost < 0) ask.cost = 0;
    core::Charge& charge = found.charges.emplace_back(core::Charge{
        .limit = item.limit, .ask = ask, .shadow = item.shadow, .history = item.history});
    const auto born = static_cast<std::uint64_t>(micros(found.now));
    Remembered& remembered = found.remembered.emplace_back(
        Remembered{.state = {}, .birth = question_.now ? test_birth_ : born});
    Permits& given_back = found.given_back.emplace_back(0);
    const bool present = texts[i].kind != wire::RespValue::Kind::null;
    if (const auto* log = std::get_if<ExactLog>(item.limit)) {
      LogFacts facts;
      if (!read_text(text, facts)) return false;
      remembered.birth = facts.birth;
      given_back = facts.given_back;
      SmallLog& small = found.logs.emplace_back();
      imitate(*log, facts, settles ? 0 : item.ask.cost, small);
      charge.memory.emplace<core::Log>(small.head, small.ring);
    } else if (const auto* limit = std::get_if<Concurrency>(item.limit)) {
      HolderFacts facts;
      if (!read_text(text, facts)) return false;
      SmallHolders& small = found.holders.emplace_back();
      imitate(*limit, facts, settles ? 0 : item.ask.cost, small);
      if (facts.own_until > 0) found.held |= std::uint32_t{1} << i;
      charge.memory.emplace<core::Holders>(small.size, small.seats);
    } else {
      const bool replaced =
          present && !learnt_[i].exchanges && !learnt_[i].found.empty() && learnt_[i].found == text;
      const std::string_view read = replaced ? std::string_view(learnt_[i].instead) : text;
      if (present && !read_text(*item.limit, read, remembered)) return false;
      if (present) carry_over(item, found.now, remembered);
      charge.memory = &remembered.state;
    }
  }
  return true;
}

void Conversation::answer_take(Found& found, bool admitted, SharedAnswer& answer) const {
  FixedVector<core::Receipt, core::kMaxLimits> receipts;
  if (question_.wants_receipts) {
    for (std::size_t i = 0; i < question_.items.size(); ++i) receipts.emplace_back();
  }
  const std::span<core::Receipt> wanted = receipts;
  answer.verdict = core::take(found.charges, found.now, kAsking, wanted, answer.decisions);
  if (static_cast<bool>(answer.verdict.decision) != admitted) {
    misconfigured(answer,
                  "the store's script and this program do not decide alike, which is a mistake in "
                  "weir: please report it with the policy; the store's answer has been dropped");
    return;
  }
  if (!admitted) return;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    answer.receipts.push_back({wanted[i], found.remembered[i].birth});
  }
}

// Corrects what was found as the script did, and the receipts with it.
void Conversation::settle(Found& found, SharedAnswer& answer) const {
  std::array<core::Receipt, core::kMaxLimits> receipts{};
  std::array<core::State, core::kMaxLimits> before{};
  for (std::size_t i = 0; i < question_.items.size(); ++i) {
    if (item(i).ask.cost >= 0) continue;
    if (!is_list(*item(i).limit)) found.charges[i].ask.cost = item(i).ask.cost;
    if (i >= question_.receipts.size()) continue;
    SharedReceipt& own = question_.receipts[i];
    // Nothing is there any more that it could be for, or another life of the key.
    if (own.birth != found.remembered[i].birth) own.receipt = {};
    if (back_of(i) == 0) continue;
    receipts[i] = own.receipt;
    before[i] = found.remembered[i].state;
    if (std::holds_alternative<ExactLog>(*item(i).limit)) {
      receipts[i].taken -= found.given_back[i];
    } else if (!is_list(*item(i).limit)) {
      found.charges[i].ask.cost = -back_of(i);
    }
  }
  answer.verdict =
      core::settle(found.charges, found.now, std::span(receipts).first(question_.items.size()),
                   answer.decisions);
  for (std::size_t i = 0; i < question_.receipts.size(); ++i) {
    if (back_of(i) == 0) continue;
    SharedReceipt& own = question_.receipts[i];
    if (question_.receipt_name.empty()) {
      own.receipt = receipts[i];
      continue;
    }
    const bool is_made = found.given_back[i] > 0 || found.remembered[i].state != before[i];
    if (is_made) ++own.refunds;
    own.unknown_until = {};
    own.update(receipts[i]);
  }
  // (What the script has given back to a log is nothing that was found wanting.)
  for (std::size_t i = 0; i < question_.items.size(); ++i) {
    if (item(i).ask.cost < 0) answer.verdict.refusing &= ~(std::uint32_t{1} << i);
  }
}

// ---- Again

Conversation::Next Conversation::learn(std::span<const wire::RespValue> texts, Instant now,
                                       SharedAnswer& answer) {
  if (++round_ >= kMostRounds) {
    answer.kind = SharedAnswer::Kind::unavailable;
    answer.error = "others changed the key between each two of our questions; nothing was charged";
    return Next::answered;
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const SharedItem& item = this->item(i);
    Learnt& learnt = learnt_[i];
    Remembered was{};
    const bool present = texts[i].kind != wire::RespValue::Kind::null;
    if (question_.verb == SharedVerb::settle && texts[i].text.starts_with(kLastRefund)) {
      learn_refund(i, texts[i].text);
      continue;
    }
    if (is_list(*item.limit)) continue;
    if (present && !read_text(*item.limit, texts[i].text, was)) {
      return misconfigured(answer, kStrange);
    }
    learnt.around = std::max(now, core::instant_of(was.state.when));
    const auto* bucket = std::get_if<Bucket>(item.limit);
    if (bucket == nullptr) continue;
    learnt.found.clear();
    learnt.instead.clear();
    if (question_.verb == SharedVerb::settle && item.ask.cost < 0) {
      learn_exchange(i, was, present ? texts[i].text : std::string_view{}, now);
    } else if (present && !is_current(*bucket, item.history, was)) {
      learnt.found = texts[i].text;
      carry_over(item, now, was);
      append_text(learnt.instead, *item.limit, {was.state, was.birth, now});
    }
  }
  write_command();
  return Next::again;
}

// The last refund by the receipt of an item was made, and its answer was lost. If the store has
// forgotten it, nothing is given back any more.
void Conversation::learn_refund(std::size_t i, std::string_view text) {
  SharedReceipt& own = question_.receipts[i];
  own.unknown_until = {};
  learnt_[i].found.clear();
  learnt_[i].instead.clear();
  learnt_[i].exchanges = false;
  LastRefund last;
  if (!read_text(text, last) || last.number != own.refunds + 1) {
    own.receipt = {};
    return;
  }
  own.refunds = last.number;
  core::Receipt left = own.receipt;
  give_back_unseen(*item(i).limit, last, left);
  own.update(left);
}

// What a bucket becomes that is given back to at another price than it was taken at.
void Conversation::learn_exchange(std::size_t i, Remembered was, std::string_view text,
                                  Instant now) {
  Learnt& learnt = learnt_[i];
  const Bucket& bucket = std::get<Bucket>(*item(i).limit);
  core::Receipt receipt = question_.receipts[i].receipt;
  learnt.exchanges = true;
  learnt.found = text;
  learnt.instead = text;
  carry_over(item(i), now, was);
  core::State next = was.state;
  if (question_.receipts[i].birth == was.birth) {
    next = refund(bucket, was.state, now, receipt, back_of(i));
  }
  learnt.rest_at = micros_rounded_up(rest_at(bucket, next, now));
  if (next == was.state) return;
  learnt.instead.clear();
  append_text(learnt.instead, *item(i).limit, {next, was.birth, now});
}

}  // namespace weir::store::redis
