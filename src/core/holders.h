#pragma once

#include <cstdint>
#include <span>

#include "core/choice.h"
#include "core/rate.h"

namespace weir::core {

// At most `count` permits held at a time. Whoever enters holds its permits until it leaves, or
// until its lease [t, t + lease) has run out: a holder that crashed gives them back that way.
// Entering again while the lease runs renews it and costs nothing, so a retry is safe.
struct Concurrency {
  Permits count = 1;
  Nanos lease{std::chrono::seconds{60}};

  static Result<Concurrency, Flaw> make(Permits count, Nanos lease);
};

inline constexpr Permits kMaxConcurrent = 1'000'000;

// Who holds: a number, or a hash of what the caller calls itself.
struct HolderId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const HolderId&, const HolderId&) = default;

  // (Both are hashes that nobody knows: those of different pairs do not meet.)
  HolderId mixed_with(const HolderId& other) const { return {high ^ other.high, low ^ other.low}; }
};

struct Holder {
  HolderId id{};
  Instant until{};
  Permits permits = 0;
};

// The holders of one key, those whose lease ends first in front, in seats that their owner
// provides: `limit.count` of them are enough, since each holds at least one permit.
class Holders {
 public:
  Holders(std::uint32_t& size, std::span<Holder> seats) : size_(&size), seats_(seats) {}

  std::span<Holder> seated() const { return seats_.first(*size_); }
  void seat(const Holder& holder);
  void unseat(Holder* holder);
  void unseat_expired(Instant now);
  void clear() { *size_ = 0; }

 private:
  std::uint32_t* size_;
  std::span<Holder> seats_;
};

bool holds(const Holders& holders, const HolderId& id, Instant now);

Choice decide(const Concurrency& limit, const Holders& holders, const HolderId& id, Instant now,
              Permits cost);
void enter(const Concurrency& limit, Holders holders, const HolderId& id, Instant now,
           Permits cost);
// Whether the holder was there to leave.
bool leave(Holders holders, const HolderId& id, Instant now);
Permits remaining(const Concurrency& limit, const Holders& holders, Instant now);
Instant rest_at(const Holders& holders);
inline Permits capacity(const Concurrency& limit) { return limit.count; }

}  // namespace weir::core
