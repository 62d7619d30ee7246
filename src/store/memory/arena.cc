#include "store/memory/arena.h"

#include <algorithm>
#include <bit>

namespace weir::store {

Arena::Arena(std::span<std::byte> region)
    : region_(region),
      units_(static_cast<std::uint32_t>(
          std::min<std::size_t>(region.size() / kSmallest, UINT32_MAX - 1))),
      orders_(units_, kTaken),
      claimed_(units_, false),
      owners_(units_, kNobody) {}

unsigned Arena::order_of(std::size_t bytes) {
  const std::size_t units = (bytes + kSmallest - 1) / kSmallest;
  return static_cast<unsigned>(std::bit_width(std::max<std::size_t>(units, 1) - 1));
}

void Arena::push(Handle handle, unsigned order) {
  orders_[handle - 1] = static_cast<std::uint8_t>(order);
  free_at(handle) = {.next = first_[order], .previous = 0};
  if (first_[order] != 0) free_at(first_[order]).previous = handle;
  first_[order] = handle;
}

void Arena::remove(Handle handle, unsigned order) {
  orders_[handle - 1] = kTaken;
  const Free links = free_at(handle);
  if (links.next != 0) free_at(links.next).previous = links.previous;
  (links.previous != 0 ? free_at(links.previous).next : first_[order]) = links.next;
}

// How many units may be taken, all in all.
std::uint64_t Arena::most_for(For whom) const {
  const std::uint32_t kept = units_ / 16;
  return units_ - (whom == For::newcomer ? 2 * kept : whom == For::live ? kept : 0);
}

// The order of the smallest free block that will do.
std::optional<unsigned> Arena::find(unsigned order, For whom) const {
  if (used_ + (std::uint64_t{1} << order) > most_for(whom)) return std::nullopt;
  while (order < kOrders && first_[order] == 0) ++order;
  return order < kOrders ? std::optional{order} : std::nullopt;
}

bool Arena::has_room(std::size_t bytes, For whom) const {
  const std::lock_guard lock(mutex_);
  return find(order_of(bytes), whom).has_value();
}

std::optional<Arena::Handle> Arena::allocate(std::size_t bytes, std::uint32_t owner, For whom) {
  const std::lock_guard lock(mutex_);
  const unsigned order = order_of(bytes);
  const std::optional<unsigned> found = find(order, whom);
  if (!found) return std::nullopt;
  const Handle handle = first_[*found];
  remove(handle, *found);
  // The upper halves go back.
  for (unsigned left = *found; left > order;) {
    --left;
    push(handle + (Handle{1} << left), left);
  }
  used_ += std::uint64_t{1} << order;
  owners_[handle - 1] = owner;
  return handle;
}

// Joins the block with its other half as long as that is free.
void Arena::give_back(std::uint64_t unit, unsigned order) {
  for (; order + 1 < kOrders; ++order) {
    const std::uint64_t buddy = unit ^ std::uint64_t{1} << order;
    if (buddy >= units_ || orders_[buddy] != order) break;
    remove(static_cast<Handle>(buddy + 1), order);
    unit = std::min(unit, buddy);
  }
  push(static_cast<Handle>(unit + 1), order);
}

void Arena::free(Handle handle, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const unsigned order = order_of(bytes);
  used_ -= std::uint64_t{1} << order;
  owners_[handle - 1] = kNobody;
  give_back(handle - 1, order);
}

void Arena::set_owner(Handle handle, std::uint32_t owner) {
  const std::lock_guard lock(mutex_);
  owners_[handle - 1] = owner;
}

bool Arena::claim(Handle handle, std::size_t bytes, std::uint32_t owner) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t size = std::uint64_t{1} << order_of(bytes);
  const std::uint64_t unit = handle - 1;
  if (!contains(handle) || unit % size != 0 || unit + size > units_) return false;
  const auto begin = claimed_.begin() + static_cast<std::ptrdiff_t>(unit);
  const auto end = begin + static_cast<std::ptrdiff_t>(size);
  if (std::find(begin, end, true) != end) return false;
  std::fill(begin, end, true);
  used_ += size;
  owners_[unit] = owner;
  return true;
}

std::optional<std::uint32_t> Arena::next_owner() {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t looked_at = 0; looked_at < units_; ++looked_at) {
    const std::uint32_t unit = hand_;
    hand_ = hand_ + 1 < units_ ? hand_ + 1 : 0;
    if (owners_[unit] != kNobody) return owners_[unit];
  }
  return std::nullopt;
}

// Only the first bytes of each block are touched: pages nobody uses stay with the system.
void Arena::open() {
  const std::lock_guard lock(mutex_);
  const auto first_claimed = [&](std::uint32_t from) {
    while (from < units_ && !claimed_[from]) ++from;
    return from;
  };
  for (std::uint32_t unit = 0; unit < units_;) {
    const std::uint32_t end = first_claimed(unit);
    while (unit < end) {
      const int aligned = unit == 0 ? kOrders - 1 : std::countr_zero(unit);
      const int fitting = std::bit_width(end - unit) - 1;
      const auto order = static_cast<unsigned>(std::min(aligned, fitting));
      push(unit + 1, order);
      unit += std::uint32_t{1} << order;
    }
    while (unit < units_ && claimed_[unit]) ++unit;
  }
  claimed_ = {};
}

std::size_t Arena::used() const {
  const std::lock_guard lock(mutex_);
  return used_ * kSmallest;
}

}  // namespace weir::store
