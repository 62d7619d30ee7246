#pragma once

#include <chrono>
#include <cstdint>

#include "net/loops.h"

namespace weir::server {

// Gives memory back to the system that connections have freed. The C library keeps what is freed
// between two things that are still in use, however much that is, until somebody asks for it.
// For one thread.
class FreedMemory {
 public:
  // From now on the C library gives back by itself what is free at the end of each thread's heap,
  // which nobody can ask it for.
  FreedMemory();

  // Gives it back, if there is much of it and that was not done lately. To be called now and then,
  // by a thread that serves nobody: it takes a while, and others who need memory wait meanwhile.
  void look(net::Loops& loops);

 private:
  using Clock = std::chrono::steady_clock;

  std::size_t freed_ = 0;        // bytes, roughly, since the last time
  std::uint64_t most_open_ = 0;  // connections, since then
  bool once_more_ = false;       // the last of those that have freed much may leave a little later
  Clock::time_point next_{};
};

}  // namespace weir::server
