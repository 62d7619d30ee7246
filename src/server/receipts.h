#pragma once

#include <cstdint>
#include <deque>
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

  // Settles by the receipt of that name, which keeps what is left of it. None: there is no such
  // receipt.
  std::optional<Verdict> settle(Engine& engine, const Request& request, std::string_view name);

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::unordered_map<std::string, Receipt> kept_;
  std::deque<std::string> oldest_first_;
};

// 128 random bits as text.
std::string random_name();

}  // namespace weir::server
