#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace weir::store {

// Hands out blocks of a region that does not grow: powers of two, by the buddy system. Which blocks
// are taken is not written into the region; after a restart their owners claim them again.
//
// Thread-safe.
class Arena {
 public:
  static constexpr std::size_t kSmallest = 256;

  // A block by its number; 0 is none.
  using Handle = std::uint32_t;

  // Everything is taken until `open` is called.
  explicit Arena(std::span<std::byte> region);

  // What a block is for. A flood of new keys leaves some of the region to those who were there
  // before, and both leave some to what newcomers share when there is no room.
  enum class For { newcomer, live, shared };

  // `owner` is whatever the caller wants to be told by `next_owner`.
  std::optional<Handle> allocate(std::size_t bytes, std::uint32_t owner, For whom);
  void free(Handle handle, std::size_t bytes);
  void set_owner(Handle handle, std::uint32_t owner);

  // For a restart: what is in use, before `open`. False if it does not fit or is taken already.
  bool claim(Handle handle, std::size_t bytes, std::uint32_t owner);
  void open();

  // The owners of all blocks, one after the other, for ever.
  std::optional<std::uint32_t> next_owner();

  std::byte* at(Handle handle) const { return region_.data() + (handle - 1) * kSmallest; }
  bool contains(Handle handle) const { return handle > 0 && handle <= units_; }

  // The size of the block that holds so many bytes.
  static std::size_t block_size(std::size_t bytes) { return kSmallest << order_of(bytes); }
  bool has_room(std::size_t bytes, For whom) const;
  std::size_t used() const;
  std::size_t size() const { return region_.size(); }

 private:
  // Free blocks of one size are a list; each holds its neighbours in the list.
  struct Free {
    Handle next;
    Handle previous;
  };
  static constexpr unsigned kOrders = 32;
  static constexpr std::uint8_t kTaken = 0xff;
  static constexpr std::uint32_t kNobody = UINT32_MAX;

  static unsigned order_of(std::size_t bytes);
  std::uint64_t most_for(For whom) const;
  std::optional<unsigned> find(unsigned order, For whom) const;
  Free& free_at(Handle handle) const { return *reinterpret_cast<Free*>(at(handle)); }
  void push(Handle handle, unsigned order);
  void remove(Handle handle, unsigned order);
  void give_back(std::uint64_t unit, unsigned order);

  // Constant after construction.
  const std::span<std::byte> region_;
  const std::uint32_t units_;

  // Under the mutex.
  mutable std::mutex mutex_;
  std::vector<std::uint8_t> orders_;   // of each unit: the order of the free block it starts
  std::vector<bool> claimed_;          // only between construction and `open`
  std::vector<std::uint32_t> owners_;  // of each unit that starts a taken block
  std::uint32_t hand_ = 0;             // where `next_owner` goes on
  Handle first_[kOrders] = {};
  std::uint64_t used_ = 0;  // units
};

}  // namespace weir::store
