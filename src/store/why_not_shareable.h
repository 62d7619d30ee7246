#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/int128.h"
#include "core/limit.h"

namespace weir::store {

// Lua scripts count in doubles, which are exact up to here: 2^53 - 1.
inline constexpr std::int64_t kMaxSharedCount = (std::int64_t{1} << 53) - 1;

// The reason why a shared store cannot keep this limit, and what to write instead. Empty if it can.
std::optional<std::string> why_not_shareable(const core::Limit& limit);

// The reason why permits of this limit cannot be leased to nodes, and what to write instead. Empty
// if they can.
std::optional<std::string> why_not_leasable(const core::Limit& limit);

// Maximum debt of a bucket whose permits are leased, in parts of a nanosecond: the sum of two such
// debts is exact in a double. The next lease forgives any debt above it.
inline constexpr Int128 kMaxLeasedDebt = Int128{1} << 52;
// Maximum term of a lease: 52 days.
inline constexpr Nanos kMaxLeaseTerm{std::int64_t{1} << 52};

}  // namespace weir::store
