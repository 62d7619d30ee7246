#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "weir/engine.h"

namespace weir::server {

// Receipts of takes, for clients that settle later. A client gets a random name for its receipt, so
// it can neither forge one nor give back twice. When the receipts exceed `max_bytes`, the oldest
// are evicted: their permits can no longer be given back. Receipts are not saved: they end with the
// process.
// Thread-safe.
class Receipts {
 public:
  static constexpr std::size_t kMaxBytes = 32 << 20;

  explicit Receipts(std::size_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  // Stores a receipt and returns its name, which cannot be guessed.
  std::string add(Receipt receipt);

  struct StoredReceipt {
    Receipt receipt;
    std::size_t bytes = 0;  // as counted when it was added
    std::atomic<bool> is_borrowed{false};
  };
  // Exclusive use of a receipt for a settle. Its release leaves the rest of the receipt for later
  // settles.
  using Borrowed = std::shared_ptr<StoredReceipt>;

  enum class BorrowResult { ok, unknown, busy };
  BorrowResult borrow(std::string_view name, Borrowed& borrowed);

  // Bytes of all receipts.
  std::size_t memory() const;

 private:
  static std::size_t bytes_of(const StoredReceipt& stored);
  void evict_oldest();

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, std::shared_ptr<StoredReceipt>> by_name_;
  std::deque<std::string> oldest_first_;
};

}  // namespace weir::server
