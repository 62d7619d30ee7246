#include "store/memory/notes.h"

#include <atomic>

#include "store/memory/fingerprint.h"

namespace weir::store {

Notes::Notes(std::span<std::byte> memory) : memory_(memory) {}

std::size_t Notes::capacity() const {
  const std::size_t each = memory_.size() / 2;
  return each > sizeof(Half) ? each - sizeof(Half) : 0;
}

std::string_view Notes::text() const {
  if (capacity() == 0) return {};
  const std::size_t present = newest();
  return is_whole(present) ? text_in(present) : std::string_view{};
}

bool Notes::keep(std::string_view text) {
  if (capacity() == 0) return text.empty();
  if (text.size() > capacity()) return false;
  const std::size_t present = newest();
  const std::size_t other = 1 - present;
  const std::uint64_t sequence = is_whole(present) ? half(present).sequence + 1 : 1;
  Half& next = half(other);
  next.checksum = 0;
  // Compiler barriers: the process may be killed between any two stores.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  next.sequence = sequence;
  next.size = text.size();
  text.copy(reinterpret_cast<char*>(&next + 1), text.size());
  const std::uint64_t checksum = checksum_of(other);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  next.checksum = checksum;
  return true;
}

Notes::Half& Notes::half(std::size_t i) const {
  return *reinterpret_cast<Half*>(memory_.data() + i * (memory_.size() / 2));
}

std::string_view Notes::text_in(std::size_t i) const {
  return {reinterpret_cast<const char*>(&half(i) + 1), half(i).size};
}

std::uint64_t Notes::checksum_of(std::size_t i) const {
  const Half& one = half(i);
  const auto* const from = reinterpret_cast<const char*>(&one.sequence);
  return hash_of({from, sizeof(Half) - sizeof one.checksum + one.size}, 2).low;
}

bool Notes::is_whole(std::size_t i) const {
  const Half& one = half(i);
  return one.sequence > 0 && one.size <= capacity() && one.checksum == checksum_of(i);
}

// The index of the valid half with the higher sequence number; 0 if none is valid.
std::size_t Notes::newest() const {
  if (!is_whole(1)) return 0;
  return is_whole(0) && half(0).sequence > half(1).sequence ? 0 : 1;
}

}  // namespace weir::store
