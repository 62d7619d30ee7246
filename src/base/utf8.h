#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir {

// The first sequence of a text that may contain any bytes.
struct Utf8 {
  std::size_t bytes;  // length of the sequence
  bool whole;         // true: a valid character; false: a truncated or invalid sequence
};
// `text` is not empty.
Utf8 first_character(std::string_view text);

bool is_utf8(std::string_view text);

// The first `max_bytes` bytes of `text`, or up to three less, so that no character is cut in two.
std::string_view truncate_utf8(std::string_view text, std::size_t max_bytes);

// At most 64 bytes of untrusted text, with "…" if it was truncated: for messages.
std::string shortened(std::string_view text);

}  // namespace weir
