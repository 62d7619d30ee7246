#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "gateway/config.h"
#include "gateway/key_yaml.h"
#include "policy/yaml.h"

namespace weir::gateway {

// The context for reading routes.
struct RouteReadContext {
  const policy::DaemonConfig& file;
  const ReadText& read_text;
  policy::Problems& problems;
  policy::Problems& warnings;
};

// The fields that may stand beside `routes:` as defaults of all routes.
std::span<const std::string_view> route_settings();

// Reads these fields from a map; absent ones keep the value that `route` has.
void read_settings(const policy::YamlNode& map, RouteConfig& route,
                   const RouteReadContext& reading);

// Reads `routes:`. `defaults` has the defaults of all routes.
std::vector<RouteConfig> read_routes(const policy::YamlNode& node, const RouteConfig& defaults,
                                     const RouteReadContext& reading);

}  // namespace weir::gateway
