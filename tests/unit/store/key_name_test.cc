#include "store/key_name.h"

#include <gtest/gtest.h>

#include <set>

namespace weir::store {
namespace {

std::string named(std::string_view policy, std::string_view key) {
  std::string name = key_head(policy);
  append_whole(name, key);
  return name + key_tail("bucket/1s");
}

TEST(KeyName, HasThePolicyTheKeyAndTheLimit) {
  EXPECT_EQ(named("login", "alice@example.com"), "weir1:{login:alice@example.com}:bucket/1s");
}

TEST(KeyName, HasNameAndValueOfEachPart) {
  std::string name = key_head("login");
  append_part(name, "ip", "10.0.0.1");
  append_part(name, "user", "al=ice,");
  EXPECT_EQ(name, "weir1:{login:ip=10.0.0.1,user=al%3Dice%2C");
}

// A client must not be able to end the hash tag.
TEST(KeyName, EscapesCharactersThatCouldEndTheHashTag) {
  EXPECT_EQ(named("a:b", "x}y{z%"), "weir1:{a%3Ab:x%7Dy%7Bz%25}:bucket/1s");
  EXPECT_EQ(named("p", std::string_view("\0\xff ", 3)), "weir1:{p:%00%FF%20}:bucket/1s");
}

TEST(KeyName, DiffersForAWholeKeyAndForParts) {
  std::string of_parts = key_head("p");
  append_part(of_parts, "ip", "1");
  std::string whole = key_head("p");
  append_whole(whole, "ip=1");
  EXPECT_NE(of_parts, whole);
}

TEST(KeyName, DiffersForNamedAndUnnamedLimits) {
  const std::set<std::string> names{key_tail("bucket=1s"),   key_tail("bucket/1s"),
                                    key_tail("bucket/1s/2"), key_tail("bucket/1min"),
                                    key_tail("bucket=a=b"),  key_tail("bucket=a%3Db")};
  EXPECT_EQ(names.size(), 6u);
}

// A store accepts the caller's time only under such names.
TEST(KeyName, HasAPrefixOfItsOwnForTests) {
  EXPECT_EQ(test_key_head("run 1"), "weir1:test:run%201:{:");
  for (const auto* policy : {"test", "test:x", ""}) {
    EXPECT_FALSE(named(policy, "k").starts_with("weir1:test:"));
  }
}

}  // namespace
}  // namespace weir::store
