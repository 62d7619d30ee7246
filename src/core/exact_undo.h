#pragma once

#include <algorithm>

#include "core/state.h"

namespace weir::core {

// Gives permits back by recomputing the take with less. Exact, but possible only if the key has not
// changed since; a part can be given back only if the limit has not changed either.
template <typename L>
State undo_exactly(const L& limit, const State& state, Receipt& receipt, Permits back) {
  back = std::clamp<Permits>(back, 0, receipt.taken);
  if (back == 0 || state != receipt.after) return state;
  const bool same_limit = debit(limit, receipt.before, receipt.at, receipt.taken) == receipt.after;
  if (back < receipt.taken && !same_limit) return state;
  receipt.taken -= back;
  receipt.after = debit(limit, receipt.before, receipt.at, receipt.taken);
  return receipt.after;
}

}  // namespace weir::core
