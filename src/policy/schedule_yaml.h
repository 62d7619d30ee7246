#pragma once

#include "policy/schedule.h"
#include "policy/yaml.h"

namespace weir::policy {

// The days, hours and zone of a shift: the fields `days`, `hours` and `in` of its map. Problems are
// added to the list.
Hours read_hours(const Node& shift, Problems& problems);

}  // namespace weir::policy
