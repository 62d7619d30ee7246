#pragma once

#include "gateway/config.h"
#include "policy/yaml.h"

namespace weir::gateway {

// `match:`: hosts, paths and methods, as requests are compared with them.
Match read_match(const policy::Node& node, policy::Problems& problems);

}  // namespace weir::gateway
