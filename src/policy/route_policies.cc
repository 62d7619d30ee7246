#include "policy/route_policies.h"

#include <algorithm>
#include <array>

namespace weir::policy {

namespace {

constexpr std::array<std::string_view, 6> kFields{"limits", "on_store_failure", "when_full",
                                                  "shadow", "overrides",        "schedule"};

// The fields of the route that belong to its inline policy.
YamlNode policy_in(const YamlNode& route) {
  YamlNode policy;
  policy.kind = YamlNode::Kind::map;
  policy.place = route.place;
  std::ranges::copy_if(route.fields, std::back_inserter(policy.fields), [](const auto& field) {
    return std::ranges::find(kFields, field.name) != kFields.end();
  });
  return policy;
}

// `bandwidth: 10MB/s`, or `bandwidth: { limit: 10MB/s, … }`.
YamlNode policy_of_bandwidth(const YamlNode::Field& bandwidth) {
  YamlNode policy;
  policy.kind = YamlNode::Kind::map;
  policy.place = bandwidth.value->place;
  const auto& fields = bandwidth.value->fields;
  const auto limit = std::ranges::find(fields, "limit", &YamlNode::Field::name);
  const bool inside = bandwidth.value->is_map() && limit != fields.end();
  policy.fields.push_back({"limits", bandwidth.place, inside ? limit->value : bandwidth.value});
  return policy;
}

}  // namespace

std::span<const std::string_view> route_policy_fields() { return kFields; }

std::string route_name(const YamlNode& route, std::size_t position) {
  const YamlNode* name = route.find("name");
  const bool named = name != nullptr && name->is_scalar() && !name->text.empty();
  return named ? name->text : std::to_string(position);
}

std::string route_policy_name(std::string_view route) { return "gateway/" + std::string{route}; }
std::string bandwidth_policy_name(std::string_view route) {
  return route_policy_name(route) + "/bandwidth";
}

std::vector<RoutePolicy> route_policies(const YamlNode& gateway) {
  std::vector<RoutePolicy> policies;
  const YamlNode* routes = gateway.find("routes");
  if (routes == nullptr) return policies;
  for (std::size_t i = 0; i < routes->items.size(); ++i) {
    const YamlNode& route = *routes->items[i];
    const std::string name = route_name(route, i);
    if (route.find("limits") != nullptr) {
      policies.push_back({route_policy_name(name), policy_in(route)});
    }
    const auto bandwidth = std::ranges::find(route.fields, "bandwidth", &YamlNode::Field::name);
    if (bandwidth != route.fields.end()) {
      policies.push_back({bandwidth_policy_name(name), policy_of_bandwidth(*bandwidth)});
    }
  }
  return policies;
}

}  // namespace weir::policy
