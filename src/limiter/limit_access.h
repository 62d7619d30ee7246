#pragma once

#include "core/limit.h"
#include "weir/limit.h"

namespace weir {

// The core::Limit of a public Limit. Lives as long as any copy of it.
const core::Limit& core_limit_of(const Limit& limit) noexcept;

// A public Limit of a core::Limit, for example one that was parsed from text.
Limit limit_of(core::Limit limit);

}  // namespace weir
