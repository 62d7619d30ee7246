#pragma once

#include <cctz/time_zone.h>

#include <string>

#include "weir/result.h"

namespace weir::policy {

// A zone of the system's tz database. An unknown one is an error with a suggestion.
Result<cctz::time_zone, std::string> load_zone(const std::string& name);

}  // namespace weir::policy
