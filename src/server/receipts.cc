#include "server/receipts.h"

#include "store/random_name.h"

namespace weir::server {

std::string Receipts::keep(Receipt receipt) {
  std::string name = store::random_name();
  const std::lock_guard lock(mutex_);
  auto kept = std::make_shared<Kept>();
  kept->receipt = std::move(receipt);
  kept_.emplace(name, std::move(kept));
  oldest_first_.push_back(name);
  if (oldest_first_.size() > most_) {
    kept_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }
  return name;
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
