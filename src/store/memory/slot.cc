#include "store/memory/slot.h"

namespace weir::store {

void Row::lock() noexcept {
  SpinWait spin_wait;
  for (;;) {
    std::uint64_t free = lock_.load(std::memory_order_relaxed) & ~kLocked;
    if (lock_.compare_exchange_weak(free, free | kLocked, std::memory_order_acquire)) return;
    spin_wait.wait();
  }
}

RestTime Row::soonest_rest() const noexcept {
  RestTime soonest{RestTime::kMask};
  for (const Slot& slot : slots_) soonest = std::min(soonest, slot.rest());
  return soonest;
}

// If the limit has become slower since the slot was written, its rest time is too early. This
// corrects it when it seems to have come.
bool Row::is_at_rest(Slot& slot, Instant now, const SlowerLimits* slower) {
  const RestTime rest = slot.rest();
  if (!rest.has_come(now)) return false;
  if (slower == nullptr || rest == RestTime{}) return true;
  const Fingerprint owner = slot.owner();
  const core::State state = AtomicState::unlocked(slot.state().load());
  const auto later =
      RestTime::not_before(slower->rest_of(state, owner.has_record(), rest.instant()));
  if (later <= rest) return true;
  slot.extend_expiry(owner, later);
  return slot.rest().has_come(now);
}

void Row::recount(Instant now, const SlowerLimits* slower) {
  unsigned live = 0;
  RestTime earliest{RestTime::kMask};
  for (Slot& slot : slots_) {
    if (is_at_rest(slot, now, slower)) continue;
    ++live;
    earliest = std::min(earliest, slot.rest());
  }
  set_summary(live, earliest);
}

// Locks the slot's state and evicts its owner, if that is at rest.
bool Row::lock_and_vacate(Slot& slot, Instant now, Evicted& evicted, const SlowerLimits* slower) {
  if (!is_at_rest(slot, now, slower)) return false;
  const core::State state = slot.state().load();
  // Another thread is using it. Do not wait: it may be waiting for this row lock.
  if (AtomicState::is_locked(state) || !slot.state().try_lock(state)) return false;
  if (slot.is_empty()) return true;
  const Fingerprint owner = slot.owner();
  if (!slot.vacate(now)) {
    slot.state().unlock(state, state);
    return false;
  }
  evicted = {.owner = owner, .state = state};
  lock_.store(core::word_of(std::max(last_eviction(), in_range(now))) << 1 | kLocked,
              std::memory_order_relaxed);
  return true;
}

// Of the two slots in a cache line, the one that is empty or has been at rest for longer (LRU): its
// key is less likely to be used again.
unsigned Row::eviction_candidate(unsigned half_line) const noexcept {
  const unsigned other = half_line ^ 1;
  if (other == 0) return half_line;
  return slots_[other - 1].rest() < slots_[half_line - 1].rest() ? other : half_line;
}

Slot* Row::place(const Fingerprint& key, Where where, Instant now, Evicted& evicted,
                 const SlowerLimits* slower) {
  const unsigned half_line = eviction_candidate(half_line_of(key));
  const unsigned last = where == Where::preferred ? 1 : kSlots;
  for (unsigned i = 0; i <= last; ++i) {
    if ((half_line ^ i) == 0) continue;
    const unsigned position = (half_line ^ i) - 1;
    Slot& slot = slots_[position];
    if (!lock_and_vacate(slot, now, evicted, slower)) continue;
    slot.state().store(AtomicState::locked({}));
    slot.assign(key, RestTime::not_before(now));
    set_tag(position, tag_of(key));
    const RestTime soonest =
        live() == 0 ? RestTime::not_before(now) : std::min(earliest(), RestTime::not_before(now));
    set_summary(std::min(live() + 1, kSlots), soonest);
    return &slot;
  }
  return nullptr;
}

bool Row::evict(Slot& slot, Instant now, Evicted& evicted, const SlowerLimits* slower) {
  if (slot.is_empty() || !lock_and_vacate(slot, now, evicted, slower)) return false;
  set_tag(static_cast<unsigned>(&slot - slots_.data()), 0);
  slot.state().unlock(AtomicState::unlocked(slot.state().load()), {});
  return true;
}

}  // namespace weir::store
