#pragma once

#include "policy/policy_file.h"
#include "policy/yaml.h"

namespace weir::policy {

// Reads one policy of a policy file. Problems are added to the list.
Policy read_policy(const YamlNode& node, Problems& problems);

// Adds a problem for each scope that the store does not have.
void check_scopes(const YamlNode& node, Sharing sharing, Problems& problems);

// The name in a policy file: "share", "deny" or "allow".
std::string_view to_text(WhenFull when_full);

}  // namespace weir::policy
