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
  std::string policy{};  // empty: all policies
  policy::Order order{};
  std::string reason{};  // for other operators

  bool concerns(std::string_view name) const { return policy.empty() || policy == name; }
  // True if one of them replaces the other: the later one wins.
  bool is_about_the_same_as(const GivenOrder& other) const {
    return order.verb == other.order.verb && policy == other.policy && order.who == other.order.who;
  }
};

// The reason why a text is not a valid order.
struct OrderError {
  std::string field;
  std::string detail;
};

// {"policy":"login","key":"alice","times":2,"for":"10min"}. `now` is when the order is given.
Result<GivenOrder, OrderError> read_order(policy::Order::Verb verb, const nlohmann::json& written,
                                          Instant now);

// The order with its id, its verb and the time at which it ends.
nlohmann::json to_json(const GivenOrder& given);
// Reads what to_json has written, also an order that has ended.
Result<GivenOrder, OrderError> read_saved_order(const nlohmann::json& saved);

// For people: boost ×2 of "alice" under "login" until 2026-01-01T00:00:00Z.
std::string to_text(const GivenOrder& given);

std::string_view name_of(policy::Order::Verb verb);
inline constexpr int kOrderVerbs = 4;

}  // namespace weir::server
