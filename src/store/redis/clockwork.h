#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/saturating.h"
#include "core/window.h"

// Time as it is told to scripts, which count in microseconds.

namespace weir::store::redis {

// What is known of the server's time before it is asked: `now` by its clock, as nearly as the last
// answer tells. Only calendar quotas look at it, and a wrong one costs them a second question.
struct Clockwork {
  Instant now{};
};

constexpr std::int64_t micros(Instant t) { return ns(t) / 1000; }
// The first at which the instant has come.
constexpr std::int64_t micros_rounded_up(Instant t) { return to_int64(ceil_div(ns(t), 1000)); }
constexpr Instant at_micro(std::int64_t micros) { return instant(micros * 1000); }

// The ends of the calendar's periods around `t`.
std::array<std::int64_t, 4> periods_around(const core::Calendar& calendar, Instant t);

// ---- For tests, which give the time

// Births under the test prefix: no two are the same, whatever time tests say it is.
std::uint64_t next_test_birth();
// The time that is told. What lies between two microseconds is only told to those who know it.
Instant test_time(Instant given, bool knows_nanos);
// As scripts read it.
void append_test_time(std::string& out, Instant time, std::uint64_t birth);

}  // namespace weir::store::redis
