#pragma once

#include "weir/decision.h"

#include "base/time.h"

namespace weir::core {

using weir::Decision;
using weir::kNever;
using weir::Outcome;

// A call, as a limit sees it.
struct Ask {
  Permits cost = 1;
  Nanos max_wait{0};  // how long the caller would wait for its turn; kForever: without limit
  friend bool operator==(const Ask&, const Ask&) = default;
};

}  // namespace weir::core
