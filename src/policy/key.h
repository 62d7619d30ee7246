#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weir/result.h"

namespace weir::policy {

// The parts of a key by name, in the order of their names.
using Parts = std::map<std::string, std::string, std::less<>>;

// What a request says it is about: a key, or parts of one.
struct Subject {
  std::string key;  // used if there are no parts
  Parts parts;
};

inline constexpr std::size_t kLongestKey = 4096;

// What is wrong with a subject: the part that is missing, or the length.
struct KeyError {
  std::string message;
};

// The bytes that stand for the subject under a limit that counts by the parts `by` (all of it if
// there are none). Two different subjects never share them: names and values carry their length.
Result<std::string, KeyError> key_of(const Subject& subject, const std::vector<std::string>& by);

}  // namespace weir::policy
