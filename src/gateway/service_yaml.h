#pragma once

#include "gateway/config.h"
#include "policy/yaml.h"

namespace weir::gateway {

// `upstream:`: http://host:port, or a list of them.
std::vector<Upstream> read_upstreams(const policy::YamlNode& node, policy::Problems& problems);

// Reads these fields of a map: balance, timeouts, retries, health, idle_connections.
void read_service(const policy::YamlNode& map, ServiceConfig& service, policy::Problems& problems);

}  // namespace weir::gateway
