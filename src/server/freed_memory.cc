#include "server/freed_memory.h"

#include <malloc.h>

#include <algorithm>

namespace weir::server {

FreedMemory::FreedMemory() { mallopt(M_TRIM_THRESHOLD, 512 << 10); }

void FreedMemory::look(net::Loops& loops) {
  constexpr std::size_t much = 256 << 10;
  constexpr std::size_t each = 2 << 10;  // of a connection, beside what it holds in buffers
  constexpr std::chrono::seconds lately{3};
  freed_ += loops.freed_since_peak();
  const std::uint64_t open = loops.counts().open;
  most_open_ = std::max(most_open_, open);
  const auto now = Clock::now();
  if (now < next_) return;
  const bool is_much = freed_ + (most_open_ - open) * each >= much;
  if (!is_much && !once_more_) return;
  once_more_ = is_much;
  freed_ = 0;
  most_open_ = open;
  next_ = now + lately;
  malloc_trim(0);
}

}  // namespace weir::server
