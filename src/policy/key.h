#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/parts.h"
#include "weir/result.h"

namespace weir::policy {

// What a request says it is about: a key, or parts of one. Borrowed from the request.
struct Subject {
  std::string_view key;         // used if there are no parts
  std::span<const Part> parts;  // at most Parts::kMost
};

inline constexpr std::size_t kLongestKey = 4096;

// The bytes that stand for a subject. Bytes of parts and bytes of a whole key may be the same and
// mean different things.
struct Key {
  bool of_parts = false;
  std::string_view bytes;
};

// The key of a subject under a limit that counts by the parts `by` (all of it if there are none).
// Two different subjects never share it: names and values of parts carry their length. `buffer` is
// where the bytes of parts are put together.
Result<Key, Error> key_of(const Subject& subject, const std::vector<std::string>& by,
                          std::string& buffer);

// Whether a subject has nothing for one of the parts that a limit counts by (or no key).
bool misses(const Subject& subject, const std::vector<std::string>& by);

// The name by which nodes that share usage know a subject that has such a key: `head`, who it is,
// `tail` (see store/key_name.h).
void append_name(std::string& name, std::string_view head, const Subject& subject,
                 const std::vector<std::string>& by, std::string_view tail);

}  // namespace weir::policy
