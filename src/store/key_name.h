#pragma once

#include <string>
#include <string_view>

// Names of keys in a store that nodes share. There is one such key for each limit and each key of a
// policy:
//
//   weir1:{login:alice}:sliding/1min        the policy, the whole key, the limit
//   weir1:{seckill:sku=42}:bucket/1s        the policy, the parts that the limit counts by
//
// The digit is the version of the format of the values. The braces are a hash tag: a Redis Cluster
// keeps all keys with the same text between them in the same hash slot. Every byte that is not a
// letter, a digit or one of . _ @ ~ / + - is escaped as %XX. So no key of a caller can end the hash
// tag, and two different keys never have the same name.

namespace weir::store {

// The prefix of all names under a policy.
std::string key_prefix(std::string_view policy);
// The same for a test run. Scripts accept a time from the caller only for names with this prefix.
std::string test_key_prefix(std::string_view run);
// Append the middle of a name, which identifies the key: the whole key, or one part of it.
void append_whole_key(std::string& name, std::string_view key);
void append_key_part(std::string& name, std::string_view part, std::string_view value);
// The suffix of all names of a limit.
std::string key_suffix(std::string_view limit);

}  // namespace weir::store
