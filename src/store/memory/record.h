#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/holders.h"
#include "core/sliding_log.h"
#include "store/memory/fingerprint.h"

namespace weir::store {

// The data of a key whose limit needs more than a State: the entries of an exact sliding window, or
// the holders of a concurrency limit. It lies in a block of the arena, which the slot's state
// refers to. Access is protected by the lock of that state.
//
// Entries are written before the head, which is a single store: a process that is killed leaves the
// record either as it was, or with the new entry.
class Record {
 public:
  static std::size_t bytes_for(std::size_t capacity, std::size_t entry_bytes) {
    return sizeof(Record) + capacity * entry_bytes;
  }
  // Uses all of a block of `bytes`.
  Record(const Fingerprint& owner, std::size_t bytes, std::size_t entry_bytes)
      : owner_(owner),
        capacity_(static_cast<std::uint32_t>((bytes - sizeof(Record)) / entry_bytes)),
        entry_bytes_(static_cast<std::uint32_t>(entry_bytes)) {}

  std::uint32_t capacity() const { return capacity_; }
  std::size_t entry_bytes() const { return entry_bytes_; }
  std::size_t bytes() const { return bytes_for(capacity_, entry_bytes_); }
  // Validates the header, for a restart.
  bool is_sound(const Fingerprint& owner) const {
    const core::AdmissionLog::Head h = head();
    const bool known =
        entry_bytes_ == sizeof(core::LogEntry) || entry_bytes_ == sizeof(core::Holder);
    return owner_ == owner && known && capacity_ > 0 && h.first < capacity_ && h.size <= capacity_;
  }

  // Validates the entries. The header must be valid, and the block must lie in the arena.
  bool has_sound_entries() {
    return entry_bytes_ == sizeof(core::LogEntry) ? all_sound<core::LogEntry>()
                                                  : all_sound<core::Holder>();
  }

  // For holders, only `size` is used.
  core::AdmissionLog::Head head() const {
    const std::uint64_t word = head_.load(std::memory_order_relaxed);
    return {.first = static_cast<std::uint32_t>(word),
            .size = static_cast<std::uint32_t>(word >> 32)};
  }
  void set_head(core::AdmissionLog::Head head) {
    head_.store(std::uint64_t{head.size} << 32 | head.first, std::memory_order_release);
  }
  template <typename Entry>
  std::span<Entry> entries() {
    return {reinterpret_cast<Entry*>(this + 1), capacity_};
  }

 private:
  template <typename Entry>
  bool all_sound() {
    const core::AdmissionLog::Head h = head();
    // Holders without permits would exceed the capacity. A log's newest entry may be empty: its
    // time protects against a clock that steps back.
    constexpr Permits min = std::is_same_v<Entry, core::Holder> ? 1 : 0;
    for (std::uint32_t i = 0; i < h.size; ++i) {
      const Permits permits = entries<Entry>()[(h.first + std::size_t{i}) % capacity_].permits;
      if (permits < min || permits > core::kMaxPermits) return false;
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
