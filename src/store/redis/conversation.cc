#include "store/redis/conversation.h"

#include <algorithm>
#include <bit>

#include "base/fixed_vector.h"
#include "base/saturating.h"
#include "core/plan.h"
#include "store/fit.h"
#include "store/redis/digits.h"

namespace weir::store::redis {

namespace {

using core::Ask;
using core::Bucket;
using core::Concurrency;
using core::ExactLog;
using core::Limit;

constexpr int kMostRounds = 4;
constexpr std::int64_t kMicro = 1000;
constexpr std::string_view kBeside = ":permits";  // the hash beside a set of holders
constexpr std::string_view kTake = "take";
constexpr std::string_view kShadow = "shadow";
constexpr std::string_view kLook = "look";

// The instant, rounded up.
std::int64_t rest_micros(Instant t) { return to_int64(ceil_div(ns(t), kMicro)); }

bool is_record(const Limit& limit) {
  return std::holds_alternative<ExactLog>(limit) || std::holds_alternative<Concurrency>(limit);
}

bool takes(SharedVerb verb) { return verb == SharedVerb::take || verb == SharedVerb::enter; }

Permits countable(Permits permits) { return std::clamp<Permits>(permits, 0, kMostCount); }
// What may be used already for a call of this cost to fit; -1 if it never does.
Permits room_for(Permits count, Permits cost) {
  return cost < 0 || cost > count ? -1 : std::min(count - cost, kMostCount);
}

// The kind of what has been found, for the core to decide on.
struct SmallLog {
  core::Log::Head head{};
  std::array<core::LogEntry, 4> ring{};
};
struct SmallHolders {
  std::uint32_t size = 0;
  std::array<core::Holder, 4> seats{};
};

// A log that decides as the one does that these are the facts of: few entries stand for many.
void imitate(const ExactLog& limit, const LogFacts& facts, Permits cost, SmallLog& small) {
  core::Log log(small.head, small.ring);
  const auto counted_from = [&](std::int64_t gone) { return at_micro(gone) - limit.period; };
  Permits left = facts.used;
  const Permits excess = facts.used - room_for(limit.count, cost);
  if (facts.freed_at > 0 && facts.freed_at < facts.rest_at && excess < left) {
    log.append({counted_from(facts.freed_at), excess});
    left -= excess;
  }
  if (facts.rest_at > 0) log.append({counted_from(facts.rest_at), std::max<Permits>(left, 1)});
  const Instant newest = at_micro(facts.newest_at);
  if (facts.newest_at > 0 && (log.size() == 0 || log.newest().at < newest)) log.append({newest, 0});
}

constexpr core::HolderId kAsking{.high = 0, .low = 1};
constexpr core::HolderId kOthers{.high = 0, .low = 2};

void imitate(const Concurrency& limit, const HolderFacts& facts, Permits cost,
             SmallHolders& small) {
  core::Holders holders(small.size, small.seats);
  Permits left = facts.held;
  if (facts.own_until > 0) {
    holders.seat({kAsking, at_micro(facts.own_until), facts.own_permits});
    left -= facts.own_permits;
    if (left > 0) holders.seat({kOthers, at_micro(facts.rest_at), left});
    return;
  }
  const Permits excess = facts.held - room_for(limit.count, cost);
  if (facts.freed_at > 0 && facts.freed_at < facts.rest_at && excess < left) {
    holders.seat({kOthers, at_micro(facts.freed_at), excess});
    left -= excess;
  }
  if (facts.rest_at > 0) {
    holders.seat({kOthers, at_micro(facts.rest_at), std::max<Permits>(left, 1)});
  }
}

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

// As struct.unpack reads it: eight bytes, the lowest first. The number is exact as a double.
void append_double(std::string& out, std::int64_t number) {
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(number));
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(bits >> shift & 0xff);
}

constexpr std::string_view kStrange =
    "the store's answer is not one that our scripts give: something between it and us changes them";

// Whether the script reckons with it in nanoseconds: the others count windows and leases in
// microseconds.
bool knows_nanos(const Limit& limit) {
  return std::holds_alternative<Bucket>(limit) || std::holds_alternative<core::Smooth>(limit) ||
         std::holds_alternative<core::Cell>(limit);
}

// The time that a test gives.
Instant time_for(const SharedQuestion& question) {
  const bool exact = std::ranges::all_of(
      question.items, [](const SharedItem& item) { return knows_nanos(*item.limit); });
  return test_time(*question.now, exact);
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

// ---- The question

void Conversation::start(const SharedQuestion& question, const Clockwork& known) {
  question_ = question;
  round_ = 0;
  if (question.now) {
    test_birth_ = next_test_birth();
    test_time_ = time_for(question);
  }
  for (std::size_t i = 0; i < question.items.size(); ++i) {
    Learnt& learnt = learnt_[i];
    learnt.found.clear();
    learnt.instead.clear();
    learnt.exchanges = false;
    learnt.around = question.now ? test_time_ : known.now;
  }
  write_command();
}

void Conversation::write_command() {
  keys_.clear();
  if (question_.verb == SharedVerb::take && round_ == 0 && is_narrow()) return write_narrow();
  arguments_.clear();
  said_.clear();
  write_clock();
  Algorithms algorithms = 0;
  for (const SharedItem& item : question_.items) {
    algorithms |= Algorithms{1} << item.limit->index();
  }
  const bool leaves = question_.verb == SharedVerb::leave;
  const bool resets = question_.verb == SharedVerb::reset;
  script_ = leaves ? &leave_script() : resets ? &reset_script() : &general_script(algorithms);
  if (!resets) arguments_.text(question_.holder);
  for (std::size_t i = 0; i < question_.items.size(); ++i) {
    const bool has_holders = std::holds_alternative<Concurrency>(*item(i).limit);
    if (leaves && !has_holders) continue;
    keys_.text(item(i).key);
    if (has_holders) keys_.text(item(i).key, kBeside);
    if (leaves && i < question_.receipts.size()) write_seat(i);
    if (!leaves && !resets) write_item(i);
  }
}

// Whether a take is for the script that is told about all limits in one argument.
bool Conversation::is_narrow() {
  constexpr std::size_t most_mixed = 4;  // so that there are not too many scripts
  narrow_.clear();
  bool has_windows = false;
  for (std::size_t i = 0; i < question_.items.size(); ++i) {
    const std::optional<Narrow> one = item(i).shadow ? std::nullopt : narrow(i);
    if (!one) return false;
    has_windows = has_windows || one->letter != 'b';
    narrow_.push_back(*one);
  }
  return !narrow_.empty() && (!has_windows || narrow_.size() <= most_mixed);
}

// What is said about a limit in it, if it can be.
std::optional<Conversation::Narrow> Conversation::narrow(std::size_t i) const {
  const Ask& ask = item(i).ask;
  if (const auto* bucket = std::get_if<Bucket>(item(i).limit)) {
    constexpr Int128 exact = Int128{1} << 52;
    const core::Terms terms = terms_of(*bucket, ask);
    if (terms.most_debt + terms.price >= exact) return std::nullopt;
    return Narrow{.price_code = bucket->price,
                  .count = 3,
                  .numbers = {bucket->pace.parts, static_cast<std::int64_t>(terms.price),
                              static_cast<std::int64_t>(terms.most_debt)}};
  }
  if (const auto* window = std::get_if<core::Window>(item(i).limit)) {
    if (window->from_first) return std::nullopt;
    return Narrow{.letter = 'w',
                  .count = 3,
                  .numbers = {micros(Instant{window->period}), countable(ask.cost),
                              room_for(window->count, ask.cost)}};
  }
  if (const auto* quota = std::get_if<core::Quota>(item(i).limit)) {
    const auto ends = periods_around(*quota->calendar, learnt_[i].around);
    return Narrow{.letter = 'q',
                  .count = 6,
                  .numbers = {ends[0], ends[1], ends[2], ends[3], countable(ask.cost),
                              room_for(quota->count, ask.cost)}};
  }
  return std::nullopt;
}

void Conversation::write_narrow() {
  for (const SharedItem& item : question_.items) keys_.text(item.key);
  // Most are about the same limits as the one before: then only the keys are others.
  if (narrow_ == said_ && !question_.now) return;
  scratch_.clear();
  for (const Narrow& one : narrow_) scratch_ += one.letter;
  script_ = &take_script(scratch_);
  scratch_.clear();
  for (std::size_t i = 0; i < narrow_.size(); ++i) {
    for (std::size_t k = 0; k < narrow_[i].count; ++k) {
      append_double(scratch_, narrow_[i].numbers[k]);
    }
    if (narrow_[i].letter != 'b') continue;
    append_rate(scratch_, std::get<Bucket>(*item(i).limit));
    scratch_ += '\0';
  }
  arguments_.clear();
  arguments_.text(scratch_);
  if (question_.now) write_clock();
  question_.now ? said_.clear() : said_.swap(narrow_);
}

void Conversation::write_clock() {
  if (!question_.now) {
    arguments_.text({});
    return;
  }
  scratch_.clear();
  append_test_time(scratch_, test_time_, test_birth_);
  arguments_.text(scratch_);
}

std::string_view Conversation::text_of(const Limit& limit, const Remembered& remembered) {
  scratch_.clear();
  append_text(scratch_, limit, remembered);
  return scratch_;
}

void Conversation::write_item(std::size_t i) {
  const SharedItem& item = this->item(i);
  arguments_.text({&"bnswvqlhc"[item.limit->index()], 1});
  if (takes(question_.verb)) {
    arguments_.text(item.shadow ? kShadow : kTake);
    if (is_record(*item.limit)) return write_record(i);
    return write_terms(*item.limit, item.ask, i);
  }
  if (question_.verb == SharedVerb::start) return write_start(i);
  if (question_.verb == SharedVerb::peek || item.ask.cost == 0) return write_look(i);
  if (std::holds_alternative<Concurrency>(*item.limit)) return write_look(i);
  if (item.ask.cost > 0) return write_debit(i);
  return write_refund(i);
}

// When the lease ends that the seat was given for: by that it is known again.
void Conversation::write_seat(std::size_t i) {
  const Nanos lease = std::get<Concurrency>(*item(i).limit).lease;
  arguments_.number(micros(question_.receipts[i].receipt.at) + micros(Instant{lease}));
}

void Conversation::write_start(std::size_t i) {
  arguments_.text("untouched").text({});
  arguments_.text(text_of(*item(i).limit, {item(i).start, test_birth_})).number(0);
}

void Conversation::write_look(std::size_t i) {
  arguments_.text(kLook);
  if (is_record(*item(i).limit)) write_record(i);
}

void Conversation::write_debit(std::size_t i) {
  arguments_.text("debit");
  if (is_record(*item(i).limit)) return write_record(i);
  write_terms(*item(i).limit, item(i).ask, i);
}

void Conversation::write_record(std::size_t i) {
  const bool settles = question_.verb == SharedVerb::settle;
  const Permits cost = item(i).ask.cost;
  if (const auto* log = std::get_if<ExactLog>(item(i).limit)) {
    arguments_.number(micros(Instant{log->period})).number(countable(cost));
    arguments_.number(settles ? log->count : room_for(log->count, cost)).number(log->count);
  } else if (const auto* limit = std::get_if<Concurrency>(item(i).limit)) {
    arguments_.number(micros(Instant{limit->lease})).number(countable(cost));
    arguments_.number(settles ? limit->count : room_for(limit->count, cost));
  }
}

// What the item's `decide` reads. When it is charged without asking, only the price counts.
void Conversation::write_terms(const Limit& limit, const Ask& ask, std::size_t i) {
  const bool forced = question_.verb == SharedVerb::settle;
  if (const auto* l = std::get_if<Bucket>(&limit)) {
    const core::Terms terms = forced ? core::Terms{0, price_of(*l, ask.cost)} : terms_of(*l, ask);
    scratch_.clear();
    append_form(scratch_, *l);
    arguments_.text(scratch_).number(l->pace.parts);
    arguments_.pair(pair_of(terms.price, l->pace.parts));
    const Int128 most = terms.most_debt;
    arguments_.pair(most < 0 ? Pair{-1, 0} : pair_of(most, l->pace.parts));
    arguments_.text(learnt_[i].found).text(learnt_[i].instead);
  } else if (const auto* nginx = std::get_if<core::NginxQueue>(&limit)) {
    arguments_.number(nginx->milli_rate / 1000).number(nginx->milli_rate % 1000);
    arguments_.number(countable(ask.cost) > kMostCount / 1000 ? kMostCount
                                                              : countable(ask.cost) * 1000);
    arguments_.number(std::min(most_owed(*nginx, ask), kMostCount));
  } else if (const auto* window = std::get_if<core::Window>(&limit)) {
    arguments_.number(micros(Instant{window->period})).number(window->from_first ? 1 : 0);
    arguments_.number(countable(ask.cost)).number(room_for(window->count, ask.cost));
  } else if (const auto* quota = std::get_if<core::Quota>(&limit)) {
    for (const auto end : periods_around(*quota->calendar, learnt_[i].around)) {
      arguments_.number(end);
    }
    arguments_.number(countable(ask.cost)).number(room_for(quota->count, ask.cost));
  } else if (const auto* sliding = std::get_if<core::Sliding>(&limit)) {
    arguments_.number(micros(Instant{sliding->period}));
    arguments_.number(countable(ask.cost)).number(room_for(sliding->count, ask.cost));
  } else if (const auto* smooth = std::get_if<core::Smooth>(&limit)) {
    const std::int64_t parts = smooth->pace.parts;
    const Int128 longest = Int128{ns(kLatest)} * parts;
    const Permits cost = std::max<Permits>(ask.cost, 0);
    const Int128 price = cost > longest / smooth->pace.price ? longest : cost * smooth->pace.price;
    const Int128 patience = Int128{std::max(ask.max_wait, Nanos{0}).count()} * parts;
    arguments_.number(parts).pair(ask.cost < 0 ? Pair{-1, 0} : pair_of(patience, parts));
    arguments_.pair(pair_of(price, parts)).pair(pair_of(smooth->full, parts));
    arguments_.number(smooth->warms_up() ? 1 : 0).pair(pair_of(smooth->full / 2, parts));
  } else if (const auto* cell = std::get_if<core::Cell>(&limit)) {
    const Int128 longest = ns(kLatest);
    const Int128 price = Int128{cell->price.count()} * ask.cost;
    const Int128 room = cell->depth.count() - price;
    arguments_.pair(pair_of(std::clamp(price, -longest, longest), 1));
    arguments_.pair(room < 0 ? Pair{-1, 0} : pair_of(std::min(room, longest), 1));
    arguments_.pair(pair_of(std::clamp<Int128>(-price, 0, 2 * longest), 1));
  }
}

Permits Conversation::back_of(std::size_t i) const {
  if (i >= question_.receipts.size()) return 0;
  return std::clamp<Permits>(sat_sub(0, item(i).ask.cost), 0, question_.receipts[i].receipt.taken);
}

void Conversation::write_refund(std::size_t i) {
  const Limit& limit = *item(i).limit;
  const Permits back = back_of(i);
  if (back == 0 || std::holds_alternative<core::Cell>(limit)) return write_look(i);
  const SharedReceipt& receipt = question_.receipts[i];
  const std::int64_t taken_at = micros(core::instant_of(receipt.receipt.after.when));
  const auto* bucket = std::get_if<Bucket>(&limit);
  const bool other_price = bucket != nullptr && ((receipt.receipt.after.what ^ bucket->price) &
                                                 core::gcra::kPriceMask) != 0;
  if (learnt_[i].exchanges || other_price) {
    arguments_.text("exchange").text(learnt_[i].found).text(learnt_[i].instead);
    arguments_.number(learnt_[i].rest_at);
  } else if (bucket != nullptr) {
    arguments_.text("refund");
    write_untouched(i);
    const std::int64_t parts = bucket->pace.parts;
    arguments_.pair(pair_of(price_of(*bucket, receipt.receipt.taken), parts));
    arguments_.pair(pair_of(price_of(*bucket, back), parts));
    arguments_.pair(pair_of(Int128{ns(receipt.receipt.at)} * parts, parts));
    arguments_.pair(pair_of(bucket->free, parts));
  } else if (std::holds_alternative<core::NginxQueue>(limit) ||
             std::holds_alternative<core::Smooth>(limit)) {
    arguments_.text("untouched");
    write_untouched(i);
  } else {
    arguments_.text("refund");
    if (std::holds_alternative<ExactLog>(limit)) {
      write_record(i);
      scratch_ = std::to_string(receipt.birth);
      arguments_.text(scratch_).number(micros(receipt.receipt.at)).number(back);
      return;
    }
    if (const auto* window = std::get_if<core::Window>(&limit)) {
      arguments_.number(micros(Instant{window->period})).number(window->from_first ? 1 : 0);
    } else if (const auto* quota = std::get_if<core::Quota>(&limit)) {
      for (const auto end : periods_around(*quota->calendar, learnt_[i].around)) {
        arguments_.number(end);
      }
    } else if (const auto* sliding = std::get_if<core::Sliding>(&limit)) {
      arguments_.number(micros(Instant{sliding->period}));
    }
    scratch_ = std::to_string(receipt.birth);
    arguments_.text(scratch_).number(taken_at).number(back);
  }
}

// What is there if nothing has happened since, and what is to be there then.
void Conversation::write_untouched(std::size_t i) {
  const Limit& limit = *item(i).limit;
  core::Receipt receipt = question_.receipts[i].receipt;
  const std::uint64_t birth = question_.receipts[i].birth;
  const core::State after = receipt.after;
  if (const auto* bucket = std::get_if<Bucket>(&limit)) {
    scratch_.clear();
    append_form(scratch_, *bucket);
    arguments_.text(scratch_).number(bucket->pace.parts);
    scratch_ = std::to_string(birth);
    arguments_.text(scratch_);
  }
  // (An instant that no state has marks a receipt that part was given back by.)
  const bool used_up = (after.when >> 63) != 0;
  arguments_.text(used_up ? std::string_view{} : text_of(limit, {after, birth}));
  core::State replayed = after;
  std::visit(
      [&](const auto& l) {
        using L = std::decay_t<decltype(l)>;
        if constexpr (core::kHasState<L>) {
          if (!used_up) replayed = refund(l, after, receipt.at, receipt, back_of(i));
          arguments_.text(used_up ? std::string_view{} : text_of(limit, {replayed, birth}));
          arguments_.number(rest_micros(rest_at(l, replayed, receipt.at)));
        }
      },
      limit);
}

void Conversation::append_command(std::string& out, bool with_source) const {
  append_eval(out, *script_, with_source, keys_, arguments_);
}

// ---- The answer

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
    core::Charge& charge = found.charges.emplace_back(
        core::Charge{.limit = item.limit, .ask = ask, .shadow = item.shadow});
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
  for (std::size_t i = 0; i < question_.items.size(); ++i) {
    const bool gives_back = item(i).ask.cost < 0 && i < question_.receipts.size();
    if (i >= question_.receipts.size()) continue;
    SharedReceipt& own = question_.receipts[i];
    // Nothing is there any more that it could be for, or another life of the key.
    if (gives_back && own.birth != found.remembered[i].birth) own.receipt = {};
    receipts[i] = own.receipt;
    if (!gives_back) continue;
    if (std::holds_alternative<ExactLog>(*item(i).limit)) {
      receipts[i].taken -= found.given_back[i];
    } else if (!std::holds_alternative<Concurrency>(*item(i).limit)) {
      found.charges[i].ask.cost = item(i).ask.cost;
    }
  }
  answer.verdict =
      core::settle(found.charges, found.now, std::span(receipts).first(question_.items.size()),
                   answer.decisions);
  for (std::size_t i = 0; i < question_.receipts.size(); ++i) {
    question_.receipts[i].receipt = receipts[i];
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
    if (is_record(*item.limit)) continue;
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
    } else if (present) {
      learnt.found = texts[i].text;
      append_text(learnt.instead, *item.limit, {repriced(*bucket, was.state, now), was.birth});
    }
  }
  write_command();
  return Next::again;
}

// What a bucket becomes that is given back to at another price than it was taken at.
void Conversation::learn_exchange(std::size_t i, const Remembered& was, std::string_view text,
                                  Instant now) {
  Learnt& learnt = learnt_[i];
  const Bucket& bucket = std::get<Bucket>(*item(i).limit);
  core::Receipt receipt = question_.receipts[i].receipt;
  learnt.exchanges = true;
  learnt.found = text;
  learnt.instead = text;
  core::State next = was.state;
  if (question_.receipts[i].birth == was.birth) {
    next = refund(bucket, was.state, now, receipt, back_of(i));
  }
  learnt.rest_at = rest_micros(rest_at(bucket, next, now));
  if (next == was.state) return;
  learnt.instead.clear();
  append_text(learnt.instead, *item(i).limit, {repriced(bucket, next, now), was.birth});
}

}  // namespace weir::store::redis
