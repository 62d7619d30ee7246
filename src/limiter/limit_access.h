#pragma once

#include "core/limit.h"
#include "weir/limit.h"

namespace weir {

// What a public Limit stands for. Lives as long as any copy of it.
const core::Limit& rule_of(const Limit& limit) noexcept;

// A public Limit for one that was made elsewhere, from text for instance.
Limit limit_of(core::Limit rule);

}  // namespace weir
