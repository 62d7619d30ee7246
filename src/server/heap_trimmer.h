#pragma once

#include <chrono>
#include <cstdint>

#include "net/loops.h"

namespace weir::server {

// Returns memory that connections have freed to the system. glibc keeps freed memory that lies
// between two live allocations until malloc_trim is called, however much that is.
// For one thread.
class HeapTrimmer {
 public:
  // Lowers M_TRIM_THRESHOLD for the process: glibc then returns the free top of each arena by
  // itself.
  HeapTrimmer();

  // Calls malloc_trim if much was freed since the last time, and not more than once in three
  // seconds. To be called periodically, by a thread that serves no connections: it takes a while,
  // and blocks allocations of other threads.
  void trim_if_worthwhile(net::Loops& loops);

 private:
  using Clock = std::chrono::steady_clock;

  std::size_t freed_bytes_ = 0;    // since the last trim, roughly
  std::uint64_t peak_open_ = 0;    // connections, since the last trim
  bool trim_once_more_ = false;    // connections that end just after a trim leave memory behind
  Clock::time_point next_trim_{};  // not before
};

}  // namespace weir::server
