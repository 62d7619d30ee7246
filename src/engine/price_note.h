#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/rules.h"

// The prices of all policies in binary form, for the state file. After a restart, the states of
// keys that were not asked for since a price change are converted by it. The format is part of the
// state file's format, and has no version of its own.

namespace weir::engine {

// Writes at most `most` bytes, which must have room for one epoch of a few limits. If there is too
// little room, removed policies are dropped first, then the oldest epochs.
std::string price_note(const Rules& rules, std::size_t max_bytes);

// Reads rules without policies, as predecessors of the first ones after a restart: the policies of
// the note count as removed. None if the note is malformed. Adds their names to the string pool.
std::optional<Rules> read_price_note(std::string_view note, StringPool& strings);

}  // namespace weir::engine
