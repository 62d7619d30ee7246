#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir {

// What stands at the front of a text that may hold any bytes.
struct Utf8 {
  std::size_t bytes;  // that belong together
  bool whole;         // a character, or else only the start of one or no part of any
};
Utf8 first_character(std::string_view text);

bool is_utf8(std::string_view text);

// The first `most` bytes of `text`, or a few less: no character is cut in two.
std::string_view cut(std::string_view text, std::size_t most);

// What a stranger wrote, for a message: not much of it is repeated.
std::string shortened(std::string_view text);

}  // namespace weir
