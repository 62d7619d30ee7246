#pragma once

#include <optional>

#include "policy/limit.h"
#include "policy/yaml.h"

namespace weir::policy {

// Reads a limit of a policy file: the text form, or a map with `limit:` or the same as fields.
// Returns nothing if there were problems, which are added to the list.
std::optional<Limit> read_limit(const YamlNode& node, Problems& problems);

// Reads a list of limits, or a single limit.
std::vector<Limit> read_limits(const YamlNode& node, Problems& problems);

// The name of a scope in a policy file; empty for the standard scope, which has no name there.
std::string_view to_text(Scope scope);

}  // namespace weir::policy
