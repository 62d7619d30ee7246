#include "store/redis/script_time.h"

#include <algorithm>
#include <atomic>
#include <random>

namespace weir::store::redis {

std::array<std::int64_t, 4> periods_around(const core::Calendar& calendar, Instant t) {
  t = in_range(t);
  const core::Span current = calendar.span_at(t);
  const core::Span previous = calendar.span_at(std::max(current.start - Nanos{1}, kEarliest));
  const core::Span next = calendar.span_at(std::min(current.end, kLatest));
  return {std::max<std::int64_t>(micros(previous.start), 0),
          std::max<std::int64_t>(micros(current.start), 0), micros(current.end), micros(next.end)};
}

std::uint64_t next_test_birth() {
  static std::atomic<std::uint64_t> births = [] {
    std::random_device random;
    return (std::uint64_t{random()} << 21) + 1;
  }();
  return births.fetch_add(1, std::memory_order_relaxed);
}

Instant test_time(Instant given, bool counts_nanos) {
  const Instant now = std::max(in_range(given), at_micro(1));
  return counts_nanos ? now : at_micro(micros(now));
}

void append_test_time(std::string& out, Instant time, std::uint64_t birth) {
  constexpr std::int64_t second = 1'000'000'000;
  out += std::to_string(ns(time) / second) + ' ' + std::to_string(ns(time) % second) + ' ' +
         std::to_string(birth);
}

}  // namespace weir::store::redis
