#include "store/redis/limit_script.h"

#include <algorithm>
#include <bit>

#include "base/saturating.h"
#include "store/redis/record_summary.h"
#include "store/why_not_shareable.h"

namespace weir::store::redis {

namespace {

using core::Ask;
using core::Bucket;
using core::Concurrency;
using core::Limit;
using core::SlidingLog;

// Suffixes of keys beside a limit's key.
constexpr std::string_view kPermitsSuffix = ":permits";  // the hash beside a set of holders
constexpr std::string_view kRefundSuffix = ":refund:";   // + a receipt's name: its last refund
constexpr std::string_view kTake = "take";
constexpr std::string_view kShadow = "shadow";
constexpr std::string_view kLook = "look";

bool takes(StoreVerb verb) { return verb == StoreVerb::take || verb == StoreVerb::enter; }

Permits countable(Permits permits) { return std::clamp<Permits>(permits, 0, kMaxSharedCount); }

// Appends a double for struct.unpack: eight bytes, little-endian. The number is exact as a double.
void append_double(std::string& out, std::int64_t number) {
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(number));
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(bits >> shift & 0xff);
}

// True if the limit's script counts nanoseconds. The others count windows and hold times in
// microseconds.
bool counts_nanos(const Limit& limit) {
  return std::holds_alternative<Bucket>(limit) || std::holds_alternative<core::Smooth>(limit) ||
         std::holds_alternative<core::RedisCell>(limit);
}

// The time from which the receipt refunds nothing any more.
Instant worthless_from(const Limit& limit, const core::Receipt& receipt) {
  if (const auto* log = std::get_if<SlidingLog>(&limit)) return later(receipt.at, log->period);
  Instant drained = receipt.at;
  if (const auto* bucket = std::get_if<Bucket>(&limit)) {
    const Int128 nanos = ceil_div(price_of(*bucket, receipt.taken), bucket->interval.parts);
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

// The text of a bucket without its last field.
std::string_view without_write_time(std::string_view text) {
  return text.substr(0, text.rfind(' ') + 1);
}

// The time that a test has set.
Instant time_for(const StoreRequest& request) {
  const bool exact = std::ranges::all_of(
      request.items, [](const StoreItem& item) { return counts_nanos(*item.limit); });
  return test_time(*request.now, exact);
}

}  // namespace

void LimitScript::start(const StoreRequest& request, const ScriptTime& server_time) {
  request_ = request;
  round_ = 0;
  if (request.now) {
    test_birth_ = next_test_birth();
    test_time_ = time_for(request);
  }
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    ItemHint& hint = hints_[i];
    hint.expected.clear();
    hint.replacement.clear();
    hint.exchanges = false;
    hint.calendar_time = request.now ? test_time_ : server_time.now;
    carry_over_receipt(i);
  }
  write_command();
}

// Converts a receipt from before a price change to the present price.
void LimitScript::carry_over_receipt(std::size_t i) {
  const auto* bucket = std::get_if<Bucket>(item(i).limit);
  if (bucket == nullptr || i >= request_.receipts.size()) return;
  core::Receipt& receipt = request_.receipts[i].receipt;
  receipt = receipt_under_current_limit(*bucket, receipt, hints_[i].calendar_time, item(i).history);
}

void LimitScript::write_command() {
  keys_.clear();
  if (request_.verb == StoreVerb::take && round_ == 0 && pack_limits()) return write_packed();
  arguments_.clear();
  packed_arguments_.clear();
  write_clock();
  AlgorithmSet algorithms = 0;
  for (const StoreItem& item : request_.items) {
    algorithms |= AlgorithmSet{1} << item.limit->index();
  }
  const bool leaves = request_.verb == StoreVerb::leave;
  const bool resets = request_.verb == StoreVerb::reset;
  script_ = leaves ? &leave_script() : resets ? &reset_script() : &general_script(algorithms);
  if (!resets) arguments_.text(request_.holder);
  for (std::size_t i = 0; i < request_.items.size(); ++i) {
    const bool has_holders = std::holds_alternative<Concurrency>(*item(i).limit);
    if (leaves && !has_holders) continue;
    keys_.text(item(i).key);
    if (has_holders) keys_.text(item(i).key, kPermitsSuffix);
    if (leaves && i < request_.receipts.size()) write_lease_end(i);
    if (!leaves && !resets) write_item(i);
  }
}

// True if the take script can serve the request: it gets all limits packed in one argument.
bool LimitScript::pack_limits() {
  constexpr std::size_t max_mixed =
      4;  // limits; each sequence of algorithms needs a script of its own
  packed_.clear();
  bool has_windows = false;
  for (std::size_t i = 0; i < request_.items.size(); ++i) {
    const std::optional<PackedLimit> one = item(i).shadow ? std::nullopt : pack(i);
    if (!one) return false;
    has_windows = has_windows || one->letter != 'b';
    packed_.push_back(*one);
  }
  return !packed_.empty() && (!has_windows || packed_.size() <= max_mixed);
}

// The packed form of an item's limit, if it has one.
std::optional<LimitScript::PackedLimit> LimitScript::pack(std::size_t i) const {
  const Ask& ask = item(i).ask;
  if (const auto* bucket = std::get_if<Bucket>(item(i).limit)) {
    constexpr Int128 exact = Int128{1} << 52;
    const core::PassCondition terms = pass_condition(*bucket, ask);
    if (terms.max_debt + terms.price >= exact || may_wait(*bucket, ask)) return std::nullopt;
    if (bucket->known_rise > 1) return std::nullopt;
    return PackedLimit{.stamp = bucket->stamp,
                       .count = 4,
                       .numbers = {bucket->interval.parts, static_cast<std::int64_t>(terms.price),
                                   static_cast<std::int64_t>(terms.max_debt),
                                   micros(core::present_since(item(i).history))}};
  }
  if (const auto* window = std::get_if<core::Window>(item(i).limit)) {
    if (window->from_first) return std::nullopt;
    return PackedLimit{.letter = 'w',
                       .count = 3,
                       .numbers = {micros(Instant{window->period}), countable(ask.cost),
                                   room_for(window->count, ask.cost)}};
  }
  if (const auto* quota = std::get_if<core::CalendarWindow>(item(i).limit)) {
    const auto ends = periods_around(*quota->calendar, hints_[i].calendar_time);
    return PackedLimit{.letter = 'q',
                       .count = 6,
                       .numbers = {ends[0], ends[1], ends[2], ends[3], countable(ask.cost),
                                   room_for(quota->count, ask.cost)}};
  }
  return std::nullopt;
}

void LimitScript::write_packed() {
  for (const StoreItem& item : request_.items) keys_.text(item.key);
  // Most requests have the same limits as the one before: then only the keys differ.
  if (packed_ == packed_arguments_ && !request_.now) return;
  scratch_.clear();
  for (const PackedLimit& one : packed_) scratch_ += one.letter;
  script_ = &take_script(scratch_);
  scratch_.clear();
  for (std::size_t i = 0; i < packed_.size(); ++i) {
    for (std::size_t k = 0; k < packed_[i].count; ++k) {
      append_double(scratch_, packed_[i].numbers[k]);
    }
    if (packed_[i].letter != 'b') continue;
    append_price(scratch_, std::get<Bucket>(*item(i).limit));
    scratch_ += '\0';
  }
  arguments_.clear();
  arguments_.text(scratch_);
  if (request_.now) write_clock();
  request_.now ? packed_arguments_.clear() : packed_arguments_.swap(packed_);
}

void LimitScript::write_clock() {
  if (!request_.now) {
    arguments_.text({});
    return;
  }
  scratch_.clear();
  append_test_time(scratch_, test_time_, test_birth_);
  arguments_.text(scratch_);
}

std::string_view LimitScript::text_of(const Limit& limit, const StoredState& remembered) {
  scratch_.clear();
  append_text(scratch_, limit, remembered);
  return scratch_;
}

void LimitScript::write_item(std::size_t i) {
  const StoreItem& item = this->item(i);
  arguments_.text({&"bnswvqlhc"[item.limit->index()], 1});
  if (const auto* bucket = std::get_if<Bucket>(item.limit)) arguments_.number(bucket->known_rise);
  if (takes(request_.verb)) {
    arguments_.text(item.shadow ? kShadow : kTake);
    if (is_list(*item.limit)) return write_record(i);
    return write_terms(*item.limit, item.ask, i);
  }
  if (request_.verb == StoreVerb::start) return write_start(i);
  if (request_.verb == StoreVerb::peek || item.ask.cost == 0) return write_look(i);
  if (std::holds_alternative<Concurrency>(*item.limit)) return write_look(i);
  if (item.ask.cost > 0) return write_debit(i);
  return write_refund(i);
}

// The end of the holder's lease, which identifies its entry.
void LimitScript::write_lease_end(std::size_t i) {
  const Nanos lease = std::get<Concurrency>(*item(i).limit).hold_time;
  arguments_.number(micros(request_.receipts[i].receipt.at) + micros(Instant{lease}));
}

void LimitScript::write_start(std::size_t i) {
  arguments_.text("untouched").number(0).text({});
  arguments_.text(text_of(*item(i).limit, {item(i).start, test_birth_, test_time_})).number(0);
}

void LimitScript::write_look(std::size_t i) {
  arguments_.text(kLook);
  if (is_list(*item(i).limit)) write_record(i);
}

void LimitScript::write_debit(std::size_t i) {
  arguments_.text("debit");
  if (is_list(*item(i).limit)) return write_record(i);
  write_terms(*item(i).limit, item(i).ask, i);
}

void LimitScript::write_record(std::size_t i) {
  const bool settles = request_.verb == StoreVerb::settle;
  const Permits cost = item(i).ask.cost;
  if (const auto* log = std::get_if<SlidingLog>(item(i).limit)) {
    arguments_.number(micros(Instant{log->period})).number(countable(cost));
    arguments_.number(settles ? log->count : room_for(log->count, cost)).number(log->count);
  } else if (const auto* limit = std::get_if<Concurrency>(item(i).limit)) {
    arguments_.number(micros(Instant{limit->hold_time})).number(countable(cost));
    arguments_.number(settles ? limit->count : room_for(limit->count, cost));
  }
}

// The arguments that the algorithm's `decide` reads. A debit is charged without a decision: only
// its price counts.
void LimitScript::write_terms(const Limit& limit, const Ask& ask, std::size_t i) {
  const bool forced = request_.verb == StoreVerb::settle;
  if (const auto* l = std::get_if<Bucket>(&limit)) {
    const core::PassCondition terms =
        forced ? core::PassCondition{0, price_of(*l, ask.cost)} : pass_condition(*l, ask);
    scratch_.clear();
    append_price_prefix(scratch_, *l);
    arguments_.text(scratch_).number(micros(core::present_since(item(i).history)));
    arguments_.number(l->interval.parts);
    arguments_.pair(in_seconds_and_parts(terms.price, l->interval.parts));
    const Int128 max_debt = terms.max_debt;
    arguments_.pair(max_debt < 0 ? SecondsAndParts{-1, 0}
                                 : in_seconds_and_parts(max_debt, l->interval.parts));
    arguments_.text(hints_[i].expected).text(hints_[i].replacement);
    arguments_.number(!forced && may_wait(*l, ask) ? 1 : 0);
  } else if (const auto* nginx = std::get_if<core::NginxQueue>(&limit)) {
    arguments_.number(nginx->milli_rate / 1000).number(nginx->milli_rate % 1000);
    arguments_.number(countable(ask.cost) > kMaxSharedCount / 1000 ? kMaxSharedCount
                                                                   : countable(ask.cost) * 1000);
    arguments_.number(std::min(max_backlog(*nginx, ask), kMaxSharedCount));
  } else if (const auto* window = std::get_if<core::Window>(&limit)) {
    arguments_.number(micros(Instant{window->period})).number(window->from_first ? 1 : 0);
    arguments_.number(countable(ask.cost)).number(room_for(window->count, ask.cost));
  } else if (const auto* quota = std::get_if<core::CalendarWindow>(&limit)) {
    for (const auto end : periods_around(*quota->calendar, hints_[i].calendar_time)) {
      arguments_.number(end);
    }
    arguments_.number(countable(ask.cost)).number(room_for(quota->count, ask.cost));
  } else if (const auto* sliding = std::get_if<core::SlidingCounter>(&limit)) {
    arguments_.number(micros(Instant{sliding->period}));
    arguments_.number(countable(ask.cost)).number(room_for(sliding->count, ask.cost));
  } else if (const auto* smooth = std::get_if<core::Smooth>(&limit)) {
    const std::int64_t parts = smooth->interval.parts;
    const Int128 longest = Int128{ns(kLatest)} * parts;
    const Permits cost = std::max<Permits>(ask.cost, 0);
    const Int128 price =
        cost > longest / smooth->interval.price ? longest : cost * smooth->interval.price;
    const Int128 max_wait = Int128{std::max(ask.max_wait, Nanos{0}).count()} * parts;
    arguments_.number(parts).pair(ask.cost < 0 ? SecondsAndParts{-1, 0}
                                               : in_seconds_and_parts(max_wait, parts));
    arguments_.pair(in_seconds_and_parts(price, parts))
        .pair(in_seconds_and_parts(smooth->full, parts));
    arguments_.number(smooth->warms_up() ? 1 : 0)
        .pair(in_seconds_and_parts(smooth->full / 2, parts));
  } else if (const auto* cell = std::get_if<core::RedisCell>(&limit)) {
    const Int128 longest = ns(kLatest);
    const Int128 price = Int128{cell->price.count()} * ask.cost;
    const Int128 room = cell->depth.count() - price;
    arguments_.pair(in_seconds_and_parts(std::clamp(price, -longest, longest), 1));
    arguments_.pair(room < 0 ? SecondsAndParts{-1, 0}
                             : in_seconds_and_parts(std::min(room, longest), 1));
    arguments_.pair(in_seconds_and_parts(std::clamp<Int128>(-price, 0, 2 * longest), 1));
  }
}

Permits LimitScript::refund_of(std::size_t i) const {
  if (i >= request_.receipts.size()) return 0;
  const StoreReceipt& receipt = request_.receipts[i];
  return std::clamp<Permits>(sat_sub(0, receipt.left_of(item(i).ask.cost)), 0,
                             receipt.receipt.taken);
}

// Lets the script see whether the last refund with this receipt was made. The server keeps that
// until the receipt refunds nothing any more.
void LimitScript::write_last_refund(std::size_t i) {
  if (request_.receipt_name.empty()) {
    arguments_.number(0);
    return;
  }
  StoreReceipt& receipt = request_.receipts[i];
  const Instant worthless = worthless_from(*item(i).limit, receipt.receipt);
  receipt.kept_until = std::max(receipt.kept_until, worthless);
  arguments_.number(micros_rounded_up(receipt.kept_until));
  arguments_.number(static_cast<std::int64_t>(receipt.refunds)).number(refund_of(i));
  arguments_.number(micros_rounded_up(receipt.unknown_until));
  if (receipt.unknown_until == Instant{}) receipt.unknown_until = receipt.kept_until;
  scratch_ = kRefundSuffix;
  scratch_ += request_.receipt_name;
  keys_.text(item(i).key, scratch_);
}

void LimitScript::write_refund(std::size_t i) {
  const Limit& limit = *item(i).limit;
  const Permits back = refund_of(i);
  if (back == 0 || std::holds_alternative<core::RedisCell>(limit)) return write_look(i);
  const StoreReceipt& receipt = request_.receipts[i];
  const std::int64_t taken_at = micros(core::instant_of(receipt.receipt.after.when));
  const auto* bucket = std::get_if<Bucket>(&limit);
  const bool other_price = bucket != nullptr && receipt.receipt.at == core::kPriceChanged;
  if (hints_[i].exchanges || other_price) {
    arguments_.text("exchange");
    write_last_refund(i);
    arguments_.text(hints_[i].expected).text(hints_[i].replacement).number(hints_[i].rest_at);
  } else if (bucket != nullptr) {
    arguments_.text("refund");
    write_last_refund(i);
    write_untouched(i);
    const std::int64_t parts = bucket->interval.parts;
    arguments_.pair(in_seconds_and_parts(price_of(*bucket, receipt.receipt.taken), parts));
    arguments_.pair(in_seconds_and_parts(price_of(*bucket, back), parts));
    arguments_.pair(in_seconds_and_parts(Int128{ns(receipt.receipt.at)} * parts, parts));
    arguments_.pair(in_seconds_and_parts(bucket->free, parts)).number(bucket->queue ? 1 : 0);
  } else if (std::holds_alternative<core::NginxQueue>(limit) ||
             std::holds_alternative<core::Smooth>(limit)) {
    arguments_.text("untouched");
    write_last_refund(i);
    write_untouched(i);
  } else {
    arguments_.text("refund");
    write_last_refund(i);
    if (std::holds_alternative<SlidingLog>(limit)) {
      write_record(i);
      scratch_ = std::to_string(receipt.birth);
      arguments_.text(scratch_).number(micros(receipt.receipt.at)).number(back);
      return;
    }
    if (const auto* window = std::get_if<core::Window>(&limit)) {
      arguments_.number(micros(Instant{window->period})).number(window->from_first ? 1 : 0);
    } else if (const auto* quota = std::get_if<core::CalendarWindow>(&limit)) {
      for (const auto end : periods_around(*quota->calendar, hints_[i].calendar_time)) {
        arguments_.number(end);
      }
    } else if (const auto* sliding = std::get_if<core::SlidingCounter>(&limit)) {
      arguments_.number(micros(Instant{sliding->period}));
    }
    scratch_ = std::to_string(receipt.birth);
    arguments_.text(scratch_).number(taken_at).number(back);
  }
}

// The text of a state untouched since the take, and the text to replace it by (compare-and-swap).
// Texts of a bucket are sent without the time of writing: a later take that was undone has changed
// that time, but not the state.
void LimitScript::write_untouched(std::size_t i) {
  const Limit& limit = *item(i).limit;
  core::Receipt receipt = request_.receipts[i].receipt;
  const std::uint64_t birth = request_.receipts[i].birth;
  const core::State after = receipt.after;
  const auto* bucket = std::get_if<Bucket>(&limit);
  if (bucket != nullptr) {
    scratch_.clear();
    append_price_prefix(scratch_, *bucket);
    arguments_.text(scratch_).number(micros(core::present_since(item(i).history)));
    arguments_.number(bucket->interval.parts);
    scratch_ = std::to_string(birth);
    arguments_.text(scratch_);
  }
  // No state has such an instant: it marks a receipt that was refunded in part.
  const bool is_refunded = (after.when >> 63) != 0;
  const auto write_state = [&](const core::State& state) {
    const std::string_view text = is_refunded ? std::string_view{} : text_of(limit, {state, birth});
    arguments_.text(bucket != nullptr ? without_write_time(text) : text);
  };
  write_state(after);
  core::State replayed = after;
  std::visit(
      [&](const auto& l) {
        using L = std::decay_t<decltype(l)>;
        if constexpr (core::kHasState<L>) {
          if (!is_refunded) replayed = refund(l, after, receipt.at, receipt, refund_of(i));
          write_state(replayed);
          arguments_.number(micros_rounded_up(rest_at(l, replayed, receipt.at)));
        }
      },
      limit);
}

void LimitScript::append_command(std::string& out, bool with_source) const {
  append_eval(out, *script_, with_source, keys_, arguments_);
}

}  // namespace weir::store::redis
