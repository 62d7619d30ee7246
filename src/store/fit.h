#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/int128.h"
#include "core/limit.h"

namespace weir::store {

// Scripts count in doubles, which are exact up to here.
inline constexpr std::int64_t kMostCount = (std::int64_t{1} << 53) - 1;

// Why a limit cannot be kept in a shared store, if it cannot: what is wrong, and what would do.
std::optional<std::string> unfit(const core::Limit& limit);

// Why permits of a limit cannot be lent to nodes, if they cannot: the same.
std::optional<std::string> unfit_for_loans(const core::Limit& limit);

// Where permits are lent, a bucket's debt is at most this, in parts of a nanosecond: two of them
// can be added up exactly in a double. What is owed beyond is forgiven with the next loan.
inline constexpr Int128 kMostLentDebt = Int128{1} << 52;
// No loan lasts longer: 52 days.
inline constexpr Nanos kLongestTerm{std::int64_t{1} << 52};

}  // namespace weir::store
