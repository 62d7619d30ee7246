#include "policy/grants.h"

#include <chrono>

#include "base/saturating.h"
#include "policy/calendar.h"

namespace weir::policy {

namespace {

// The time in which a limit grants its whole capacity, from empty; none where that is not defined.
struct GrantWindow {
  using Time = std::optional<Nanos>;

  Time operator()(const core::Bucket& l) const {
    const Int128 nanos = ceil_div(l.depth, l.interval.parts);
    return Nanos{to_int64(nanos)};
  }
  Time operator()(const core::NginxQueue& l) const {
    return Nanos{to_int64(ceil_div(Int128{l.places + 1} * 1'000'000'000'000, l.milli_rate))};
  }
  Time operator()(const core::Smooth&) const { return std::nullopt; }
  Time operator()(const core::Window& l) const { return l.period; }
  Time operator()(const core::SlidingCounter& l) const { return l.period; }
  Time operator()(const core::SlidingLog& l) const { return l.period; }
  // Days and weeks have their nominal length. Months and years vary too much.
  Time operator()(const core::CalendarWindow& l) const {
    const auto* calendar = dynamic_cast<const ZoneCalendar*>(l.calendar.get());
    if (calendar == nullptr) return std::nullopt;
    constexpr std::chrono::hours day{24};
    if (calendar->unit() == CalendarUnit::day) return day;
    if (calendar->unit() == CalendarUnit::week) return 7 * day;
    return std::nullopt;
  }
  Time operator()(const core::Concurrency&) const { return std::nullopt; }
  Time operator()(const core::RedisCell& l) const { return l.depth; }
};

struct PerSecond {
  static constexpr Int128 kSecond = 1'000'000'000;

  // `count / scale` in each `period`.
  static Permits nearest(Permits count, Permits scale, Nanos period) {
    const Int128 below = Int128{scale} * period.count();
    return to_int64((Int128{count} * kSecond + below / 2) / below);
  }
  static Permits of(const core::Rate& rate) { return nearest(rate.count, rate.scale, rate.period); }

  Permits operator()(const core::Bucket& l) const { return of(l.rate); }
  Permits operator()(const core::NginxQueue& l) const { return of(l.rate); }
  Permits operator()(const core::Smooth& l) const { return of(l.rate); }
  Permits operator()(const core::Window& l) const { return nearest(l.count, 1, l.period); }
  Permits operator()(const core::SlidingCounter& l) const { return nearest(l.count, 1, l.period); }
  Permits operator()(const core::SlidingLog& l) const { return nearest(l.count, 1, l.period); }
  Permits operator()(const core::CalendarWindow&) const { return 0; }
  Permits operator()(const core::Concurrency&) const { return 0; }
  Permits operator()(const core::RedisCell& l) const { return nearest(1, 1, l.price); }
};

bool is_concurrent(const Limit& limit) {
  return std::holds_alternative<core::Concurrency>(limit.limit);
}

std::vector<Grant> grants_of(const std::vector<Limit>& limits) {
  std::vector<Grant> grants;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const Limit& limit = limits[i];
    grants.push_back({.name = limit.name.empty() ? std::to_string(i) : limit.name,
                      .capacity = core::capacity(limit.limit),
                      .window = std::visit(GrantWindow{}, limit.limit),
                      .per_second = std::visit(PerSecond{}, limit.limit),
                      .is_concurrent = is_concurrent(limit),
                      .cost = limit.cost});
  }
  return grants;
}

}  // namespace

std::vector<Grant> grants_of(const Policy& policy) { return grants_of(policy.limits); }

std::set<std::string, std::less<>> concurrent_limit_names(const Policy& policy) {
  std::set<std::string, std::less<>> held;
  std::set<std::string, std::less<>> others;
  const auto add = [&](const std::vector<Limit>& limits) {
    for (const Grant& grant : grants_of(limits))
      (grant.is_concurrent ? held : others).insert(grant.name);
  };
  add(policy.limits);
  for (const Override& own : policy.overrides) add(own.limits);
  for (const Shift& shift : policy.schedule) add(shift.limits);
  for (const std::string& name : others) held.erase(name);
  return held;
}

}  // namespace weir::policy
