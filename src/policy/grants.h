#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policy/policy_file.h"

namespace weir::policy {

// The capacity of a limit per time, as the RateLimit-Policy field states it.
struct Grant {
  std::string name;  // or position
  Permits capacity = 0;
  std::optional<Nanos> window{};  // time in which `capacity` is granted; none: no such time
  Permits per_second = 0;         // rounded to nearest; 0: not a rate
  bool is_concurrent = false;     // a concurrent limit: permits are held for the time of a call
  Cost cost{};
};

// The grants of a policy's default limits (without overrides and shifts).
std::vector<Grant> grants_of(const Policy& policy);

// The names that only concurrent limits of the policy have, overrides and shifts included.
std::set<std::string, std::less<>> concurrent_limit_names(const Policy& policy);

}  // namespace weir::policy
