#include "policy/orders.h"

#include <algorithm>

#include "base/saturating.h"

namespace weir::policy {

namespace {

using core::Flaw;

// The changed number of permits, at least `least`.
Permits permits(Permits before, const Change& change, Permits least) {
  const Int128 times = Int128{before} * change.millionths / Change::kOne;
  return std::max(to_int64(times + change.more), least);
}

// The exact product may have more decimals than a rate can hold. The truncation is below 10^-9
// permits.
core::Rate rate(const core::Rate& before, const Change& change) {
  Int128 count =
      Int128{before.count} * change.millionths + Int128{change.more} * before.scale * Change::kOne;
  Int128 scale = Int128{before.scale} * Change::kOne;
  while (scale > core::kMaxScale || (scale > 1 && count % 10 == 0)) {
    count /= 10;
    scale /= 10;
  }
  return {.count = std::max<std::int64_t>(to_int64(count), 1),
          .scale = static_cast<std::int64_t>(scale),
          .period = before.period};
}

core::Rate whole_rate(Permits count, Nanos period) {
  return {.count = count, .scale = 1, .period = period};
}

// Applies a change to the numbers of each algorithm.
struct Changed {
  const Change& change;

  using Answer = Result<core::Limit, Flaw>;

  Permits at_least(Permits before, Permits least) const { return permits(before, change, least); }

  // `delay 0` (all callers wait) stays 0.
  Permits undelayed(Permits before) const { return before == 0 ? 0 : at_least(before, 0); }

  template <typename Made>
  static Answer answer(Made made) {
    if (!made) return made.error();
    return core::Limit{*std::move(made)};
  }

  Answer operator()(const core::Bucket& l) const {
    if (!l.queue) return answer(core::Bucket::make(rate(l.rate, change), at_least(l.capacity, 1)));
    return answer(core::Bucket::make_queue(rate(l.rate, change), at_least(l.capacity - 1, 0),
                                           undelayed(l.at_once - 1)));
  }
  Answer operator()(const core::NginxQueue& l) const {
    const Permits whole = at_least(l.rate.floor(), 1);
    return answer(core::NginxQueue::make(whole_rate(whole, l.rate.period), at_least(l.places, 0),
                                         undelayed(l.undelayed)));
  }
  Answer operator()(const core::Smooth& l) const {
    const core::Rate faster = rate(l.rate, change);
    return l.warms_up() ? answer(core::Smooth::make_warming(faster, l.warmup))
                        : answer(core::Smooth::make(faster));
  }
  Answer operator()(const core::Window& l) const {
    return answer(core::Window::make(whole_rate(at_least(l.count, 1), l.period), l.from_first));
  }
  Answer operator()(const core::SlidingCounter& l) const {
    return answer(core::SlidingCounter::make(whole_rate(at_least(l.count, 1), l.period)));
  }
  Answer operator()(const core::SlidingLog& l) const {
    return answer(core::SlidingLog::make(whole_rate(at_least(l.count, 1), l.period)));
  }
  Answer operator()(const core::CalendarWindow& l) const {
    return answer(core::CalendarWindow::make(at_least(l.count, 1), l.calendar));
  }
  Answer operator()(const core::Concurrency& l) const {
    return answer(core::Concurrency::make(at_least(l.count, 1), l.hold_time));
  }
  Answer operator()(const core::RedisCell& l) const { return core::Limit{l}; }  // no policy has one
};

}  // namespace

Result<core::Limit, Flaw> changed(const core::Limit& limit, const Change& change) {
  return std::visit(Changed{change}, limit);
}

GlobalOrders global_orders(const std::vector<Order>& orders, Instant now) {
  GlobalOrders all;
  for (const Order& order : orders) {
    if (changes_all(order, now)) all.changes.push_back(order.change);
    all.paused |= order.verb == Order::Verb::pause && order.until > now;
  }
  return all;
}

std::vector<Limit> under(const Change& change, std::vector<Limit> limits) {
  for (Limit& limit : limits) {
    if (auto next = changed(limit.limit, change)) limit.limit = *std::move(next);
  }
  return limits;
}

std::vector<Limit> under(const GlobalOrders& orders, std::vector<Limit> limits) {
  for (const Change& change : orders.changes) limits = under(change, std::move(limits));
  for (Limit& limit : limits) limit.shadow |= orders.paused;
  return limits;
}

namespace {

// The part that a pattern matches; empty: whole keys.
std::string_view part_of(const Pattern& pattern) {
  const std::size_t equals = pattern.text.find('=');
  return std::string_view{pattern.text}.substr(0, equals == std::string::npos ? 0 : equals);
}

}  // namespace

std::vector<BoostedPattern> boosted_patterns(const std::vector<Order>& orders,
                                             const std::vector<Override>& overrides,
                                             const PatternIndex& index, Instant now) {
  std::vector<Pattern> patterns;
  std::vector<const Order*> by;
  for (const Order& order : orders) {
    const bool boosts_some = order.verb == Order::Verb::boost && !order.who.empty();
    if (!boosts_some || order.until <= now) continue;
    patterns.push_back(Pattern::of(order.who));
    by.push_back(&order);
  }
  std::vector<BoostedPattern> all;
  if (patterns.empty()) return all;
  const PatternIndex boosts(patterns);
  for (const Pattern& pattern : patterns) {
    all.push_back({pattern, index.covering(pattern), *by[*boosts.covering(pattern)]});
  }
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    const Pattern& pattern = overrides[i].pattern;
    const auto position = boosts.covering(pattern);
    if (position && patterns[*position] != pattern) all.push_back({pattern, i, *by[*position]});
  }
  return all;
}

std::vector<Pattern> not_reached(const Order& order, const std::vector<Override>& overrides) {
  std::vector<Pattern> patterns;
  const Pattern who = Pattern::of(order.who);
  const std::string_view part = part_of(who);
  if (order.verb != Order::Verb::boost || part.empty()) return patterns;
  for (const Override& own : overrides) {
    const std::string_view other = part_of(own.pattern);
    if (!other.empty() && other != part) patterns.push_back(own.pattern);
  }
  return patterns;
}

}  // namespace weir::policy
