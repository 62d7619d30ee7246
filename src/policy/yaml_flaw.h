#pragma once

#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>

#include <optional>

#include "policy/source.h"

// Why a text cannot be read as YAML, in words for who wrote it.

namespace weir::policy {

inline Place place_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// What a text must not hold, if it does: more than can be read in reasonable time, bytes that are
// not UTF-8, and control characters, of which the parser takes one for the end and others for the
// signs of UTF-16.
std::optional<Problem> check_text(const Source& source);

// What the parser stumbled over. `open` is where the innermost list or map begins that was open.
Problem explain(const YAML::Exception& exception, const Source& source, std::optional<Place> open);

// Where the "---" is that stands between what begins at `first` and `second`, if there is one.
std::optional<Place> dashes_between(const Source& source, Place first, Place second);

}  // namespace weir::policy
