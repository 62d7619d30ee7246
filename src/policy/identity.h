#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/limit.h"

namespace weir::policy {

// By what each limit of a policy is known through edits: its name, or else what it counts by, its
// algorithm, its period and the how-manieth of equals it is. What was used stays with the identity,
// whatever becomes of the numbers; it ends with the algorithm, whose states mean nothing to others.
std::vector<std::string> identities_of(std::string_view policy, const std::vector<Limit>& limits);

// The same within a policy, for people to read: "bucket/1s", "bucket/1s/2", "window=logins". What a
// limit counts by is not in it.
std::vector<std::string> readable_identities_of(const std::vector<Limit>& limits);

}  // namespace weir::policy
