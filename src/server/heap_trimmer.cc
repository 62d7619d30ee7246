#include "server/heap_trimmer.h"

#include <malloc.h>

#include <algorithm>

namespace weir::server {

HeapTrimmer::HeapTrimmer() { mallopt(M_TRIM_THRESHOLD, 512 << 10); }

void HeapTrimmer::trim_if_worthwhile(net::Loops& loops) {
  constexpr std::size_t threshold = 256 << 10;
  constexpr std::size_t per_connection = 2 << 10;  // beside its buffers
  constexpr std::chrono::seconds interval{3};
  freed_bytes_ += loops.freed_since_peak();
  const std::uint64_t open = loops.counts().open;
  peak_open_ = std::max(peak_open_, open);
  const auto now = Clock::now();
  if (now < next_trim_) return;
  const bool is_worthwhile = freed_bytes_ + (peak_open_ - open) * per_connection >= threshold;
  if (!is_worthwhile && !trim_once_more_) return;
  trim_once_more_ = is_worthwhile;
  freed_bytes_ = 0;
  peak_open_ = open;
  next_trim_ = now + interval;
  malloc_trim(0);
}

}  // namespace weir::server
