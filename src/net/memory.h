#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::net {

// What the connections of a process hold in buffers, as of now.
struct MemoryCounts {
  std::uint64_t held = 0;           // bytes
  std::uint64_t limit = 0;          // bytes that they may hold together
  std::uint64_t shed = 0;           // connections closed since together they held more
  std::uint64_t out_of_memory = 0;  // connections closed or refused since an allocation failed
};

// A bound on the bytes that the connections of all loops hold together: input, incomplete bodies,
// output that the peer has not read.
// Thread-safe.
class MemoryBudget {
 public:
  MemoryBudget(std::size_t limit, std::size_t loops)
      : limit_(limit), share_(limit / (loops > 0 ? loops : 1)) {}

  bool is_exceeded() const { return held() > limit_; }
  // What one loop may hold while the limit is exceeded. At least one loop holds more then.
  std::size_t share() const { return share_; }
  // Shedding goes on until this much is left, so that it does not begin again at once.
  static constexpr std::size_t after_shedding(std::size_t limit) { return limit - limit / 8; }

  MemoryCounts counts() const;
  // The most that was held since this was last called, less what is held now.
  std::size_t freed_since_peak();

 private:
  friend class LoopMemory;

  std::size_t held() const { return held_.load(std::memory_order_relaxed); }
  void grow(std::size_t bytes);

  const std::size_t limit_;
  const std::size_t share_;
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::uint64_t> shed_{0};
  std::atomic<std::uint64_t> out_of_memory_{0};
};

// A connection whose buffers count.
class MemoryHolder {
 public:
  // Ends the connection, so that its memory is freed. Never called in the middle of its events.
  virtual void shed() noexcept = 0;

 protected:
  ~MemoryHolder() = default;

 private:
  friend class LoopMemory;
  std::size_t held_ = 0;      // as counted
  std::size_t place_ = 0;     // among the holders of its loop, unless it holds nothing
  std::uint64_t number_ = 0;  // higher for those that came to hold something later
};

// What the connections of one loop hold. For its thread, but for `holds_too_much`.
class LoopMemory {
 public:
  explicit LoopMemory(MemoryBudget& budget) : budget_(budget) {}
  LoopMemory(const LoopMemory&) = delete;
  LoopMemory& operator=(const LoopMemory&) = delete;

  // What the holder holds now. Counted in steps: most connections hold less than one, and cost
  // nothing here. If there is no memory to note it, nothing has changed.
  void count(MemoryHolder& holder, std::size_t bytes) {
    const std::size_t counted = bytes - bytes % kStep;
    if (counted != holder.held_) [[unlikely]]
      change(holder, counted);
  }
  // The holder is about to be destroyed.
  void forget(MemoryHolder& holder) noexcept {
    if (holder.held_ > 0) remove(holder);
  }
  // An allocation has failed, and a connection was closed or refused because of that.
  void note_out_of_memory() noexcept {
    budget_.out_of_memory_.fetch_add(1, std::memory_order_relaxed);
  }

  // Whether the limit of all loops is exceeded.
  bool is_exceeded() const { return budget_.is_exceeded(); }
  // Whether this loop has to shed. From any thread.
  bool holds_too_much() const { return is_exceeded() && held() > budget_.share(); }
  // Sheds the largest holders, if this loop has to. Of those that hold the same, the newest.
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
  std::uint64_t next_number_ = 0;
};

}  // namespace weir::net
