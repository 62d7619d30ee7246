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

// How much a KeyedLimiter remembers. The memory is fixed by these numbers at the start.
struct KeyedOptions {
  // So many keys can be in use at the same time, at 46 bytes each. A key that has come to rest is
  // not in use: it is forgotten when its place is needed, which nobody can notice.
  std::uint64_t max_keys = 1'000'000;
  // What happens to new keys while all places are in use.
  WhenFull when_full = WhenFull::share;
  // For the admissions of `Limit::sliding_exact`, 16 bytes each; other limits need none.
  std::size_t record_bytes = std::size_t{64} << 20;
};

// A KeyedLimiter holds every key to the same limit: per user, per address, per token.
// Thread-safe: every member, from any thread. Under limits other than `sliding_exact` a take of a
// known key needs no lock and no allocation, and a refusal writes nothing.
// Not for several limits in one decision, or limits that change while running: use Engine.
//
// A key is any bytes, 1 to 4096 of them. Others are no key: the answer is `impossible`.
class KeyedLimiter {
 public:
  // Throws std::invalid_argument for a limit on what is under way at a time (use Engine) and for
  // options that make no sense, std::bad_alloc if there is not enough memory.
  explicit KeyedLimiter(Limit limit, KeyedOptions options = {},
                        const Clock& clock = system_clock());
  ~KeyedLimiter();
  KeyedLimiter(const KeyedLimiter&) = delete;
  KeyedLimiter& operator=(const KeyedLimiter&) = delete;

  // The verbs of a Limiter, for one key.
  Decision try_acquire(std::string_view key, Permits cost = 1) noexcept;
  Decision try_acquire_at(Instant now, std::string_view key, Permits cost = 1) noexcept;
  Decision acquire(std::string_view key, Deadline deadline, Permits cost = 1,
                   std::stop_token stop = {});
  Reservation reserve(std::string_view key, Permits cost = 1, Nanos max_wait = kForever) noexcept;
  Decision peek(std::string_view key, Permits cost = 1) const noexcept;
  void reset(std::string_view key) noexcept;

  // try_acquire for many keys, one after the other at one instant: what the next ones need is
  // fetched from memory while the first are decided. `decisions` has a place for each key.
  void try_acquire_all(std::span<const std::string_view> keys, std::span<Decision> decisions,
                       Permits cost = 1) noexcept;
  void try_acquire_all_at(Instant now, std::span<const std::string_view> keys,
                          std::span<Decision> decisions, Permits cost = 1) noexcept;

  // How full it is. Looks at every place: not for every call.
  MemoryUse memory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace weir
