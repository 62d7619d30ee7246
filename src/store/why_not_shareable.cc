#include "store/why_not_shareable.h"

#include <type_traits>

namespace weir::store {

namespace {

// Redis reports its time in microseconds, so scripts cannot count in smaller units.
std::optional<std::string> why_not_whole_micros(const char* what, Nanos span) {
  if (span.count() % 1000 == 0) return std::nullopt;
  return std::string(what) + " of " + std::to_string(span.count()) +
         "ns is not a whole number of microseconds, the unit in which a shared store counts: round "
         "it "
         "up to " +
         std::to_string(span.count() / 1000 + 1) + "us";
}

std::optional<std::string> why_not_countable(Permits count) {
  if (count <= kMaxSharedCount) return std::nullopt;
  return "a count of " + std::to_string(count) +
         " is more than a shared store can count: at most " + std::to_string(kMaxSharedCount);
}

// Half of the maximum debt: the other half is for permits that are spent beyond the limit.
std::optional<std::string> why_not_exact(const core::Bucket& limit) {
  if (limit.depth < kMaxLeasedDebt / 2) return std::nullopt;
  return "a bucket that takes so long to fill at a rate with so fine a fraction cannot be leased: "
         "its debt is too large to be exact in one number of a script; make its burst smaller, or "
         "write scope: fleet";
}

const char* why_never_leasable(const core::NginxQueue&) {
  return "a limit that counts as nginx does cannot be leased: only the store knows the order of "
         "waiting calls; write scope: fleet, or use a bucket";
}
const char* why_never_leasable(const core::Smooth& limit) {
  if (limit.warms_up()) {
    return "a limit that warms up cannot be leased: the price of a permit depends on all earlier "
           "calls, which only the store knows; write scope: fleet, or use a bucket";
  }
  return "a smooth limit cannot be leased: it spaces calls in their order, which only the store "
         "knows; write scope: fleet, or use a bucket";
}
const char* why_never_leasable(const core::SlidingLog&) {
  return "an exact sliding window cannot be leased: it records the time at which each permit is "
         "spent, and leased permits are spent later; write scope: fleet, or sliding without exact";
}
const char* why_never_leasable(const core::Concurrency&) {
  return "a concurrent limit cannot be leased: the store records each holder, and holders leave "
         "one "
         "by one; write scope: fleet";
}
const char* why_never_leasable(const core::RedisCell&) {
  return "a limit that comes with the call cannot be leased: no node knows it before the call; "
         "define it in a policy";
}

}  // namespace

std::optional<std::string> why_not_shareable(const core::Limit& limit) {
  return std::visit(
      [](const auto& l) -> std::optional<std::string> {
        using L = std::decay_t<decltype(l)>;
        if constexpr (std::is_same_v<L, core::Concurrency>) {
          return why_not_whole_micros("a lease", l.hold_time);
        } else if constexpr (std::is_same_v<L, core::Window> ||
                             std::is_same_v<L, core::SlidingCounter> ||
                             std::is_same_v<L, core::SlidingLog>) {
          if (auto why = why_not_whole_micros("a period", l.period)) return why;
          return why_not_countable(l.count);
        } else if constexpr (std::is_same_v<L, core::CalendarWindow>) {
          return why_not_countable(l.count);
        } else {
          return std::nullopt;
        }
      },
      limit);
}

std::optional<std::string> why_not_leasable(const core::Limit& limit) {
  if (auto why = why_not_shareable(limit)) return why;
  return std::visit(
      [](const auto& l) -> std::optional<std::string> {
        using L = std::decay_t<decltype(l)>;
        if constexpr (std::is_same_v<L, core::Bucket>) {
          if (!l.queue) return why_not_exact(l);
          return "a queue cannot be leased: only the store knows the order of waiting calls; write "
                 "scope: fleet";
        } else if constexpr (std::is_same_v<L, core::Window> ||
                             std::is_same_v<L, core::SlidingCounter> ||
                             std::is_same_v<L, core::CalendarWindow>) {
          return std::nullopt;
        } else {
          return why_never_leasable(l);
        }
      },
      limit);
}

}  // namespace weir::store
