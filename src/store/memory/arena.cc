#include "store/memory/arena.h"

#include <algorithm>
#include <bit>

namespace weir::store {

Arena::Arena(std::span<std::byte> region)
    : region_(region),
      units_(static_cast<std::uint32_t>(
          std::min<std::size_t>(region.size() / kMinBlock, UINT32_MAX - 1))),
      orders_(units_, kNotFree),
      in_use_(units_, false),
      owners_(units_, kNoOwner) {}

unsigned Arena::order_of(std::size_t bytes) {
  const std::size_t units = (bytes + kMinBlock - 1) / kMinBlock;
  return static_cast<unsigned>(std::bit_width(std::max<std::size_t>(units, 1) - 1));
}

void Arena::push(Handle handle, unsigned order) {
  orders_[handle - 1] = static_cast<std::uint8_t>(order);
  free_at(handle) = {.next = first_[order], .previous = 0};
  if (first_[order] != 0) free_at(first_[order]).previous = handle;
  first_[order] = handle;
}

void Arena::remove(Handle handle, unsigned order) {
  orders_[handle - 1] = kNotFree;
  const Free links = free_at(handle);
  if (links.next != 0) free_at(links.next).previous = links.previous;
  (links.previous != 0 ? free_at(links.previous).next : first_[order]) = links.next;
}

// The total number of units that may be in use after an allocation for `purpose`.
std::uint64_t Arena::max_used_for(Purpose purpose) const {
  const std::uint32_t reserve = units_ / 16;
  return units_ - (purpose == Purpose::new_key  ? 2 * reserve
                   : purpose == Purpose::growth ? reserve
                                                : 0);
}

// The order of the smallest free block of at least `order`.
std::optional<unsigned> Arena::find(unsigned order, Purpose purpose) const {
  if (used_ + (std::uint64_t{1} << order) > max_used_for(purpose)) return std::nullopt;
  while (order < kOrders && first_[order] == 0) ++order;
  return order < kOrders ? std::optional{order} : std::nullopt;
}

bool Arena::has_room(std::size_t bytes, Purpose purpose) const {
  const std::lock_guard lock(mutex_);
  return find(order_of(bytes), purpose).has_value();
}

std::optional<Arena::Handle> Arena::allocate(std::size_t bytes, std::uint32_t owner,
                                             Purpose purpose) {
  const std::lock_guard lock(mutex_);
  const unsigned order = order_of(bytes);
  const std::optional<unsigned> found = find(order, purpose);
  if (!found) return std::nullopt;
  const Handle handle = first_[*found];
  remove(handle, *found);
  // Splits the block and frees the upper halves.
  for (unsigned left = *found; left > order;) {
    --left;
    push(handle + (Handle{1} << left), left);
  }
  used_ += std::uint64_t{1} << order;
  owners_[handle - 1] = owner;
  return handle;
}

// Frees a block and merges it with its buddy as long as that is free.
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
  owners_[handle - 1] = kNoOwner;
  give_back(handle - 1, order);
}

void Arena::set_owner(Handle handle, std::uint32_t owner) {
  const std::lock_guard lock(mutex_);
  owners_[handle - 1] = owner;
}

bool Arena::mark_in_use(Handle handle, std::size_t bytes, std::uint32_t owner) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t size = std::uint64_t{1} << order_of(bytes);
  const std::uint64_t unit = handle - 1;
  if (!contains(handle) || unit % size != 0 || unit + size > units_) return false;
  const auto begin = in_use_.begin() + static_cast<std::ptrdiff_t>(unit);
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
    const std::uint32_t unit = next_unit_;
    next_unit_ = next_unit_ + 1 < units_ ? next_unit_ + 1 : 0;
    if (owners_[unit] != kNoOwner) return owners_[unit];
  }
  return std::nullopt;
}

// Writes only to the first bytes of each free block, so that unused pages are not allocated.
void Arena::finish_restore() {
  const std::lock_guard lock(mutex_);
  const auto first_in_use = [&](std::uint32_t from) {
    while (from < units_ && !in_use_[from]) ++from;
    return from;
  };
  for (std::uint32_t unit = 0; unit < units_;) {
    const std::uint32_t end = first_in_use(unit);
    while (unit < end) {
      const int aligned = unit == 0 ? kOrders - 1 : std::countr_zero(unit);
      const int fitting = std::bit_width(end - unit) - 1;
      const auto order = static_cast<unsigned>(std::min(aligned, fitting));
      push(unit + 1, order);
      unit += std::uint32_t{1} << order;
    }
    while (unit < units_ && in_use_[unit]) ++unit;
  }
  in_use_ = {};
}

std::size_t Arena::used() const {
  const std::lock_guard lock(mutex_);
  return used_ * kMinBlock;
}

}  // namespace weir::store
