#pragma once

#include <atomic>
#include <cstdint>

namespace weir::store {

// A statistics counter or gauge with a single writer thread. Any thread may read it. An update is a
// relaxed load and store, not an atomic read-modify-write: it costs as much as on a plain integer.
class SingleWriterCounter {
 public:
  void add(std::uint64_t more = 1) { set(get() + more); }
  void decrement() { set(get() - 1); }
  void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace weir::store
