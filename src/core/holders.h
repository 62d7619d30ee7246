#pragma once

#include <cstdint>
#include <span>

#include "core/evaluation.h"
#include "core/rate.h"

namespace weir::core {

// Concurrency limit: at most `count` permits are held at a time. A holder keeps its permits until
// it leaves, or until its hold time [t, t + hold_time) expires, which returns the permits of
// holders that crashed. Entering again before that renews the hold time at no cost, so a retry is
// safe.
struct Concurrency {
  Permits count = 1;
  Nanos hold_time{std::chrono::seconds{60}};

  static Result<Concurrency, Flaw> make(Permits count, Nanos hold_time);
};

inline constexpr Permits kMaxConcurrent = 1'000'000;

// The identity of a holder: a number, or a hash of the name that the caller has chosen.
struct HolderId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const HolderId&, const HolderId&) = default;

  // Combines two ids. XOR is enough because both are seeded hashes, whose values clients cannot
  // choose.
  HolderId mixed_with(const HolderId& other) const { return {high ^ other.high, low ^ other.low}; }
};

struct Holder {
  HolderId id{};
  Instant until{};
  Permits permits = 0;
};

// The holders of one key, ordered by expiry, the earliest first. A view: the size and the array
// belong to the caller. An array of `limit.count` entries is always enough, since each holder has
// at least one permit.
class Holders {
 public:
  Holders(std::uint32_t& size, std::span<Holder> entries) : size_(&size), entries_(entries) {}

  std::span<Holder> all() const { return entries_.first(*size_); }
  void insert(const Holder& holder);
  void remove(Holder* holder);
  void remove_expired(Instant now);
  void clear() { *size_ = 0; }

 private:
  std::uint32_t* size_;
  std::span<Holder> entries_;
};

bool holds(const Holders& holders, const HolderId& id, Instant now);

Evaluation decide(const Concurrency& limit, const Holders& holders, const HolderId& id, Instant now,
                  Permits cost);
void enter(const Concurrency& limit, Holders holders, const HolderId& id, Instant now,
           Permits cost);
// Returns whether the holder held a permit.
bool leave(Holders holders, const HolderId& id, Instant now);
Permits remaining(const Concurrency& limit, const Holders& holders, Instant now);
Instant rest_at(const Holders& holders);
inline Permits capacity(const Concurrency& limit) { return limit.count; }

}  // namespace weir::core
