#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/limit.h"
#include "policy/overrides.h"

// What operators order for a while, over what is written: more for somebody, nothing for somebody,
// less for all.

namespace weir::policy {

// What becomes of a limit: so many times as much, and so much more. Of a rate and of its burst, of
// a queue and of its places, of whatever a limit counts.
struct Change {
  static constexpr std::int64_t kOne = 1'000'000;

  std::int64_t millionths = kOne;
  Permits more = 0;

  friend bool operator==(const Change&, const Change&) = default;
};

// The limit after the change. It never becomes less than one permit, and is rounded down.
Result<core::Limit, core::Flaw> changed(const core::Limit& limit, const Change& change);

struct Order {
  enum class Verb : std::uint8_t {
    boost,    // other limits, higher ones
    block,    // every call is refused
    pause,    // every call passes: the limits go on as shadows
    squeeze,  // other limits, lower ones
  };

  Verb verb = Verb::boost;
  std::string who{};  // as an override says it; empty: everybody. A block names somebody, or "*"
  Change change{};    // of a boost and a squeeze
  Instant until{};
};

// True for an order in force that changes the limits of every key.
inline bool changes_all(const Order& order, Instant now) {
  const bool changes = order.verb == Order::Verb::boost || order.verb == Order::Verb::squeeze;
  return changes && order.until > now && order.who.empty();
}

// What the orders of a policy that are in force mean for everybody.
struct ForAll {
  std::vector<Change> changes{};
  bool paused = false;

  friend bool operator==(const ForAll&, const ForAll&) = default;
};
ForAll for_all(const std::vector<Order>& orders, Instant now);

// The limits as they are under orders. (A change that a limit cannot follow is left out.)
std::vector<Limit> under(const ForAll& orders, std::vector<Limit> limits);
std::vector<Limit> under(const Change& change, std::vector<Limit> limits);

// Keys that have limits of their own because of boosts.
struct Boosted {
  Pattern pattern;
  std::optional<std::size_t> own;  // the override that the limits come from; none: the usual ones
  const Order& by;                 // the boost that changes them
};

// The patterns of all boosts in force, and those of the overrides that a boost of a prefix is for.
// If several boosts are for a pattern, the most specific one changes it.
// `index` is that of the overrides.
std::vector<Boosted> boosted(const std::vector<Order>& orders,
                             const std::vector<Override>& overrides, const PatternIndex& index,
                             Instant now);

// The overrides that a boost may meet in a request and does not change: they are for another part
// than the boost.
std::vector<Pattern> not_reached(const Order& order, const std::vector<Override>& overrides);

}  // namespace weir::policy
