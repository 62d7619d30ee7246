#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/holders.h"
#include "core/log.h"
#include "store/memory/fingerprint.h"

namespace weir::store {

// What is remembered of a key whose limit needs more than a state: the entries of an exact log, or
// the holders of permits. The slot's state names the block it lies in; whoever has locked the state
// may use the record.
//
// Entries are written first and the head after them, by one store: a process that is killed leaves
// the log or the seats as they were, or with the newcomer.
class Record {
 public:
  static std::size_t bytes_for(std::size_t capacity, std::size_t entry_bytes) {
    return sizeof(Record) + capacity * entry_bytes;
  }
  // As many entries as fit into a block of `bytes`.
  Record(const Fingerprint& owner, std::size_t bytes, std::size_t entry_bytes)
      : owner_(owner),
        capacity_(static_cast<std::uint32_t>((bytes - sizeof(Record)) / entry_bytes)),
        entry_bytes_(static_cast<std::uint32_t>(entry_bytes)) {}

  std::uint32_t capacity() const { return capacity_; }
  std::size_t entry_bytes() const { return entry_bytes_; }
  std::size_t bytes() const { return bytes_for(capacity_, entry_bytes_); }
  // Whether it is what its owner takes it for; for a restart.
  bool is_sound(const Fingerprint& owner) const {
    const core::Log::Head h = head();
    const bool known =
        entry_bytes_ == sizeof(core::LogEntry) || entry_bytes_ == sizeof(core::Holder);
    return owner_ == owner && known && capacity_ > 0 && h.first < capacity_ && h.size <= capacity_;
  }

  // Whether its entries can be reckoned with, once it is known to lie where it says.
  bool has_sound_entries() {
    return entry_bytes_ == sizeof(core::LogEntry) ? all_sound<core::LogEntry>()
                                                  : all_sound<core::Holder>();
  }

  // Of holders only the size is used.
  core::Log::Head head() const {
    const std::uint64_t word = head_.load(std::memory_order_relaxed);
    return {.first = static_cast<std::uint32_t>(word),
            .size = static_cast<std::uint32_t>(word >> 32)};
  }
  void set_head(core::Log::Head head) {
    head_.store(std::uint64_t{head.size} << 32 | head.first, std::memory_order_release);
  }
  template <typename Entry>
  std::span<Entry> entries() {
    return {reinterpret_cast<Entry*>(this + 1), capacity_};
  }

 private:
  template <typename Entry>
  bool all_sound() {
    const core::Log::Head h = head();
    // Who holds nothing has no seat, or seats would not be enough. (A log's newest entry may be
    // empty: it tells how far the clock had come.)
    constexpr Permits least = std::is_same_v<Entry, core::Holder> ? 1 : 0;
    for (std::uint32_t i = 0; i < h.size; ++i) {
      const Permits permits = entries<Entry>()[(h.first + std::size_t{i}) % capacity_].permits;
      if (permits < least || permits > core::kMaxPermits) return false;
    }
    return true;
  }

  Fingerprint owner_;
  std::atomic<std::uint64_t> head_{0};
  std::uint32_t capacity_;
  std::uint32_t entry_bytes_;
};

static_assert(sizeof(Record) == 32 && std::is_trivially_destructible_v<Record>);

}  // namespace weir::store
