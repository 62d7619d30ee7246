#pragma once

#include <optional>

#include "policy/limit.h"
#include "policy/yaml.h"

namespace weir::policy {

// A limit as a policy file writes it: the text form, or a map with `limit:` or the same as fields,
// and what it applies to. Nothing if there were problems, which are added to the list.
std::optional<Limit> read_limit(const Node& node, Problems& problems);

// A list of limits, or a single one.
std::vector<Limit> read_limits(const Node& node, Problems& problems);

// As a policy file says it; empty: the standard one, of which it says nothing.
std::string_view to_text(Scope scope);

}  // namespace weir::policy
