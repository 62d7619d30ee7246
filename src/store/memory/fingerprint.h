#pragma once

#include <cstdint>
#include <string_view>

namespace weir::store {

// Who a slot belongs to: 78 bits of a seeded hash of a limit and a key, which nobody who does not
// know the seed can make collide, and two bits about the place. No key's text is kept.
//
// Where a slot may lie follows from these bits alone, so that a table can be moved into one of
// another size.
struct Fingerprint {
  std::uint64_t high = 0;
  std::uint64_t low = 0;  // only the upper 16 bits; a slot keeps its time of rest in the others

  static constexpr std::uint64_t kLowBits = std::uint64_t{0xffff} << 48;
  static constexpr std::uint64_t kRecord = std::uint64_t{1} << 48;  // the state names a record
  static constexpr std::uint64_t kShared = std::uint64_t{2} << 48;  // of newcomers to a full table

  bool has_record() const { return (low & kRecord) != 0; }
  bool is_shared() const { return (low & kShared) != 0; }
  friend auto operator<=>(const Fingerprint&, const Fingerprint&) = default;
};

// What distinguishes equal bytes of different meaning.
enum class KeyKind : std::uint8_t {
  whole,    // a key as given
  parts,    // encoded parts of one
  sharing,  // all newcomers together: no key
};

// `limit` is the hash of the limit's identity.
Fingerprint fingerprint(std::uint64_t seed, std::uint64_t limit, KeyKind kind, std::string_view key,
                        bool has_record);

// A hash for identities of limits and names of holders.
struct Hash128 {
  std::uint64_t high;
  std::uint64_t low;
};
Hash128 hash_of(std::string_view text, std::uint64_t seed = 0);

}  // namespace weir::store
