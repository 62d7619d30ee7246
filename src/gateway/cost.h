#pragma once

#include <cstdint>
#include <optional>

#include "gateway/client_address.h"
#include "gateway/config.h"

namespace weir::gateway {

// The permits that a request takes before it is let in. `announced`: the length of its body, where
// it says one. Of `cost: bytes` that is at least 1; what really passed is settled at the end.
Permits cost_of(const Cost& cost, Fields fields, std::optional<std::uint64_t> announced);

// What is left to settle at the end of `cost: bytes`: how much more passed than was taken, or less
// (below zero). 0 for other kinds.
Permits unsettled(const Cost& cost, Permits taken, std::uint64_t request_body,
                  std::uint64_t response_body);

}  // namespace weir::gateway
