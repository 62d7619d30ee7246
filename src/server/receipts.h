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

// Receipts that callers may come back with. They are kept here and callers are given a name for
// them, so that nothing can be given back twice, and nobody can make one up. They take at most so
// many bytes: the oldest are forgotten first, which wastes what could have been given back, and
// mints nothing. They do not survive the process.
// Thread-safe.
class Receipts {
 public:
  static constexpr std::size_t kMostBytes = 32 << 20;

  explicit Receipts(std::size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  // A name for it, which nobody can guess.
  std::string keep(Receipt receipt);

  // A receipt that is being settled by one caller, and by nobody else meanwhile. When it is let go,
  // it keeps what is left of it.
  struct Kept {
    Receipt receipt;
    std::size_t bytes = 0;  // as counted when it came
    std::atomic<bool> busy{false};
  };
  using Borrowed = std::shared_ptr<Kept>;

  enum class Found { yes, no, busy };
  // The receipt of that name, if it is there for the taking.
  Found borrow(std::string_view name, Borrowed& borrowed);

  // Bytes that all of them take.
  std::size_t memory() const;

 private:
  static std::size_t bytes_of(const Kept& kept);
  void forget_oldest();

  const std::size_t most_bytes_;
  mutable std::mutex mutex_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, std::shared_ptr<Kept>> kept_;
  std::deque<std::string> oldest_first_;
};

}  // namespace weir::server
