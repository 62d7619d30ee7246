#pragma once

#include "policy/schedule.h"
#include "policy/yaml.h"

namespace weir::policy {

// Reads the fields `days`, `hours` and `in` of a shift. Problems are added to the list.
Hours read_hours(const YamlNode& shift, Problems& problems);

}  // namespace weir::policy
