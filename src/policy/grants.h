#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/policy_file.h"

namespace weir::policy {

// What a limit grants, as clients are told of it.
struct Grant {
  std::string name;  // or position
  Permits capacity = 0;
  std::optional<Nanos> window{};  // in which that much is granted, where there is such a time
  Permits per_second = 0;         // to the nearest; 0 where that makes no sense
  Cost cost{};
};

// Those of all limits of a policy, where no override and no shift says otherwise.
std::vector<Grant> grants_of(const Policy& policy);

}  // namespace weir::policy
