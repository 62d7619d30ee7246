#pragma once

#include <functional>
#include <optional>
#include <set>
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
  bool is_held = false;           // for as long as a call takes, by a concurrent limit
  Cost cost{};
};

// Those of all limits of a policy, where no override and no shift says otherwise.
std::vector<Grant> grants_of(const Policy& policy);

// The names that its concurrent limits have, in overrides and shifts as well, and no other limit.
std::set<std::string, std::less<>> names_of_held(const Policy& policy);

}  // namespace weir::policy
