#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace weir::store {

// A buddy allocator on a region of fixed size: blocks of 2^n × 256 bytes. The region does not
// record which blocks are in use; after a restart, they must be marked in use again.
//
// Thread-safe.
class Arena {
 public:
  static constexpr std::size_t kMinBlock = 256;

  // The number of a block's first unit, from 1; 0 is null.
  using Handle = std::uint32_t;

  // No block is free until `finish_restore` is called.
  explicit Arena(std::span<std::byte> region);

  // The purpose of a block. A sixteenth of the region is reserved for known keys whose records
  // grow, and another one for overflow states, so that a flood of new keys cannot use it up.
  enum class Purpose { new_key, growth, overflow };

  // `owner` is a value of the caller's choice, which `next_owner` returns.
  std::optional<Handle> allocate(std::size_t bytes, std::uint32_t owner, Purpose purpose);
  void free(Handle handle, std::size_t bytes);
  void set_owner(Handle handle, std::uint32_t owner);

  // Restore after a restart: each block in use is marked, then `finish_restore` frees all others.
  // mark_in_use returns false if the block is outside the region, misaligned, or in use already.
  bool mark_in_use(Handle handle, std::size_t bytes, std::uint32_t owner);
  void finish_restore();

  // The owner of the next block in use. Repeated calls cycle through all blocks.
  std::optional<std::uint32_t> next_owner();

  std::byte* at(Handle handle) const { return region_.data() + (handle - 1) * kMinBlock; }
  bool contains(Handle handle) const { return handle > 0 && handle <= units_; }

  // The size of the smallest block with room for `bytes`.
  static std::size_t block_size(std::size_t bytes) { return kMinBlock << order_of(bytes); }
  bool has_room(std::size_t bytes, Purpose purpose) const;
  std::size_t used() const;
  std::size_t size() const { return region_.size(); }

 private:
  // A node of the doubly linked list of free blocks of one order; it lies in the free block itself.
  struct Free {
    Handle next;
    Handle previous;
  };
  static constexpr unsigned kOrders = 32;
  static constexpr std::uint8_t kNotFree = 0xff;
  static constexpr std::uint32_t kNoOwner = UINT32_MAX;

  static unsigned order_of(std::size_t bytes);
  std::uint64_t max_used_for(Purpose purpose) const;
  std::optional<unsigned> find(unsigned order, Purpose purpose) const;
  Free& free_at(Handle handle) const { return *reinterpret_cast<Free*>(at(handle)); }
  void push(Handle handle, unsigned order);
  void remove(Handle handle, unsigned order);
  void give_back(std::uint64_t unit, unsigned order);

  // Constant after construction.
  const std::span<std::byte> region_;
  const std::uint32_t units_;

  // Protected by the mutex.
  mutable std::mutex mutex_;
  std::vector<std::uint8_t> orders_;   // by unit: the order of the free block that starts there
  std::vector<bool> in_use_;           // only between construction and `finish_restore`
  std::vector<std::uint32_t> owners_;  // by unit: the owner of the block in use that starts there
  std::uint32_t next_unit_ = 0;        // where `next_owner` continues
  Handle first_[kOrders] = {};
  std::uint64_t used_ = 0;  // units
};

}  // namespace weir::store
