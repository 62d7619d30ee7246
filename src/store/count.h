#pragma once

#include <atomic>
#include <cstdint>

namespace weir::store {

// A number that one thread changes and others read. It costs that thread no more than a plain one.
class Count {
 public:
  void add(std::uint64_t more = 1) { set(get() + more); }
  void take() { set(get() - 1); }
  void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace weir::store
