#pragma once

#include <string>
#include <string_view>

// How a store that nodes share knows what is remembered of a key under a limit:
//
//   weir1:{login:alice}:sliding/1min        the policy, the whole key, the limit
//   weir1:{seckill:sku=42}:bucket/1s        the policy, the parts that the limit counts by
//
// The digit is that of the format of what is kept there. The braces make a Redis Cluster keep all
// that a policy remembers of one key together. Every byte that is not a letter, a digit or one of
// . _ @ ~ / + - is written as %XX, so no key can end the braces, and none looks like another.

namespace weir::store {

// What all names under a policy start with.
std::string key_head(std::string_view policy);
// The same for a test, which has keys of its own: only under such names a store takes the time from
// whoever asks.
std::string test_key_head(std::string_view run);
// What stands between: whose usage it is.
void append_whole(std::string& name, std::string_view key);
void append_part(std::string& name, std::string_view part, std::string_view value);
// What all names of a limit end with.
std::string key_tail(std::string_view limit);

}  // namespace weir::store
