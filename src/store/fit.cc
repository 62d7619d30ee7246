#include "store/fit.h"

#include <type_traits>

namespace weir::store {

namespace {

// The server's clock counts microseconds, and nothing between them can be told apart.
std::optional<std::string> flaw_of_span(const char* what, Nanos span) {
  if (span.count() % 1000 == 0) return std::nullopt;
  return std::string(what) + " of " + std::to_string(span.count()) +
         "ns is no whole number of microseconds, which a shared store counts in: round it up to " +
         std::to_string(span.count() / 1000 + 1) + "us";
}

std::optional<std::string> flaw_of_count(Permits count) {
  if (count <= kMostCount) return std::nullopt;
  return "a count of " + std::to_string(count) +
         " is more than a shared store can count: at most " + std::to_string(kMostCount);
}

// Half of what a debt may be, so that there is room for what is spent beyond the limit.
std::optional<std::string> flaw_of_depth(const core::Bucket& limit) {
  if (limit.depth < kMostLentDebt / 2) return std::nullopt;
  return "a bucket that takes so long to fill, at so fine a price, cannot be leased: what is owed "
         "is more than a store reckons with exactly in one number; make its burst smaller, or "
         "write "
         "scope: fleet";
}

const char* why_not_leased(const core::NginxQueue&) {
  return "a limit that counts as nginx does cannot be leased: waiting has an order, which only the "
         "store knows; write scope: fleet, or a bucket";
}
const char* why_not_leased(const core::Smooth& limit) {
  if (limit.warms_up()) {
    return "a limit that warms up cannot be leased: what a permit costs depends on all calls "
           "before "
           "it, which only the store knows; write scope: fleet, or a bucket";
  }
  return "a smooth limit cannot be leased: it spaces calls in their order, which only the store "
         "knows; write scope: fleet, or a bucket";
}
const char* why_not_leased(const core::ExactLog&) {
  return "an exact sliding window cannot be leased: it counts when each permit is spent, and what "
         "is "
         "lent is spent later; write scope: fleet, or sliding without exact";
}
const char* why_not_leased(const core::Concurrency&) {
  return "a concurrent limit cannot be leased: it knows each holder, and seats are given back one "
         "by "
         "one; write scope: fleet";
}
const char* why_not_leased(const core::Cell&) {
  return "a limit that comes with the call cannot be leased: no node can know it ahead of need; "
         "name it in a policy";
}

}  // namespace

std::optional<std::string> unfit(const core::Limit& limit) {
  return std::visit(
      [](const auto& l) -> std::optional<std::string> {
        using L = std::decay_t<decltype(l)>;
        if constexpr (std::is_same_v<L, core::Concurrency>) {
          return flaw_of_span("a lease", l.lease);
        } else if constexpr (std::is_same_v<L, core::Window> || std::is_same_v<L, core::Sliding> ||
                             std::is_same_v<L, core::ExactLog>) {
          if (auto flaw = flaw_of_span("a period", l.period)) return flaw;
          return flaw_of_count(l.count);
        } else if constexpr (std::is_same_v<L, core::Quota>) {
          return flaw_of_count(l.count);
        } else {
          return std::nullopt;
        }
      },
      limit);
}

std::optional<std::string> unfit_for_loans(const core::Limit& limit) {
  if (auto flaw = unfit(limit)) return flaw;
  return std::visit(
      [](const auto& l) -> std::optional<std::string> {
        using L = std::decay_t<decltype(l)>;
        if constexpr (std::is_same_v<L, core::Bucket>) {
          if (!l.queue) return flaw_of_depth(l);
          return "a queue cannot be leased: waiting has an order, which only the store knows; "
                 "write "
                 "scope: fleet";
        } else if constexpr (std::is_same_v<L, core::Window> || std::is_same_v<L, core::Sliding> ||
                             std::is_same_v<L, core::Quota>) {
          return std::nullopt;
        } else {
          return why_not_leased(l);
        }
      },
      limit);
}

}  // namespace weir::store
