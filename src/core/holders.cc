#include "core/holders.h"

#include <algorithm>

#include "base/saturating.h"

namespace weir::core {

namespace {

bool is_live(const Holder& holder, Instant now) { return now < holder.until; }

Holder* find_live(const Holders& holders, const HolderId& id, Instant now) {
  for (Holder& holder : holders.all()) {
    if (holder.id == id && is_live(holder, now)) return &holder;
  }
  return nullptr;
}

Permits held_at(const Holders& holders, Instant now) {
  Permits held = 0;
  for (const Holder& holder : holders.all()) {
    if (is_live(holder, now)) held = sat_add(held, holder.permits);
  }
  return held;
}

// The first instant at which `excess` permits will have expired, if no holder leaves before.
Instant freed_at(const Holders& holders, Instant now, Permits excess) {
  Instant freed = now;
  for (const Holder& holder : holders.all()) {
    if (excess <= 0) break;
    if (!is_live(holder, now)) continue;
    freed = holder.until;
    excess -= std::min(excess, holder.permits);
  }
  return freed;
}

// Moves holders towards the front, one after the other. The entries may lie in a mapped file: if
// the process is killed in the middle, no holder may be missing; one may be there twice. memmove
// does not guarantee that order.
void move_up(const Holder* first, const Holder* last, Holder* to) {
  for (; first != last; ++first, ++to) {
    *to = *first;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
}

}  // namespace

// Keeps the order by expiry. A later hold expires later, unless the hold time was shortened or the
// clock stepped back, so the position is nearly always the last one.
void Holders::insert(const Holder& holder) {
  if (*size_ >= entries_.size()) return;  // the owner has provided too few entries
  std::size_t position = (*size_)++;
  for (; position > 0 && entries_[position - 1].until > holder.until; --position) {
    entries_[position] = entries_[position - 1];
  }
  entries_[position] = holder;
}

void Holders::remove(Holder* holder) {
  const auto holders = all();
  move_up(holder + 1, holders.data() + holders.size(), holder);
  --*size_;
}

void Holders::remove_expired(Instant now) {
  const auto holders = all();
  const auto live = std::find_if(holders.begin(), holders.end(),
                                 [now](const Holder& holder) { return is_live(holder, now); });
  const auto expired = static_cast<std::size_t>(live - holders.begin());
  if (expired == 0) return;
  move_up(holders.data() + expired, holders.data() + holders.size(), holders.data());
  *size_ -= static_cast<std::uint32_t>(expired);
}

Result<Concurrency, Flaw> Concurrency::make(Permits count, Nanos hold_time) {
  if (count < 1) return Flaw::capacity_too_small;
  if (count > kMaxConcurrent) return Flaw::capacity_too_large;
  if (hold_time <= Nanos{0}) return Flaw::period_not_positive;
  if (hold_time > kLongestDebt) return Flaw::period_too_long;
  return Concurrency{.count = count, .hold_time = hold_time};
}

bool holds(const Holders& holders, const HolderId& id, Instant now) {
  return find_live(holders, id, in_range(now)) != nullptr;
}

Evaluation decide(const Concurrency& limit, const Holders& holders, const HolderId& id, Instant now,
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
  Holder entering{.id = id, .until = later(now, limit.hold_time), .permits = cost};
  if (Holder* held = find_live(holders, id, now)) {
    entering.permits = held->permits;
    entering.until = std::max(entering.until, held->until);
    holders.remove(held);
  }
  if (entering.permits <= 0) return;
  holders.remove_expired(now);
  holders.insert(entering);
}

bool leave(Holders holders, const HolderId& id, Instant now) {
  Holder* holder = find_live(holders, id, in_range(now));
  if (holder == nullptr) return false;
  holders.remove(holder);
  return true;
}

Permits remaining(const Concurrency& limit, const Holders& holders, Instant now) {
  return std::max<Permits>(limit.count - held_at(holders, in_range(now)), 0);
}

Instant rest_at(const Holders& holders) {
  return holders.all().empty() ? Instant{} : holders.all().back().until;
}

}  // namespace weir::core
