#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string_view>

#include "weir/clock.h"
#include "weir/deadline.h"
#include "weir/decision.h"
#include "weir/limit.h"
#include "weir/memory.h"
#include "weir/reservation.h"
#include "weir/time.h"

namespace weir {
inline namespace v0 {

// The size of a KeyedLimiter. Its memory is allocated once, by these numbers.
struct KeyedOptions {
  // The number of keys that can be in use at the same time, at 46 bytes each. A key at rest is not
  // in use: it is evicted when its slot is needed, which changes no decision.
  std::uint64_t max_keys = 1'000'000;
  // The treatment of new keys while the table is full.
  WhenFull when_full = WhenFull::share;
  // Memory for the admissions of `Limit::sliding_exact`, 16 bytes each; other limits need none.
  std::size_t record_bytes = std::size_t{64} << 20;
};

// A KeyedLimiter enforces the same limit for each key: per user, per address, per token.
// Thread-safe. Under limits other than `sliding_exact`, a take of a known key is lock-free, does
// not allocate, and writes nothing if it is refused.
// Not for several limits in one decision, or limits that change at run time: use Engine.
//
// A key is any 1 to 4096 bytes. For any other key the outcome is `impossible`.
class KeyedLimiter {
 public:
  // Throws std::invalid_argument for a concurrency limit (use Engine) and for invalid options,
  // std::bad_alloc if there is not enough memory.
  explicit KeyedLimiter(Limit limit, KeyedOptions options = {},
                        const Clock& clock = system_clock());
  ~KeyedLimiter();
  KeyedLimiter(const KeyedLimiter&) = delete;
  KeyedLimiter& operator=(const KeyedLimiter&) = delete;

  // The operations of a Limiter, for one key.
  Decision try_acquire(std::string_view key, Permits cost = 1) noexcept;
  Decision try_acquire_at(Instant now, std::string_view key, Permits cost = 1) noexcept;
  Decision acquire(std::string_view key, Deadline deadline, Permits cost = 1,
                   std::stop_token stop = {});
  Reservation reserve(std::string_view key, Permits cost = 1, Nanos max_wait = kForever) noexcept;
  Decision peek(std::string_view key, Permits cost = 1) const noexcept;
  void reset(std::string_view key) noexcept;

  // try_acquire for a batch of keys, in order and at one instant. Prefetches the memory of the next
  // keys while it decides the first ones. `decisions` must have the size of `keys`.
  void try_acquire_all(std::span<const std::string_view> keys, std::span<Decision> decisions,
                       Permits cost = 1) noexcept;
  void try_acquire_all_at(Instant now, std::span<const std::string_view> keys,
                          std::span<Decision> decisions, Permits cost = 1) noexcept;

  // The fill level of the table. Scans all of it: not for every call.
  MemoryUse memory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace weir
