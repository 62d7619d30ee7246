#include "net/memory.h"

#include <algorithm>
#include <utility>

namespace weir::net {

MemoryCounts MemoryBudget::counts() const {
  return {.held = held(),
          .limit = limit_,
          .shed = shed_.load(std::memory_order_relaxed),
          .out_of_memory = out_of_memory_.load(std::memory_order_relaxed)};
}

void MemoryBudget::grow(std::size_t bytes) {
  const std::size_t now = held_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::size_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

std::size_t MemoryBudget::freed_since_peak() {
  const std::size_t now = held();
  const std::size_t peak = peak_.exchange(now, std::memory_order_relaxed);
  return peak - std::min(peak, now);
}

void LoopMemory::change(MemoryHolder& holder, std::size_t counted) {
  if (counted == 0) return remove(holder);
  if (holder.held_ == 0) {
    holders_.push_back(&holder);
    holder.index_ = holders_.size() - 1;
    holder.sequence_ = next_sequence_++;
  }
  const std::size_t before = std::exchange(holder.held_, counted);
  held_.store(held() + counted - before, std::memory_order_relaxed);
  if (counted > before) return budget_.grow(counted - before);
  budget_.held_.fetch_sub(before - counted, std::memory_order_relaxed);
}

void LoopMemory::remove(MemoryHolder& holder) noexcept {
  const std::size_t held = std::exchange(holder.held_, 0);
  held_.store(held_.load(std::memory_order_relaxed) - held, std::memory_order_relaxed);
  budget_.held_.fetch_sub(held, std::memory_order_relaxed);
  holders_[holder.index_] = holders_.back();
  holders_[holder.index_]->index_ = holder.index_;
  holders_.pop_back();
}

// Sorts by size, the largest last; of equal holders, the newest last.
void LoopMemory::sort_holders() {
  std::ranges::sort(holders_, {}, [](const MemoryHolder* holder) {
    return std::pair(holder->held_, holder->sequence_);
  });
  for (std::size_t i = 0; i < holders_.size(); ++i) holders_[i]->index_ = i;
}

void LoopMemory::shed_now() {
  const std::size_t loop_target = MemoryBudget::after_shedding(budget_.loop_limit());
  const std::size_t total_target = MemoryBudget::after_shedding(budget_.limit_);
  sort_holders();
  while (!holders_.empty() && held() > loop_target && budget_.held() > total_target) {
    MemoryHolder& largest = *holders_.back();
    budget_.shed_.fetch_add(1, std::memory_order_relaxed);
    largest.shed();
    forget(largest);
  }
}

}  // namespace weir::net
