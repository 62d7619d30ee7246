#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/limit.h"

namespace weir::policy {

// The identity of each limit of a policy, which stays the same when the policy is edited: its name,
// or else its key parts, algorithm, period and ordinal among equals. Usage belongs to the identity:
// it survives a change of the numbers, but not of the algorithm, since states of one algorithm mean
// nothing to another.
std::vector<std::string> identities_of(std::string_view policy, const std::vector<Limit>& limits);

// Identities within a policy for people to read, without key parts: "bucket/1s", "bucket/1s/2",
// "window=logins".
std::vector<std::string> readable_identities_of(const std::vector<Limit>& limits);

}  // namespace weir::policy
