#pragma once

#include <cstdint>
#include <string_view>

namespace weir::store {

// Identifies the owner of a slot: 78 bits of a seeded hash of a limit and a key, and two flag bits.
// Collisions cannot be constructed without the seed. The key's text is not stored.
//
// The position of a slot depends on these bits only, so the entries of a table can be moved into a
// table of another size.
struct Fingerprint {
  std::uint64_t high = 0;
  std::uint64_t low = 0;  // upper 16 bits only; a slot stores its rest time in the other 48

  static constexpr std::uint64_t kLowBits = std::uint64_t{0xffff} << 48;
  static constexpr std::uint64_t kRecord = std::uint64_t{1} << 48;  // the state refers to a record
  static constexpr std::uint64_t kOverflow = std::uint64_t{2} << 48;  // an overflow state

  bool has_record() const { return (low & kRecord) != 0; }
  bool is_overflow() const { return (low & kOverflow) != 0; }
  friend auto operator<=>(const Fingerprint&, const Fingerprint&) = default;
};

// Domain separation: equal bytes of different kinds have different fingerprints.
enum class KeyKind : std::uint8_t {
  whole,     // a key as given
  parts,     // the encoded parts of a key
  overflow,  // the overflow state of a limit: no key
};

// `limit` is a hash of the limit's identity.
Fingerprint fingerprint(std::uint64_t seed, std::uint64_t limit, KeyKind kind, std::string_view key,
                        bool has_record);

// A 128-bit hash, for identities of limits and names of holders.
struct Hash128 {
  std::uint64_t high;
  std::uint64_t low;
};
Hash128 hash_of(std::string_view text, std::uint64_t seed = 0);

}  // namespace weir::store
