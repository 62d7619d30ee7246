#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "policy/orders.h"

namespace weir::server {

// An order, as an operator gave it.
struct GivenOrder {
  std::uint64_t id = 0;
  std::string policy{};  // empty: all of them
  policy::Order order{};
  std::string reason{};  // in the operator's words, for other operators

  // Whether it is about that policy.
  bool concerns(std::string_view name) const { return policy.empty() || policy == name; }
  // A later one replaces an earlier one about the same.
  bool is_about_the_same_as(const GivenOrder& other) const {
    return order.verb == other.order.verb && policy == other.policy && order.who == other.order.who;
  }
};

// What is wrong with an order that somebody wrote.
struct OrderFlaw {
  std::string field;
  std::string detail;
};

// {"policy":"login","key":"alice","times":2,"for":"10min"}. `now` is when it was given.
Result<GivenOrder, OrderFlaw> read_order(policy::Order::Verb verb, const nlohmann::json& written,
                                         Instant now);

// The same with its id, its verb and the time at which it ends.
nlohmann::json to_json(const GivenOrder& given);
// What to_json has written, at any time.
Result<GivenOrder, OrderFlaw> read_kept_order(const nlohmann::json& kept);

// For people: boost ×2 of "alice" under "login" until 2026-01-01T00:00:00Z.
std::string to_text(const GivenOrder& given);

std::string_view name_of(policy::Order::Verb verb);
inline constexpr int kOrderVerbs = 4;

}  // namespace weir::server
