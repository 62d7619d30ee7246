#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

// The scripts, put together from the files in lua/.

namespace weir::store::redis {

struct Script {
  std::string source{};
  std::string sha1{};  // in hex, as EVALSHA wants it
};

// Algorithms, as bits: 1 << index in core::Limit.
using Algorithms = std::uint32_t;

// All of them live as long as the program. Thread-safe.
// For a take of limits by these letters: buckets, aligned windows and quotas (b, w, q).
const Script& take_script(std::string_view letters);
// For take, peek, settle and enter on limits by these algorithms.
const Script& general_script(Algorithms algorithms);
const Script& reset_script();
const Script& leave_script();
const Script& membership_script();
// For loans of limits by this algorithm: its index in core::Limit.
const Script& lend_script(std::size_t algorithm);

// A script by its parts, for `general_script` and for tests.
Script assemble(std::initializer_list<std::string_view> parts);

}  // namespace weir::store::redis
