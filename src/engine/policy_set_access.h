#pragma once

#include "policy/policy_file.h"
#include "weir/policy_set.h"

namespace weir {

// The implementation of a public PolicySet, and the reverse.
const policy::PolicySet& policies_of(const PolicySet& set) noexcept;
PolicySet policy_set_of(policy::PolicySet policies);

}  // namespace weir
