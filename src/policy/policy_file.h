#pragma once

#include <map>
#include <string>
#include <vector>

#include "policy/limit.h"
#include "policy/source.h"
#include "weir/memory.h"

namespace weir::policy {

struct Policy {
  std::vector<Limit> limits;
  WhenFull when_full = WhenFull::share;
};

using PolicySet = std::map<std::string, Policy, std::less<>>;

// The policies of a file. Problems are added to the list, all of them at once; a file with
// problems must not be used.
PolicySet read_policies(const Source& source, Problems& problems);

}  // namespace weir::policy
