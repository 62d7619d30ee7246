#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace weir::store::redis {

// Parses eight digits at once (SWAR), if all eight bytes are digits: subtracts '0' from each byte,
// then joins neighbours to pairs, pairs to fours, and fours to one number.
inline bool read_eight_digits(const char* at, std::uint64_t& number) {
  if constexpr (std::endian::native != std::endian::little) return false;
  constexpr std::uint64_t upper_halves = 0xf0f0'f0f0'f0f0'f0f0;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, at, sizeof bytes);
  // A byte above '9' gets another upper half when six is added.
  const std::uint64_t carried = bytes + 0x0606'0606'0606'0606;
  const bool all_digits = (bytes & upper_halves) == 0x3030'3030'3030'3030 &&
                          (carried & upper_halves) == 0x3030'3030'3030'3030;
  if (!all_digits) return false;
  bytes -= 0x3030'3030'3030'3030;
  bytes = bytes * 10 + (bytes >> 8);
  constexpr std::uint64_t pairs = 0x0000'00ff'0000'00ff;
  number = ((bytes & pairs) * (100 + (std::uint64_t{1'000'000} << 32)) +
            (bytes >> 16 & pairs) * (1 + (std::uint64_t{10'000} << 32))) >>
           32;
  return true;
}

// Parses a number of at most 19 digits, the longest that always fits, from `at` up to `end` or the
// first byte that is not a digit. Returns the end of the number, or null if there is none. Replies
// are mostly digits: std::from_chars took a tenth of the total cost of a call.
inline const char* read_digits(const char* at, const char* end, std::uint64_t& number) {
  const char* const first = at;
  std::uint64_t value = 0;
  for (std::uint64_t eight = 0; end - at >= 8 && read_eight_digits(at, eight); at += 8) {
    value = value * 100'000'000 + eight;
  }
  for (; at != end; ++at) {
    const auto digit = static_cast<unsigned char>(*at - '0');
    if (digit > 9) break;
    value = value * 10 + digit;
  }
  constexpr int max_digits = 19;
  if (at == first || at - first > max_digits) return nullptr;
  number = value;
  return at;
}

}  // namespace weir::store::redis
