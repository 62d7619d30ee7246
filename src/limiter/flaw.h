#pragma once

#include "core/limit.h"
#include "core/rate.h"
#include "weir/quota.h"

namespace weir {

// Throws std::invalid_argument that says what is wrong with the numbers, and what to write.
[[noreturn]] void throw_flaw(core::Flaw flaw);

// For limits that programmers write down: a flaw in one is their mistake.
template <typename T>
T made_or_throw(Result<T, core::Flaw> made) {
  if (!made) throw_flaw(made.error());
  return *std::move(made);
}

// `limit`, unless it is a concurrency limit: throws std::invalid_argument with `message` then.
core::Limit not_concurrent(core::Limit limit, const char* message);

inline core::Rate core_rate(const Rate& rate) {
  return {.count = rate.count(), .period = rate.period()};
}

}  // namespace weir
