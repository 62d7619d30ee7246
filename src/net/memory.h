#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::net {

// Buffer memory of all connections of the process.
struct MemoryCounts {
  std::uint64_t held = 0;           // bytes
  std::uint64_t limit = 0;          // bytes
  std::uint64_t shed = 0;           // connections closed because the limit was exceeded
  std::uint64_t out_of_memory = 0;  // connections closed or refused because an allocation failed
};

// A limit on the bytes that the connections of all loops hold in buffers together: input,
// incomplete bodies, output that peers have not read. Thread-safe.
class MemoryBudget {
 public:
  MemoryBudget(std::size_t limit, std::size_t loops)
      : limit_(limit), loop_limit_(limit / (loops > 0 ? loops : 1)) {}

  bool is_exceeded() const { return held() > limit_; }
  // Bytes that one loop may hold while the limit is exceeded. At least one loop holds more then.
  std::size_t loop_limit() const { return loop_limit_; }
  // Shedding frees memory down to this many bytes, so that it does not start again at once
  // (hysteresis).
  static constexpr std::size_t after_shedding(std::size_t limit) { return limit - limit / 8; }

  MemoryCounts counts() const;
  // Bytes freed since the peak: the maximum held since the last call, less what is held now.
  std::size_t freed_since_peak();

 private:
  friend class LoopMemory;

  std::size_t held() const { return held_.load(std::memory_order_relaxed); }
  void grow(std::size_t bytes);

  const std::size_t limit_;
  const std::size_t loop_limit_;
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::uint64_t> shed_{0};
  std::atomic<std::uint64_t> out_of_memory_{0};
};

// A connection whose buffers count against the budget.
class MemoryHolder {
 public:
  // Ends the connection, which frees its memory. Never called while one of its events is handled.
  virtual void shed() noexcept = 0;

 protected:
  ~MemoryHolder() = default;

 private:
  friend class LoopMemory;
  std::size_t held_ = 0;        // bytes, as counted
  std::size_t index_ = 0;       // in LoopMemory's holders, if held_ > 0
  std::uint64_t sequence_ = 0;  // increases with each holder that begins to hold memory
};

// Accounts for the buffers of one loop's connections. For the loop's thread, except
// holds_too_much().
class LoopMemory {
 public:
  explicit LoopMemory(MemoryBudget& budget) : budget_(budget) {}
  LoopMemory(const LoopMemory&) = delete;
  LoopMemory& operator=(const LoopMemory&) = delete;

  // Sets the bytes that the holder holds now. Counts in whole steps: most connections hold less
  // than one step, and cost nothing here. If this throws std::bad_alloc, nothing has changed.
  void count(MemoryHolder& holder, std::size_t bytes) {
    const std::size_t counted = bytes - bytes % kStep;
    if (counted != holder.held_) [[unlikely]]
      change(holder, counted);
  }
  // Removes a holder before it is destroyed.
  void forget(MemoryHolder& holder) noexcept {
    if (holder.held_ > 0) remove(holder);
  }
  // Counts a connection that was closed or refused because an allocation failed.
  void note_out_of_memory() noexcept {
    budget_.out_of_memory_.fetch_add(1, std::memory_order_relaxed);
  }

  // True if all loops together exceed the limit.
  bool is_exceeded() const { return budget_.is_exceeded(); }
  // True if this loop has to shed. Thread-safe.
  bool holds_too_much() const { return is_exceeded() && held() > budget_.loop_limit(); }
  // Sheds the largest holders, if this loop has to; of equal holders, the newest first.
  void shed_largest() {
    if (holds_too_much()) [[unlikely]]
      shed_now();
  }

  static constexpr std::size_t kStep = 1 << 10;

 private:
  std::size_t held() const { return held_.load(std::memory_order_relaxed); }
  void change(MemoryHolder& holder, std::size_t counted);
  void remove(MemoryHolder& holder) noexcept;
  void shed_now();
  void sort_holders();

  MemoryBudget& budget_;
  std::atomic<std::size_t> held_{0};  // written by the loop's thread only
  std::vector<MemoryHolder*> holders_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace weir::net
