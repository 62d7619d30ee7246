#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

// The Lua scripts, assembled from the files in lua/.

namespace weir::store::redis {

struct LuaScript {
  std::string source{};
  std::string sha1{};  // in hex, as EVALSHA wants it
};

// A set of algorithms: the bit 1 << i stands for alternative i of core::Limit.
using AlgorithmSet = std::uint32_t;

// All functions are thread-safe, and the scripts they return live as long as the program.

// The script for a take of limits with these letters: b for buckets, w for aligned windows, q for
// quotas.
const LuaScript& take_script(std::string_view letters);
// The script for take, peek, settle and enter on limits of these algorithms.
const LuaScript& general_script(AlgorithmSet algorithms);
const LuaScript& reset_script();
const LuaScript& leave_script();
const LuaScript& membership_script();
// The script that leases permits of a limit. `algorithm` is the limit's index in core::Limit.
const LuaScript& lease_script(std::size_t algorithm);

// Concatenates the parts of a script.
LuaScript assemble(std::initializer_list<std::string_view> parts);

}  // namespace weir::store::redis
