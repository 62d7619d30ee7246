#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/rules.h"

// The prices of all policies as a text for the state file: after a restart, states of keys that
// have not been asked for since a change are carried over by what held before. The format belongs
// to that of the state file, which tells which version it is of.

namespace weir::engine {

// At most `most` bytes, which hold one epoch of a few limits at least. Where that is too little,
// policies that have left are forgotten first, then the oldest epochs.
std::string price_note(const Rules& rules, std::size_t most);

// Rules of no policies, before those that follow a restart: the policies of the note have left.
// None if the text makes no sense. Names are added to `names`.
std::optional<Rules> read_price_note(std::string_view note, Names& names);

}  // namespace weir::engine
