#include "store/redis/conversation.h"

#include <algorithm>
#include <bit>

#include "base/saturating.h"
#include "store/fit.h"
#include "store/redis/imitation.h"

namespace weir::store::redis {

namespace {

using core::Ask;
using core::Bucket;
using core::Concurrency;
using core::ExactLog;
using core::Limit;

constexpr std::string_view kBeside = ":permits";  // the hash beside a set of holders
constexpr std::string_view kRefund = ":refund:";  // and the name of a receipt: its last refund
constexpr std::string_view kTake = "take";
constexpr std::string_view kShadow = "shadow";
constexpr std::string_view kLook = "look";

bool takes(SharedVerb verb) { return verb == SharedVerb::take || verb == SharedVerb::enter; }

Permits countable(Permits permits) { return std::clamp<Permits>(permits, 0, kMostCount); }

// As struct.unpack reads it: eight bytes, the lowest first. The number is exact as a double.
void append_double(std::string& out, std::int64_t number) {
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(number));
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(bits >> shift & 0xff);
}

// Whether the script reckons with it in nanoseconds: the others count windows and leases in
// microseconds.
bool knows_nanos(const Limit& limit) {
  return std::holds_alternative<Bucket>(limit) || std::holds_alternative<core::Smooth>(limit) ||
         std::holds_alternative<core::Cell>(limit);
}

// From when on nothing can be given back by the receipt any more.
Instant worthless_at(const Limit& limit, const core::Receipt& receipt) {
  if (const auto* log = std::get_if<ExactLog>(&limit)) return later(receipt.at, log->period);
  Instant drained = receipt.at;
  if (const auto* bucket = std::get_if<Bucket>(&limit)) {
    const Int128 nanos = ceil_div(price_of(*bucket, receipt.taken), bucket->pace.parts);
    drained = later(receipt.at, Nanos{to_int64(nanos)});
  }
  if (receipt.after.when == core::kNoInstant) return drained;
  return std::visit(
      [&](const auto& l) {
        using L = std::decay_t<decltype(l)>;
        if constexpr (core::kHasState<L>) {
          return std::max(drained, rest_at(l, receipt.after, receipt.at));
        } else {
          return drained;
        }
      },
      limit);
}

// The text of a bucket up to its last field.
std::string_view without_time_of_writing(std::string_view text) {
  return text.substr(0, text.rfind(' ') + 1);
}

// The time that a test gives.
Instant time_for(const SharedQuestion& question) {
  const bool exact = std::ranges::all_of(
      question.items, [](const SharedItem& item) { return knows_nanos(*item.limit); });
  return test_time(*question.now, exact);
}

}  // namespace

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
    carry_over_receipt(i);
  }
  write_command();
}

// A receipt from before a change of the price is one of the present price from here on.
void Conversation::carry_over_receipt(std::size_t i) {
  const auto* bucket = std::get_if<Bucket>(item(i).limit);
  if (bucket == nullptr || i >= question_.receipts.size()) return;
  core::Receipt& receipt = question_.receipts[i].receipt;
  receipt = carried(*bucket, receipt, learnt_[i].around, item(i).history);
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
    if (terms.most_debt + terms.price >= exact || may_wait(*bucket, ask)) return std::nullopt;
    if (bucket->known_rise > 1) return std::nullopt;
    return Narrow{.stamp = bucket->stamp,
                  .count = 4,
                  .numbers = {bucket->pace.parts, static_cast<std::int64_t>(terms.price),
                              static_cast<std::int64_t>(terms.most_debt),
                              micros(core::present_since(item(i).history))}};
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
  if (const auto* bucket = std::get_if<Bucket>(item.limit)) arguments_.number(bucket->known_rise);
  if (takes(question_.verb)) {
    arguments_.text(item.shadow ? kShadow : kTake);
    if (is_list(*item.limit)) return write_record(i);
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
  arguments_.text("untouched").number(0).text({});
  arguments_.text(text_of(*item(i).limit, {item(i).start, test_birth_, test_time_})).number(0);
}

void Conversation::write_look(std::size_t i) {
  arguments_.text(kLook);
  if (is_list(*item(i).limit)) write_record(i);
}

void Conversation::write_debit(std::size_t i) {
  arguments_.text("debit");
  if (is_list(*item(i).limit)) return write_record(i);
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
    arguments_.text(scratch_).number(micros(core::present_since(item(i).history)));
    arguments_.number(l->pace.parts);
    arguments_.pair(pair_of(terms.price, l->pace.parts));
    const Int128 most = terms.most_debt;
    arguments_.pair(most < 0 ? Pair{-1, 0} : pair_of(most, l->pace.parts));
    arguments_.text(learnt_[i].found).text(learnt_[i].instead);
    arguments_.number(!forced && may_wait(*l, ask) ? 1 : 0);
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
  const SharedReceipt& receipt = question_.receipts[i];
  return std::clamp<Permits>(sat_sub(0, receipt.left_of(item(i).ask.cost)), 0,
                             receipt.receipt.taken);
}

// For the script to see whether the last refund by this receipt was made. It is kept until nothing
// can be given back by the receipt any more.
void Conversation::write_last_refund(std::size_t i) {
  if (question_.receipt_name.empty()) {
    arguments_.number(0);
    return;
  }
  SharedReceipt& receipt = question_.receipts[i];
  const Instant worthless = worthless_at(*item(i).limit, receipt.receipt);
  receipt.kept_until = std::max(receipt.kept_until, worthless);
  arguments_.number(micros_rounded_up(receipt.kept_until));
  arguments_.number(static_cast<std::int64_t>(receipt.refunds)).number(back_of(i));
  arguments_.number(micros_rounded_up(receipt.unknown_until));
  if (receipt.unknown_until == Instant{}) receipt.unknown_until = receipt.kept_until;
  scratch_ = kRefund;
  scratch_ += question_.receipt_name;
  keys_.text(item(i).key, scratch_);
}

void Conversation::write_refund(std::size_t i) {
  const Limit& limit = *item(i).limit;
  const Permits back = back_of(i);
  if (back == 0 || std::holds_alternative<core::Cell>(limit)) return write_look(i);
  const SharedReceipt& receipt = question_.receipts[i];
  const std::int64_t taken_at = micros(core::instant_of(receipt.receipt.after.when));
  const auto* bucket = std::get_if<Bucket>(&limit);
  const bool other_price = bucket != nullptr && receipt.receipt.at == core::kPriceChanged;
  if (learnt_[i].exchanges || other_price) {
    arguments_.text("exchange");
    write_last_refund(i);
    arguments_.text(learnt_[i].found).text(learnt_[i].instead).number(learnt_[i].rest_at);
  } else if (bucket != nullptr) {
    arguments_.text("refund");
    write_last_refund(i);
    write_untouched(i);
    const std::int64_t parts = bucket->pace.parts;
    arguments_.pair(pair_of(price_of(*bucket, receipt.receipt.taken), parts));
    arguments_.pair(pair_of(price_of(*bucket, back), parts));
    arguments_.pair(pair_of(Int128{ns(receipt.receipt.at)} * parts, parts));
    arguments_.pair(pair_of(bucket->free, parts)).number(bucket->queue ? 1 : 0);
  } else if (std::holds_alternative<core::NginxQueue>(limit) ||
             std::holds_alternative<core::Smooth>(limit)) {
    arguments_.text("untouched");
    write_last_refund(i);
    write_untouched(i);
  } else {
    arguments_.text("refund");
    write_last_refund(i);
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

// What is there if nothing has happened since, and what is to be there then. The texts of a bucket
// are sent without the time of writing: a later take that was undone has changed that time, and the
// state is the same.
void Conversation::write_untouched(std::size_t i) {
  const Limit& limit = *item(i).limit;
  core::Receipt receipt = question_.receipts[i].receipt;
  const std::uint64_t birth = question_.receipts[i].birth;
  const core::State after = receipt.after;
  const auto* bucket = std::get_if<Bucket>(&limit);
  if (bucket != nullptr) {
    scratch_.clear();
    append_form(scratch_, *bucket);
    arguments_.text(scratch_).number(micros(core::present_since(item(i).history)));
    arguments_.number(bucket->pace.parts);
    scratch_ = std::to_string(birth);
    arguments_.text(scratch_);
  }
  // (An instant that no state has marks a receipt that part was given back by.)
  const bool used_up = (after.when >> 63) != 0;
  const auto write_state = [&](const core::State& state) {
    const std::string_view text = used_up ? std::string_view{} : text_of(limit, {state, birth});
    arguments_.text(bucket != nullptr ? without_time_of_writing(text) : text);
  };
  write_state(after);
  core::State replayed = after;
  std::visit(
      [&](const auto& l) {
        using L = std::decay_t<decltype(l)>;
        if constexpr (core::kHasState<L>) {
          if (!used_up) replayed = refund(l, after, receipt.at, receipt, back_of(i));
          write_state(replayed);
          arguments_.number(micros_rounded_up(rest_at(l, replayed, receipt.at)));
        }
      },
      limit);
}

void Conversation::append_command(std::string& out, bool with_source) const {
  append_eval(out, *script_, with_source, keys_, arguments_);
}

}  // namespace weir::store::redis
