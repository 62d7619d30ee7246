#include "server/receipts.h"

#include <new>

#include "store/random_name.h"

namespace weir::server {

std::string Receipts::keep(Receipt receipt) {
  std::string name = store::random_name();
  auto kept = std::make_shared<Kept>();
  kept->receipt = std::move(receipt);
  kept->bytes = bytes_of(*kept);
  const std::lock_guard lock(mutex_);
  oldest_first_.push_back(name);
  try {
    bytes_ += kept_.emplace(name, std::move(kept)).first->second->bytes;
  } catch (const std::bad_alloc&) {
    oldest_first_.pop_back();
    throw;
  }
  while (bytes_ > most_bytes_) forget_oldest();
  return name;
}

// The receipt, its name twice, and what the containers and the allocator need for them.
std::size_t Receipts::bytes_of(const Kept& kept) {
  constexpr std::size_t containers = 256;
  return sizeof(Kept) + kept.receipt.memory() + containers;
}

void Receipts::forget_oldest() {
  const auto oldest = kept_.find(oldest_first_.front());
  bytes_ -= oldest->second->bytes;
  kept_.erase(oldest);
  oldest_first_.pop_front();
}

std::size_t Receipts::memory() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

Receipts::Found Receipts::borrow(std::string_view name, Borrowed& borrowed) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(std::string{name});
  if (found == kept_.end()) return Found::no;
  if (found->second->busy.exchange(true, std::memory_order_acquire)) return Found::busy;
  // Lets go of it when the last user has; the receipt itself may be forgotten before.
  borrowed = Borrowed(found->second.get(), [owner = found->second](Kept* kept) {
    kept->busy.store(false, std::memory_order_release);
  });
  return Found::yes;
}

}  // namespace weir::server
