#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/limit.h"
#include "policy/overrides.h"

// Orders: temporary overrides by operators, on top of the policy file. Boost or block a key, pause
// a policy, squeeze all of its limits.

namespace weir::policy {

// A change of a limit: its numbers times `millionths` / 10^6, plus `more`. Applies to the rate and
// its burst, to a queue and its length, to the count of any other limit.
struct Change {
  static constexpr std::int64_t kOne = 1'000'000;

  std::int64_t millionths = kOne;
  Permits more = 0;

  friend bool operator==(const Change&, const Change&) = default;
};

// The changed limit, rounded down, but at least one permit.
Result<core::Limit, core::Flaw> changed(const core::Limit& limit, const Change& change);

struct Order {
  enum class Verb : std::uint8_t {
    boost,    // raises limits
    block,    // every call is refused
    pause,    // every call passes; the limits count as shadows
    squeeze,  // lowers limits
  };

  Verb verb = Verb::boost;
  // A pattern as in `overrides:`; empty: all keys. A block always has one, perhaps "*".
  std::string who{};
  Change change{};  // of boost and squeeze
  Instant until{};
};

// True for an order in force that changes the limits of all keys.
inline bool changes_all(const Order& order, Instant now) {
  const bool changes = order.verb == Order::Verb::boost || order.verb == Order::Verb::squeeze;
  return changes && order.until > now && order.who.empty();
}

// The combined effect of a policy's orders in force on all keys.
struct GlobalOrders {
  std::vector<Change> changes{};
  bool paused = false;

  friend bool operator==(const GlobalOrders&, const GlobalOrders&) = default;
};
GlobalOrders global_orders(const std::vector<Order>& orders, Instant now);

// The limits under these orders. A change that cannot be applied to a limit is left out.
std::vector<Limit> under(const GlobalOrders& orders, std::vector<Limit> limits);
std::vector<Limit> under(const Change& change, std::vector<Limit> limits);

// A pattern of keys whose limits are changed by a boost.
struct BoostedPattern {
  Pattern pattern;
  std::optional<std::size_t> own;  // override that has the limits; none: the default limits
  const Order& by;                 // the boost
};

// The patterns of all boosts in force, and of the overrides that a boost of a prefix covers. If
// several boosts cover a pattern, the most specific one applies. `index` is of the overrides.
std::vector<BoostedPattern> boosted_patterns(const std::vector<Order>& orders,
                                             const std::vector<Override>& overrides,
                                             const PatternIndex& index, Instant now);

// The overrides that may apply to a boosted_patterns request but are not boosted_patterns, since
// they are for another part of the key than the boost.
std::vector<Pattern> not_reached(const Order& order, const std::vector<Override>& overrides);

}  // namespace weir::policy
