#include "core/holders.h"

#include <algorithm>

#include "base/saturating.h"

namespace weir::core {

namespace {

bool is_live(const Holder& holder, Instant now) { return now < holder.until; }

Holder* find_live(const Holders& holders, const HolderId& id, Instant now) {
  for (Holder& holder : holders.seated()) {
    if (holder.id == id && is_live(holder, now)) return &holder;
  }
  return nullptr;
}

Permits held_at(const Holders& holders, Instant now) {
  Permits held = 0;
  for (const Holder& holder : holders.seated()) {
    if (is_live(holder, now)) held = sat_add(held, holder.permits);
  }
  return held;
}

// The first instant at which `excess` permits will have come back if nobody leaves.
Instant freed_at(const Holders& holders, Instant now, Permits excess) {
  Instant freed = now;
  for (const Holder& holder : holders.seated()) {
    if (excess <= 0) break;
    if (!is_live(holder, now)) continue;
    freed = holder.until;
    excess -= std::min(excess, holder.permits);
  }
  return freed;
}

// Moves holders up to the front, each in turn: seats may lie in a file, and a process that is
// killed in the middle must leave everybody a seat, even if somebody has two. (memmove has its own
// order.)
void move_up(const Holder* first, const Holder* last, Holder* to) {
  for (; first != last; ++first, ++to) {
    *to = *first;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
}

}  // namespace

// A lease that starts later ends later, but for a shortened lease or a clock that stepped back: the
// place is nearly always the last one.
void Holders::seat(const Holder& holder) {
  if (*size_ >= seats_.size()) return;  // whoever provides the seats has miscounted
  std::size_t place = (*size_)++;
  for (; place > 0 && seats_[place - 1].until > holder.until; --place) {
    seats_[place] = seats_[place - 1];
  }
  seats_[place] = holder;
}

void Holders::unseat(Holder* holder) {
  const auto all = seated();
  move_up(holder + 1, all.data() + all.size(), holder);
  --*size_;
}

void Holders::unseat_expired(Instant now) {
  const auto all = seated();
  const auto live = std::find_if(all.begin(), all.end(),
                                 [now](const Holder& holder) { return is_live(holder, now); });
  const auto gone = static_cast<std::size_t>(live - all.begin());
  if (gone == 0) return;
  move_up(all.data() + gone, all.data() + all.size(), all.data());
  *size_ -= static_cast<std::uint32_t>(gone);
}

Result<Concurrency, Flaw> Concurrency::make(Permits count, Nanos lease) {
  if (count < 1) return Flaw::capacity_too_small;
  if (count > kMaxConcurrent) return Flaw::capacity_too_large;
  if (lease <= Nanos{0}) return Flaw::period_not_positive;
  if (lease > kLongestDebt) return Flaw::period_too_long;
  return Concurrency{.count = count, .lease = lease};
}

bool holds(const Holders& holders, const HolderId& id, Instant now) {
  return find_live(holders, id, in_range(now)) != nullptr;
}

Choice decide(const Concurrency& limit, const Holders& holders, const HolderId& id, Instant now,
              Permits cost) {
  now = in_range(now);
  if (find_live(holders, id, now) != nullptr) return {};
  if (cost < 0 || cost > limit.count) return impossible({});
  const Permits room = limit.count - cost;
  const Permits held = held_at(holders, now);
  if (held <= room) return {};
  return refused(between(now, freed_at(holders, now, held - room)), {});
}

void enter(const Concurrency& limit, Holders holders, const HolderId& id, Instant now,
           Permits cost) {
  now = in_range(now);
  Holder entering{.id = id, .until = later(now, limit.lease), .permits = cost};
  if (Holder* held = find_live(holders, id, now)) {
    entering.permits = held->permits;
    entering.until = std::max(entering.until, held->until);
    holders.unseat(held);
  }
  if (entering.permits <= 0) return;
  holders.unseat_expired(now);
  holders.seat(entering);
}

bool leave(Holders holders, const HolderId& id, Instant now) {
  Holder* holder = find_live(holders, id, in_range(now));
  if (holder == nullptr) return false;
  holders.unseat(holder);
  return true;
}

Permits remaining(const Concurrency& limit, const Holders& holders, Instant now) {
  return std::max<Permits>(limit.count - held_at(holders, in_range(now)), 0);
}

Instant rest_at(const Holders& holders) {
  return holders.seated().empty() ? Instant{} : holders.seated().back().until;
}

}  // namespace weir::core
