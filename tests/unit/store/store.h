#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "../../support/folder.h"
#include "core/plan.h"
#include "store/memory/table.h"

// Helpers for the tests of the table.

namespace weir::store {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// The start of every test: 2026-01-01T00:00:00Z.
inline constexpr Instant kStart = instant(1'767'225'600'000'000'000);
// A fixed seed for the fingerprints of keys, independent of the table's own: tests are
// deterministic.
inline constexpr std::uint64_t kSeed = 20260101;

// A tenth of the count under a sanitizer, which is slow.
constexpr int scaled(int count) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return count / 10 > 0 ? count / 10 : 1;
#else
  return count;
#endif
}

// A calendar of days in UTC.
class PlainDays : public core::Calendar {
 public:
  core::Span span_at(Instant t) const override { return core::aligned_span(hours{24}, t); }
};

// A limit with its identity, as a policy would have it.
struct Rule {
  core::Limit limit;
  std::uint64_t identity = 1;
  WhenFull when_full = WhenFull::share;
  std::uint64_t seed = kSeed;

  bool has_record() const {
    return std::holds_alternative<core::SlidingLog>(limit) ||
           std::holds_alternative<core::Concurrency>(limit);
  }
  Fingerprint key(std::string_view name) const {
    return fingerprint(seed, identity, KeyKind::whole, name, has_record());
  }
  Item item(const Fingerprint& of, Permits cost = 1) const {
    return {.limit = &limit,
            .key = of,
            .overflow_key = fingerprint(seed, identity, KeyKind::overflow, {}, has_record()),
            .ask = {.cost = cost},
            .when_full = when_full};
  }
  Item item(std::string_view name, Permits cost = 1) const { return item(key(name), cost); }
};

inline core::Limit bucket(std::int64_t count, Nanos period, Permits burst) {
  return *core::Bucket::make({count, 1, period}, burst);
}
inline core::Limit window(std::int64_t count, Nanos period, bool from_first = false) {
  return *core::Window::make({count, 1, period}, from_first);
}
inline core::Limit sliding(std::int64_t count, Nanos period) {
  return *core::SlidingCounter::make({count, 1, period});
}
inline core::Limit exact(std::int64_t count, Nanos period) {
  return *core::SlidingLog::make({count, 1, period});
}
inline core::Limit concurrency(Permits count, Nanos hold_time) {
  return *core::Concurrency::make(count, hold_time);
}
inline core::Limit quota(Permits count) {
  return *core::CalendarWindow::make(count, std::make_shared<PlainDays>());
}

// One limit of each algorithm, each with a capacity of 5.
inline std::vector<Rule> one_of_each() {
  std::vector<Rule> rules;
  const auto add = [&](core::Limit limit) {
    rules.push_back({.limit = std::move(limit), .identity = rules.size() + 1});
  };
  add(bucket(5, hours{1}, 5));
  add(bucket(7, hours{1}, 5));  // a price that is not a whole number of nanoseconds
  add(*core::Bucket::make_queue({5, 1, hours{1}}, 4, 4));
  add(*core::NginxQueue::make({1, 1, minutes{1}}, 4, 4));
  add(*core::Smooth::make({4, 1, seconds{1}}));
  add(window(5, hours{1}));
  add(window(5, hours{1}, true));
  add(sliding(5, hours{1}));
  add(quota(5));
  add(exact(5, hours{1}));
  add(concurrency(5, hours{1}));
  return rules;
}

// Single calls for one key; `at` counts from kStart.
inline core::Decision take(Table& table, const Rule& rule, std::string_view name, Nanos at,
                           Permits cost = 1, std::uint64_t holder = 0) {
  const Item item = rule.item(name, cost);
  return table.take({&item, 1}, kStart + at, {.low = holder}).decision;
}
inline core::Decision peek(Table& table, const Rule& rule, std::string_view name, Nanos at,
                           Permits cost = 1, std::uint64_t holder = 0) {
  const Item item = rule.item(name, cost);
  return table.peek({&item, 1}, kStart + at, {.low = holder}).decision;
}
inline bool leave(Table& table, const Rule& rule, std::string_view name, Nanos at,
                  std::uint64_t holder) {
  const Item item = rule.item(name);
  return table.leave({&item, 1}, kStart + at, {.low = holder});
}
// The number of admitted calls out of `n` at one instant.
inline int admits(Table& table, const Rule& rule, std::string_view name, Nanos at, int n) {
  int admitted = 0;
  for (int i = 0; i < n; ++i) admitted += take(table, rule, name, at) ? 1 : 0;
  return admitted;
}

// A different key for each number.
inline std::string nth(int i) { return "key " + std::to_string(i); }

using support::Folder;

}  // namespace weir::store
