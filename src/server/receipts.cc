#include "server/receipts.h"

#include <new>

#include "store/random_name.h"

namespace weir::server {

std::string Receipts::add(Receipt receipt) {
  std::string name = store::random_name();
  auto stored = std::make_shared<StoredReceipt>();
  stored->receipt = std::move(receipt);
  stored->bytes = bytes_of(*stored);
  const std::lock_guard lock(mutex_);
  oldest_first_.push_back(name);
  try {
    bytes_ += by_name_.emplace(name, std::move(stored)).first->second->bytes;
  } catch (const std::bad_alloc&) {
    oldest_first_.pop_back();
    throw;
  }
  while (bytes_ > max_bytes_) evict_oldest();
  return name;
}

// The receipt, and an estimate for its name, which is stored twice, the containers and the
// allocator.
std::size_t Receipts::bytes_of(const StoredReceipt& stored) {
  constexpr std::size_t overhead = 256;
  return sizeof(StoredReceipt) + stored.receipt.memory() + overhead;
}

void Receipts::evict_oldest() {
  const auto oldest = by_name_.find(oldest_first_.front());
  bytes_ -= oldest->second->bytes;
  by_name_.erase(oldest);
  oldest_first_.pop_front();
}

std::size_t Receipts::memory() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

Receipts::BorrowResult Receipts::borrow(std::string_view name, Borrowed& borrowed) {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(std::string{name});
  if (found == by_name_.end()) return BorrowResult::unknown;
  if (found->second->is_borrowed.exchange(true, std::memory_order_acquire)) {
    return BorrowResult::busy;
  }
  // The deleter only releases the receipt. `owner` holds its memory: it may be evicted meanwhile.
  borrowed = Borrowed(found->second.get(), [owner = found->second](StoredReceipt* stored) {
    stored->is_borrowed.store(false, std::memory_order_release);
  });
  return BorrowResult::ok;
}

}  // namespace weir::server
