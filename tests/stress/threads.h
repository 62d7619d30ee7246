#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace weir::store {

// Runs `work(0)` … `work(count - 1)` concurrently, each in its own thread.
template <typename Work>
void in_threads(int count, Work work) {
  std::atomic<int> waiting = count;
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      // All start together; otherwise the first would be done before the last has started.
      waiting.fetch_sub(1);
      while (waiting.load() > 0) std::this_thread::yield();
      work(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace weir::store
