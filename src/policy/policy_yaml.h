#pragma once

#include "policy/policy_file.h"
#include "policy/yaml.h"

namespace weir::policy {

// One policy as a policy file has it. Problems are added to the list.
Policy read_policy(const Node& node, Problems& problems);

// Where a policy asks for a scope that there is not. Added to `problems`.
void check_scopes(const Node& node, Sharing sharing, Problems& problems);

// As a policy file says it.
std::string_view to_text(WhenFull when_full);

}  // namespace weir::policy
