#include "core/price_history.h"

#include <algorithm>

#include "base/saturating.h"
#include "core/tat.h"

namespace weir::core {

namespace gcra {

namespace {

// The price in a stamp is a floating-point number in units of 2^-46 ns, rounded down: 7 bits of
// exponent and 17 of fraction, with an implicit leading one unless the exponent is 0.
// `tat_at_encoded_price` allows for the rounding.
constexpr int kFractionBits = kPriceBits - 7;
constexpr Int128 kLeadingOne = Int128{1} << kFractionBits;
constexpr int kUnitBits = 46;

Int128 price_in_units(std::uint64_t encoded) {
  const std::uint64_t exponent = encoded >> kFractionBits;
  const Int128 fraction = encoded & (static_cast<std::uint64_t>(kLeadingOne) - 1);
  return exponent > 0 ? (fraction + kLeadingOne) << (exponent - 1) : fraction;
}

// The price of `whole + rest / old_price` permits, rounded up.
Int128 price_of_sum(const EmissionInterval& pace, Int128 whole, Int128 rest, Int128 old_price) {
  // 44 significant bits for the fraction of one permit are precise enough and cannot overflow.
  while (old_price >> 44 != 0) {
    rest = ceil_div(rest, 2);
    old_price >>= 1;
  }
  const Int128 fraction = ceil_div(rest * pace.price, old_price);
  return std::min(price_of(pace, whole) + fraction, in_parts(pace, kLongestDebt));
}

// Converts the tat of a state whose epoch is unknown. The old price is known to 18 bits and the old
// debt to a nanosecond, so the debt in permits lies between two close bounds. If there is a whole
// number between them, that is the debt.
Tat tat_at_encoded_price(const EmissionInterval& pace, const State& state, std::int64_t now) {
  const Tat old = tat_of(state);
  if (old.nanos < now) return {old.nanos, 0};

  const Int128 old_price = std::max<Int128>(price_in_units(state.what & kPriceMask), 1);
  const Int128 a_nano = Int128{old.parts > 0 ? 1 : 0} << kUnitBits;
  const Int128 upper = (Int128{old.nanos - now} << kUnitBits) + a_nano;
  const Int128 slack = a_nano + (upper >> kFractionBits) + 1;
  const Int128 whole = upper / old_price;
  const Int128 rest = upper - whole * old_price;
  const bool is_whole = rest <= slack && slack < old_price;
  return plus(pace, {now, 0}, price_of_sum(pace, whole, is_whole ? 0 : rest, old_price));
}

}  // namespace

Int128 price_of(const EmissionInterval& pace, Int128 permits) {
  const Int128 longest = in_parts(pace, kLongestDebt);
  return permits > longest / pace.price ? longest : permits * pace.price;
}

Int128 debt_at_other_price(Int128 debt, const EmissionInterval& from, const EmissionInterval& to) {
  const Int128 whole = debt / from.price;
  return price_of_sum(to, whole, debt - whole * from.price, from.price);
}

std::uint64_t encoded_price(const EmissionInterval& pace) {
  const Int128 nanos = pace.price / pace.parts;
  const Int128 rest = pace.price % pace.parts;
  Int128 units = (nanos << kUnitBits) + (rest << kUnitBits) / pace.parts;
  std::uint64_t exponent = units >= kLeadingOne ? 1 : 0;
  while (units >= 2 * kLeadingOne) {
    units >>= 1;
    ++exponent;
  }
  const Int128 fraction = exponent > 0 ? units - kLeadingOne : units;
  return exponent << kFractionBits | static_cast<std::uint64_t>(fraction);
}

}  // namespace gcra

namespace {

using gcra::Tat;
using gcra::tat_of;

// A tat, and the price at which it was computed.
struct Debt {
  Tat tat;
  EmissionInterval interval;
};

bool same(const EmissionInterval& a, const EmissionInterval& b) {
  return a.parts == b.parts && a.price == b.price;
}

// The same debt in permits after the price changed at `since`.
Debt repriced(const Debt& old, const EmissionInterval& pace, Instant since) {
  if (same(old.interval, pace)) return old;
  const std::int64_t then = ns(in_range(since));
  // A debt that had drained by then stays drained, even if the clock is later set back before it.
  if (old.tat.nanos < then) return {{old.tat.nanos, 0}, pace};
  const Int128 owed =
      gcra::debt_at_other_price(gcra::debt_at(old.interval, old.tat, then), old.interval, pace);
  return {gcra::plus(pace, {then, 0}, owed), pace};
}

// The debt after an epoch from `from` to `to` in which nothing drained.
Debt without_draining(Debt debt, Instant from, Instant to) {
  if (debt.tat.nanos <= ns(in_range(from))) return debt;
  const Instant later_tat = later(instant(debt.tat.nanos), between(from, to));
  debt.tat.nanos = ns(in_range(later_tat));
  return debt;
}

// The debt after all epochs from index `first` on.
Debt after_epochs(Debt debt, const PriceHistory& history, std::size_t first) {
  PriceEpoch before{};
  if (first > 0) before = history.epoch(first - 1).value_or(before);
  for (std::size_t i = first; i < history.size(); ++i) {
    const auto next = history.epoch(i);
    if (!next) continue;
    if (before.frozen) debt = without_draining(debt, before.since, next->since);
    debt = repriced(debt, next->interval, next->since);
    before = *next;
  }
  return debt;
}

// The index of the epoch in which a state was written.
std::optional<std::size_t> epoch_of(const State& state, const PriceHistory& history) {
  const std::uint64_t stamp = state.what & gcra::kStampMask;
  for (std::size_t i = history.size(); i-- > 0;) {
    const auto epoch = history.epoch(i);
    if (!epoch || epoch->number != stamp >> gcra::kPriceBits) continue;
    if (gcra::encoded_price(epoch->interval) == (stamp & gcra::kPriceMask)) return i;
  }
  return std::nullopt;
}

State packed(const Bucket& limit, Tat tat, const State& old) {
  return {.when = static_cast<std::uint64_t>(tat.nanos),
          .what = static_cast<std::uint64_t>(tat.parts) << gcra::kPartsShift |
                  (old.what & gcra::kMarksMask) | limit.stamp};
}

// True if a permit takes longer at `a` than at `b`.
bool is_slower(const EmissionInterval& a, const EmissionInterval& b) {
  // Prices reach 2^124. The rounding error of a double matters only for nearly equal prices.
  return static_cast<double>(a.price) / static_cast<double>(a.parts) >
         static_cast<double>(b.price) / static_cast<double>(b.parts);
}

// The first epoch that may have begun after `written`. An epoch that began at that very instant is
// included: converting a state that has its price already changes nothing.
std::size_t first_after(Instant written, const PriceHistory& history) {
  std::size_t first = history.size();
  while (first > 0) {
    const auto epoch = history.epoch(first - 1);
    if (epoch && epoch->since < written) break;
    --first;
  }
  return first;
}

// The price before epoch `i`; before the first epoch, the price of the first one.
std::optional<EmissionInterval> pace_before(std::size_t i, const PriceHistory& history) {
  while (i > 0) {
    if (const auto epoch = history.epoch(--i)) return epoch->interval;
  }
  for (; i < history.size(); ++i) {
    if (const auto epoch = history.epoch(i)) return epoch->interval;
  }
  return std::nullopt;
}

}  // namespace

namespace {

// Converts a state to `pace` as of `since`, if it was written in none of the known epochs.
Debt from_unknown_epoch(const State& state, const EmissionInterval& pace, Instant since,
                        const PriceHistory* history) {
  const std::uint64_t stamp = state.what & gcra::kStampMask;
  const auto own = history != nullptr ? history->pace_of(stamp) : std::nullopt;
  if (own) return repriced({tat_of(state), *own}, pace, since);
  if (gcra::encoded_price(pace) == (stamp & gcra::kPriceMask)) return {tat_of(state), pace};
  return {gcra::tat_at_encoded_price(pace, state, ns(in_range(since))), pace};
}

// True if the state was written in a later epoch than the caller knows.
bool is_ahead(const Bucket& limit, const State& state) {
  const auto number = [](std::uint64_t stamp) {
    return static_cast<EpochNumber>((stamp & gcra::kStampMask) >> gcra::kPriceBits);
  };
  return static_cast<std::int16_t>(number(state.what) - number(limit.stamp)) > 0;
}

std::optional<std::size_t> epoch_with_number_of(const State& state, const PriceHistory& history) {
  const std::uint64_t number = (state.what & gcra::kStampMask) >> gcra::kPriceBits;
  for (std::size_t i = history.size(); i-- > 0;) {
    const auto epoch = history.epoch(i);
    if (epoch && epoch->number == number) return i;
  }
  return std::nullopt;
}

}  // namespace

State state_of_other_epoch(const Bucket& limit, const State& state, Instant now,
                           const PriceHistory* history) {
  if (history == nullptr || history->size() == 0) {
    return packed(limit, from_unknown_epoch(state, limit.interval, now, history).tat, state);
  }
  if (const auto written_in = epoch_of(state, *history)) {
    const Debt written{tat_of(state), history->epoch(*written_in)->interval};
    const Debt present = after_epochs(written, *history, *written_in + 1);
    return packed(limit, repriced(present, limit.interval, now).tat, state);
  }
  // The first epoch that is known to have begun after the state was written. A state of a known
  // epoch at another price was written for another key that shares it: it keeps its price until
  // then.
  std::size_t next = 0;
  if (const auto same = epoch_with_number_of(state, *history)) {
    next = *same + 1;
  } else if (is_ahead(limit, state)) {
    next = history->size();
  }
  while (next < history->size() && !history->epoch(next)) ++next;
  if (next == history->size()) {
    return packed(limit, from_unknown_epoch(state, limit.interval, now, history).tat, state);
  }
  const PriceEpoch first = *history->epoch(next);
  const Debt then = from_unknown_epoch(state, first.interval, std::min(first.since, now), history);
  const Debt present = after_epochs(then, *history, next + 1);
  return packed(limit, repriced(present, limit.interval, now).tat, state);
}

Receipt receipt_under_current_limit(const Bucket& limit, const Receipt& receipt, Instant now,
                                    const PriceHistory* history) {
  const std::uint64_t stamp = receipt.after.what & gcra::kStampMask;
  if (stamp == limit.stamp || receipt.taken == 0) return receipt;
  Receipt next = receipt;
  // A receipt of which a part was given back has no valid `after` state.
  const bool names_state = (receipt.after.when >> 63) == 0;
  if (names_state) {
    next.before = state_under_current_limit(limit, receipt.before, now, history);
    next.after = state_under_current_limit(limit, receipt.after, now, history);
  } else {
    next.after.what = (receipt.after.what & ~gcra::kStampMask) | limit.stamp;
  }
  bool same_price = ((stamp ^ limit.stamp) & gcra::kPriceMask) == 0;
  if (history != nullptr) {
    const auto first = epoch_of(receipt.after, *history);
    same_price = first.has_value();
    for (std::size_t i = first.value_or(history->size()); i < history->size(); ++i) {
      const auto epoch = history->epoch(i);
      same_price =
          same_price && (!epoch || (same(epoch->interval, limit.interval) && !epoch->frozen));
    }
  }
  if (!same_price) next.at = kPriceChanged;
  return next;
}

State state_under_current_limit(const Bucket& limit, const DatedState& found, Instant now,
                                const PriceHistory* history) {
  Debt debt{tat_of(found.state), found.interval};
  if (history == nullptr)
    return packed(limit, repriced(debt, limit.interval, now).tat, found.state);
  // Another node may have written the state at a price that differed from this node's price then.
  // The slower of both prices counts until this node's price changed. Exception: if it changed in
  // the microsecond in which the state was written, the order of the two is unknown.
  const std::size_t first = first_after(found.written, *history);
  const auto next = first < history->size() ? history->epoch(first) : std::nullopt;
  if (!next || next->since - found.written >= std::chrono::microseconds{1}) {
    const EmissionInterval own = pace_before(first, *history).value_or(limit.interval);
    if (is_slower(own, found.interval)) debt = repriced(debt, own, std::min(found.written, now));
  }
  debt = repriced(after_epochs(debt, *history, first), limit.interval, now);
  return packed(limit, debt.tat, found.state);
}

Instant present_since(const PriceHistory* history) {
  if (history == nullptr || history->size() == 0) return {};
  const auto present = history->epoch(history->size() - 1);
  return present ? present->since : Instant{};
}

std::shared_ptr<const PriceHistory> copy_of(const PriceHistory* history) {
  if (history == nullptr) return nullptr;
  auto copy = std::make_shared<PriceTimeline>();
  for (std::size_t i = 0; i < history->size(); ++i) {
    if (const auto epoch = history->epoch(i)) copy->epochs_.push_back(*epoch);
  }
  return copy;
}

Bucket PriceTimeline::change(Bucket next, const Bucket& old, Instant now) {
  const auto number = static_cast<EpochNumber>(old.stamp >> gcra::kPriceBits);
  if (epochs_.empty()) epochs_.push_back({number, Instant{}, old.interval});
  next = inheriting_start(std::move(next), old, now);
  if (same(next.interval, old.interval)) return in_epoch(std::move(next), number);
  const auto following = static_cast<EpochNumber>(number + 1);
  epochs_.push_back({following, in_range(now), next.interval});
  return in_epoch(std::move(next), following);
}

}  // namespace weir::core
