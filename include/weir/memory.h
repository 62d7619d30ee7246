#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "weir/time.h"

namespace weir {
inline namespace v0 {

// The treatment of new keys while the table is full. Known keys are never dropped for them: only
// keys at rest are evicted, which changes no decision.
enum class WhenFull : std::uint8_t {
  share,  // all new keys under a limit share the capacity of one key (the default)
  deny,   // new keys are refused until a slot is free
  allow,  // new keys are admitted without being counted
};

// The memory of an Engine. It is allocated once: the table never grows and never rehashes.
struct MemoryOptions {
  // Total size in bytes. A key takes 46 bytes per limit when the table is full; 64 MiB hold 1.4
  // million keys.
  std::size_t bytes = std::size_t{64} << 20;
  // The part of `bytes` for exact sliding windows and concurrency limits, whose records grow with
  // the number of entries. Negative: an eighth.
  std::ptrdiff_t record_bytes = -1;
  // A memory-mapped file, so that state survives restarts and kill -9; empty: none.
  std::string state_file{};
};

// The fill level of the table, and counters of its effects.
struct MemoryUse {
  std::size_t bytes = 0;           // total
  std::uint64_t slots = 0;         // total
  std::uint64_t live = 0;          // slots of keys that are not at rest
  std::uint64_t record_bytes = 0;  // total, for exact sliding windows and holders
  std::uint64_t record_used = 0;   // bytes of `record_bytes` in use
  // Since the start:
  std::uint64_t forgotten = 0;  // keys at rest that were evicted
  std::uint64_t shared = 0;     // calls of new keys that were charged to the shared overflow state
  std::uint64_t denied = 0;     // calls of new keys that were refused because the table was full
  std::uint64_t untracked = 0;  // calls of new keys that were admitted without being counted
};

}  // namespace v0
}  // namespace weir
