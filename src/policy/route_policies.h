#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/yaml.h"

// Policies that routes of a gateway define inline. They become ordinary policies, so that code
// without knowledge of the gateway handles them as well.

namespace weir::policy {

// The fields of a route's inline policy. `limits` is the required one.
std::span<const std::string_view> route_policy_fields();

// The route's `name:`, or its position from 0.
std::string route_name(const YamlNode& route, std::size_t position);

// gateway/<route>, and the name of its bandwidth policy.
std::string route_policy_name(std::string_view route);
std::string bandwidth_policy_name(std::string_view route);

struct RoutePolicy {
  std::string name;
  YamlNode written;  // in the form of an entry of `policies:`
};
std::vector<RoutePolicy> route_policies(const YamlNode& gateway);

}  // namespace weir::policy
