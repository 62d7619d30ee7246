#pragma once

#include <memory>

#include "core/window.h"

namespace weir::core {

// Days of 23, 24 and 25 hours in turn, from the Unix epoch on: a calendar whose periods differ in
// length, as daylight saving makes them, without a time zone.
std::shared_ptr<const Calendar> uneven_days();

}  // namespace weir::core
