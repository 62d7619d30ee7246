#pragma once

#include <cstdint>
#include <optional>

#include "gateway/client_address.h"
#include "gateway/config.h"

namespace weir::gateway {

// The permits to take before a request is admitted. `announced`: the Content-Length, if any. For
// `cost: bytes` it is at least 1; the actual bytes are settled at the end.
Permits cost_of(const RequestCost& cost, FieldSpan fields, std::optional<std::uint64_t> announced);

// The correction to settle at the end of `cost: bytes`: bytes that passed minus permits taken. 0
// for other kinds.
Permits cost_correction(const RequestCost& cost, Permits taken, std::uint64_t request_body,
                        std::uint64_t response_body);

}  // namespace weir::gateway
