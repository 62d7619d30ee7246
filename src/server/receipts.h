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
// them, so that nothing can be given back twice, and nobody can make one up. There are at most so
// many: the oldest are forgotten first, which wastes what could have been given back, and mints
// nothing. They do not survive the process.
// Thread-safe.
class Receipts {
 public:
  explicit Receipts(std::size_t most = 100'000) : most_(most) {}

  // A name for it, which nobody can guess.
  std::string keep(Receipt receipt);

  // A receipt that is being settled by one caller, and by nobody else meanwhile. When it is let go,
  // it keeps what is left of it.
  struct Kept {
    Receipt receipt;
    std::atomic<bool> busy{false};
  };
  using Borrowed = std::shared_ptr<Kept>;

  enum class Found { yes, no, busy };
  // The receipt of that name, if it is there for the taking.
  Found borrow(std::string_view name, Borrowed& borrowed);

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Kept>> kept_;
  std::deque<std::string> oldest_first_;
};

}  // namespace weir::server
