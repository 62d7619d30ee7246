#pragma once

#include <optional>
#include <string>

#include "policy/policy_file.h"

// Whether the limits of a policy can become what its orders make of them.

namespace weir::policy {

// What is wrong, in words, if a limit of the policy cannot follow an order in force: which limit,
// whose it is, and why. With `since`, one of the policy's orders, only what that order adds counts.
std::optional<std::string> unfit(const Policy& policy, Instant now, const Order* since = nullptr);

}  // namespace weir::policy
