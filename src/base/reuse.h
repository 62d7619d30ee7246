#pragma once

#include <cstddef>
#include <string>

namespace weir {

// Memory that an empty text may keep. There are thousands of connections with several texts each;
// few need much, and not for long.
inline constexpr std::size_t kKeptForReuse = 4 << 10;

// Empties a text that will be filled again. Its memory stays with it, unless it is more than
// `kept`.
inline void clear_for_reuse(std::string& text, std::size_t kept = kKeptForReuse) {
  text.capacity() > kept ? std::string().swap(text) : text.clear();
}

}  // namespace weir
