#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/yaml.h"

// Limits that routes of a gateway have of their own. They are policies like all others, so that
// everything that is done with policies is done with them, and by whoever does not know gateways.

namespace weir::policy {

// The fields that make a route's own policy, of which `limits` is the one that it needs.
std::span<const std::string_view> route_policy_fields();

// Its `name:`, or its position from 0.
std::string route_name(const Node& route, std::size_t position);

// gateway/<name of the route>, and that of its bandwidth.
std::string route_policy_name(std::string_view route);
std::string bandwidth_policy_name(std::string_view route);

struct RoutePolicy {
  std::string name;
  Node written;  // as `policies:` would have it
};
std::vector<RoutePolicy> route_policies(const Node& gateway);

}  // namespace weir::policy
