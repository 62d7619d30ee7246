#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "weir/time.h"

namespace weir {
inline namespace v0 {

// What a full table does with a key it has never seen. Keys it remembers are never dropped for it:
// only those at rest are, which nobody can notice.
enum class WhenFull : std::uint8_t {
  share,  // all newcomers under a limit share what one key may have (the default)
  deny,   // newcomers are refused until a place comes free
  allow,  // newcomers pass without being counted
};

// Where an Engine remembers. The size is fixed at the start: no growth, no pause.
struct MemoryOptions {
  // All there is, in bytes. A key under one limit takes 46 at full use; 64 MiB hold 1.4 million.
  std::size_t bytes = std::size_t{64} << 20;
  // The part of it for exact logs and concurrency limits, whose records grow with what they count.
  // Negative: an eighth.
  std::ptrdiff_t record_bytes = -1;
  // A file that makes it survive restarts, and kill -9; empty: none.
  std::string state_file{};
};

// How full the memory is, and what came of it.
struct MemoryUse {
  std::size_t bytes = 0;           // in all
  std::uint64_t slots = 0;         // there are
  std::uint64_t live = 0;          // in use by keys that are not at rest
  std::uint64_t record_bytes = 0;  // there are, for logs and holders
  std::uint64_t record_used = 0;   // of them
  // Since the start:
  std::uint64_t forgotten = 0;  // keys at rest that made room for others
  std::uint64_t shared = 0;     // calls of newcomers that had to share
  std::uint64_t denied = 0;     // calls of newcomers refused for want of room
  std::uint64_t untracked = 0;  // calls of newcomers let through for want of room
};

}  // namespace v0
}  // namespace weir
