#pragma once

#include <algorithm>

#include "core/state.h"

namespace weir::core {

// Gives back by telling the story again with less taken. Exact, but possible only while nothing has
// happened to the key since, and for a part only under the limit it was taken under.
template <typename L>
State replayed_with_less(const L& limit, const State& state, Receipt& receipt, Permits back) {
  back = std::clamp<Permits>(back, 0, receipt.taken);
  if (back == 0 || state != receipt.after) return state;
  const bool same_limit = debit(limit, receipt.before, receipt.at, receipt.taken) == receipt.after;
  if (back < receipt.taken && !same_limit) return state;
  receipt.taken -= back;
  receipt.after = debit(limit, receipt.before, receipt.at, receipt.taken);
  return receipt.after;
}

}  // namespace weir::core
