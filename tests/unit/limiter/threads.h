#pragma once

#include <barrier>
#include <cstddef>
#include <thread>
#include <vector>

namespace weir {

// Runs `f(i)` on `count` threads that start at the same moment, and returns when all have finished.
template <typename F>
void together(int count, F f) {
  std::barrier ready(count);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      ready.arrive_and_wait();
      f(i);
    });
  }
}

}  // namespace weir
