#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/parts.h"
#include "weir/result.h"

namespace weir::policy {

// The subject of a request: a key, or parts of one. Borrows from the request.
struct Subject {
  std::string_view key;         // ignored if there are parts
  std::span<const Part> parts;  // at most Parts::kMax
};

inline constexpr std::size_t kMaxKeyLength = 4096;

// The encoded bytes of a subject. Keys are equal only if `of_parts` is equal too: a key made of
// parts may have the same bytes as a whole key.
struct Key {
  bool of_parts = false;
  std::string_view bytes;
};

// The key of a subject under a limit that counts by the parts `by` (by the whole subject if `by` is
// empty). The encoding is injective: names and values of parts are length-prefixed. The result may
// point into `buffer`.
Result<Key, Error> key_of(const Subject& subject, const std::vector<std::string>& by,
                          std::string& buffer);

// True if the subject lacks one of the parts `by`, or has no key.
bool lacks_part(const Subject& subject, const std::vector<std::string>& by);

// Appends the store's name of a subject's key: `head`, the encoded subject, `tail` (see
// store/key_name.h). The subject must have such a key.
void append_name(std::string& name, std::string_view head, const Subject& subject,
                 const std::vector<std::string>& by, std::string_view tail);

}  // namespace weir::policy
