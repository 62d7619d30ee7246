#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "gateway/config.h"
#include "gateway/key_yaml.h"
#include "policy/yaml.h"

namespace weir::gateway {

// What routes are read with.
struct RouteReading {
  const policy::Config& file;
  const ReadText& read_text;
  policy::Problems& problems;
  policy::Problems& warnings;
};

// The fields that may stand beside `routes:` and hold for all of them.
std::span<const std::string_view> route_settings();

// Those of a map, over what `route` has.
void read_settings(const policy::Node& map, Route& route, const RouteReading& reading);

// `routes:`. `common` has what holds for all that do not say otherwise.
std::vector<Route> read_routes(const policy::Node& node, const Route& common,
                               const RouteReading& reading);

}  // namespace weir::gateway
