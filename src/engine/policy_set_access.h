#pragma once

#include "policy/policy_file.h"
#include "weir/policy_set.h"

namespace weir {

// What a public PolicySet stands for.
const policy::PolicySet& policies_of(const PolicySet& set) noexcept;
PolicySet policy_set_of(policy::PolicySet policies);

}  // namespace weir
