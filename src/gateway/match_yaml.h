#pragma once

#include "gateway/config.h"
#include "policy/yaml.h"

namespace weir::gateway {

// `match:`: hosts, paths and methods in normalised form.
MatchRules read_match(const policy::YamlNode& node, policy::Problems& problems);

}  // namespace weir::gateway
