#include "core/node_share.h"

#include <algorithm>

namespace weir::core {

namespace {

// At least 1, unless the count is 0.
Permits part(Permits count, Permits nodes) {
  return std::max<Permits>(count / nodes, std::min<Permits>(count, 1));
}

// The same count in a longer period, at most the longest one.
Rate part(Rate rate, Permits nodes) {
  rate.period =
      Nanos{to_int64(std::min(Int128{rate.period.count()} * nodes, Int128{kLongestDebt.count()}))};
  return rate;
}

template <typename L>
Limit or_whole(const L& limit, const Result<L, Flaw>& made) {
  return made ? Limit{*made} : Limit{limit};
}

Limit share(const Bucket& limit, Permits nodes) {
  const Rate rate = part(limit.rate, nodes);
  if (!limit.queue) return or_whole(limit, Bucket::make(rate, part(limit.capacity, nodes)));
  // make_queue takes the places in addition to the one call that is admitted at once.
  return or_whole(limit, Bucket::make_queue(rate, part(limit.capacity, nodes) - 1,
                                            part(limit.at_once, nodes) - 1));
}

Limit share(NginxQueue limit, Permits nodes) {
  limit.milli_rate = part(limit.milli_rate, nodes);
  limit.undelayed = limit.undelayed / nodes;
  limit.places = limit.places / nodes;
  return limit;
}

Limit share(const Smooth& limit, Permits nodes) {
  const Rate rate = part(limit.rate, nodes);
  return or_whole(limit,
                  limit.warms_up() ? Smooth::make_warming(rate, limit.warmup) : Smooth::make(rate));
}

Limit share(RedisCell limit, Permits nodes) {
  const auto longer = [&](Nanos time) {
    return Nanos{to_int64(std::min(Int128{time.count()} * nodes, Int128{kLongestDebt.count()}))};
  };
  limit.capacity = part(limit.capacity, nodes);
  limit.price = longer(limit.price);
  limit.depth = Nanos{to_int64(
      std::min(Int128{limit.price.count()} * limit.capacity, Int128{kLongestDebt.count()}))};
  return limit;
}

template <typename L>
Limit share(L limit, Permits nodes) {
  limit.count = part(limit.count, nodes);
  return limit;
}

}  // namespace

Limit divide_among(const Limit& limit, Permits nodes) {
  if (nodes <= 1) return limit;
  return std::visit([nodes](const auto& l) { return share(l, nodes); }, limit);
}

bool can_be_split(const Limit& limit) {
  return std::visit(
      [](const auto& l) {
        using L = std::decay_t<decltype(l)>;
        return std::is_same_v<L, Bucket> || std::is_same_v<L, Window> ||
               std::is_same_v<L, SlidingCounter> || std::is_same_v<L, SlidingLog> ||
               std::is_same_v<L, CalendarWindow>;
      },
      limit);
}

namespace {

Limit counting(const Bucket& limit, Permits part) { return part_of(limit, part); }

template <typename L>
Limit counting(L limit, Permits part) {
  if constexpr (requires { limit.count; }) limit.count = part;
  return limit;
}

Instant usage_expiry(const Bucket& limit, Instant since) {
  return later(since, filling_time(limit));
}
Instant usage_expiry(const CalendarWindow& limit, Instant since) {
  return limit.calendar->span_at(since).end;
}
// The previous window counts as well.
Instant usage_expiry(const SlidingCounter& limit, Instant since) {
  return later(later(since, limit.period), limit.period);
}
template <typename L>
Instant usage_expiry(const L& limit, Instant since) {
  if constexpr (requires { limit.period; }) return later(since, limit.period);
  return since;
}

}  // namespace

Limit part_of(const Limit& limit, Permits part) {
  return std::visit([part](const auto& l) { return counting(l, part); }, limit);
}

Instant usage_expires_at(const Limit& limit, Instant since) {
  return std::visit([since](const auto& l) { return usage_expiry(l, in_range(since)); }, limit);
}

Limit starting_empty(const Limit& limit, Instant now) {
  const auto* bucket = std::get_if<Bucket>(&limit);
  return bucket != nullptr ? Limit{starting_empty(*bucket, now)} : limit;
}

}  // namespace weir::core
