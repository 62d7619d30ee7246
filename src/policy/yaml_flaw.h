#pragma once

#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>

#include <optional>

#include "policy/source.h"

// Error messages for texts that are not valid YAML.

namespace weir::policy {

inline SourcePosition place_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// Refuses a text that is too long to parse in reasonable time, is not UTF-8, or has control
// characters: the parser takes one for the end of the text and others for UTF-16.
std::optional<Problem> check_text(const Source& source);

// A message for a parser's exception. `open` is the start of the innermost unclosed list or map.
Problem explain(const YAML::Exception& exception, const Source& source,
                std::optional<SourcePosition> open);

// The position of a "---" between the values that begin at `first` and `second`.
std::optional<SourcePosition> dashes_between(const Source& source, SourcePosition first,
                                             SourcePosition second);

}  // namespace weir::policy
