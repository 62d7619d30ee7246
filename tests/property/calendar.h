#pragma once

#include <memory>

#include "core/window.h"

namespace weir::core {

// A calendar without a time zone whose days have 23, 24 and 25 hours in turn, from the Unix epoch
// on. Its periods differ in length, as with daylight saving time.
std::shared_ptr<const Calendar> uneven_days();

}  // namespace weir::core
