#include "store/memory/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weir::store {

Fingerprint fingerprint(std::uint64_t seed, std::uint64_t limit, KeyKind kind, std::string_view key,
                        bool has_record) {
  // Odd multiples of a large odd number: a different salt for each kind, with many differing bits.
  constexpr std::uint64_t multiplier = 0x9e37'79b9'7f4a'7c15;
  const std::uint64_t salt = seed ^ limit ^ (static_cast<std::uint64_t>(kind) * 2 + 1) * multiplier;
  const XXH128_hash_t hash = XXH3_128bits_withSeed(key.data(), key.size(), salt);
  std::uint64_t low = hash.low64 & Fingerprint::kLowBits;
  low &= ~(Fingerprint::kRecord | Fingerprint::kOverflow);
  if (has_record) low |= Fingerprint::kRecord;
  if (kind == KeyKind::overflow) low |= Fingerprint::kOverflow;
  return {.high = hash.high64, .low = low};
}

Hash128 hash_of(std::string_view text, std::uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(text.data(), text.size(), seed);
  return {.high = hash.high64, .low = hash.low64};
}

}  // namespace weir::store
