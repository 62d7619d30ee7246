#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/saturating.h"
#include "core/window.h"

// The time as scripts count it, in microseconds of the Unix epoch.

namespace weir::store::redis {

// An estimate of the server's clock from its last response. Only calendar quotas use it; a wrong
// estimate costs them a second round trip.
struct ScriptTime {
  Instant now{};
};

constexpr std::int64_t micros(Instant t) { return ns(t) / 1000; }
// The first microsecond that is not before `t`.
constexpr std::int64_t micros_rounded_up(Instant t) { return to_int64(ceil_div(ns(t), 1000)); }
constexpr Instant at_micro(std::int64_t micros) { return instant(micros * 1000); }

// The bounds of three periods of the calendar, in microseconds: the one before `t`, the one of `t`,
// and the one after.
std::array<std::int64_t, 4> periods_around(const core::Calendar& calendar, Instant t);

// ---- For tests, which set the time

// A unique birth for keys of tests, which cannot use the time. Thread-safe.
std::uint64_t next_test_birth();
// The time to send: rounded down to microseconds for limits that do not count nanoseconds.
Instant test_time(Instant given, bool counts_nanos);
// Appends the time and the birth in the format that clock.lua parses.
void append_test_time(std::string& out, Instant time, std::uint64_t birth);

}  // namespace weir::store::redis
