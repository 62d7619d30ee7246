#pragma once

#include "core/limit.h"
#include "core/rate.h"
#include "weir/quota.h"

namespace weir {

// Throws std::invalid_argument with what is wrong with the numbers and what to write.
[[noreturn]] void throw_flaw(core::Flaw flaw);

// For limits in code: a flaw is a programming error.
template <typename T>
T made_or_throw(Result<T, core::Flaw> made) {
  if (!made) throw_flaw(made.error());
  return *std::move(made);
}

// Returns `limit`. Throws std::invalid_argument with `message` if it is a concurrency limit.
core::Limit require_not_concurrent(core::Limit limit, const char* message);

inline core::Rate core_rate(const Rate& rate) {
  return {.count = rate.count(), .period = rate.period()};
}

}  // namespace weir
