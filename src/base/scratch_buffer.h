#pragma once

#include <cstddef>
#include <string>

namespace weir {

// Capacity that an empty scratch buffer may keep. There are thousands of connections with several
// buffers each; few need more, and only for a short time.
inline constexpr std::size_t kMaxKeptCapacity = 4 << 10;

// Empties a scratch buffer that will be filled again. It keeps its capacity, unless that exceeds
// `max_kept` bytes.
inline void clear_scratch_buffer(std::string& text, std::size_t max_kept = kMaxKeptCapacity) {
  text.capacity() > max_kept ? std::string().swap(text) : text.clear();
}

}  // namespace weir
