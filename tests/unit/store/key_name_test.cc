#include "store/key_name.h"

#include <gtest/gtest.h>

#include <set>

namespace weir::store {
namespace {

std::string named(std::string_view policy, std::string_view key) {
  std::string name = key_prefix(policy);
  append_whole_key(name, key);
  return name + key_suffix("bucket/1s");
}

TEST(KeyName, HasThePolicyTheKeyAndTheLimit) {
  EXPECT_EQ(named("login", "alice@example.com"), "weir1:{login:alice@example.com}:bucket/1s");
}

TEST(KeyName, HasTheNamesAndValuesOfParts) {
  std::string name = key_prefix("login");
  append_key_part(name, "ip", "10.0.0.1");
  append_key_part(name, "user", "al=ice,");
  EXPECT_EQ(name, "weir1:{login:ip=10.0.0.1,user=al%3Dice%2C");
}

// No key of a caller can end the hash tag.
TEST(KeyName, EscapesBytesThatCouldEndTheHashTag) {
  EXPECT_EQ(named("a:b", "x}y{z%"), "weir1:{a%3Ab:x%7Dy%7Bz%25}:bucket/1s");
  EXPECT_EQ(named("p", std::string_view("\0\xff ", 3)), "weir1:{p:%00%FF%20}:bucket/1s");
}

TEST(KeyName, DiffersForAWholeKeyAndParts) {
  std::string of_parts = key_prefix("p");
  append_key_part(of_parts, "ip", "1");
  std::string whole = key_prefix("p");
  append_whole_key(whole, "ip=1");
  EXPECT_NE(of_parts, whole);
}

TEST(KeyName, DiffersForNamedAndUnnamedLimits) {
  const std::set<std::string> names{key_suffix("bucket=1s"),   key_suffix("bucket/1s"),
                                    key_suffix("bucket/1s/2"), key_suffix("bucket/1min"),
                                    key_suffix("bucket=a=b"),  key_suffix("bucket=a%3Db")};
  EXPECT_EQ(names.size(), 6u);
}

// Scripts accept a time from the caller only under this prefix.
TEST(KeyName, HasAPrefixOfItsOwnForTests) {
  EXPECT_EQ(test_key_prefix("run 1"), "weir1:test:run%201:{:");
  for (const auto* policy : {"test", "test:x", ""}) {
    EXPECT_FALSE(named(policy, "k").starts_with("weir1:test:"));
  }
}

}  // namespace
}  // namespace weir::store
