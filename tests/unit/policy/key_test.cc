#include "policy/key.h"

#include <gtest/gtest.h>

namespace weir::policy {
namespace {

// The kind of the key and its bytes, or the error message.
std::string key(std::string_view whole, const Parts& parts,
                const std::vector<std::string>& by = {}) {
  std::string buffer;
  const auto made = key_of({.key = whole, .parts = parts.all()}, by, buffer);
  if (!made) return "error: " + made.error().message;
  return (made->of_parts ? "parts " : "whole ") + std::string{made->bytes};
}

TEST(Key, TellsPartsApartThatRunTogether) {
  EXPECT_NE(key({}, {{"a", "b_c"}, {"a_b", "d"}}), key({}, {{"a", "b"}, {"a_b", "c_d"}}));
  EXPECT_NE(key({}, {{"a", "bc"}}), key({}, {{"ab", "c"}}));
}

TEST(Key, TellsAKeyFromPartsThatLookLikeIt) {
  const std::string parts = key({}, {{"a", "b"}});
  EXPECT_NE(key(parts.substr(6), {}), parts);
  EXPECT_EQ(key(parts.substr(6), {}).substr(6), parts.substr(6));
}

// Callers may give parts in any order.
TEST(Key, DoesNotDependOnTheOrderOfTheParts) {
  EXPECT_EQ(key({}, {{"a", "1"}, {"b", "2"}}), key({}, {{"b", "2"}, {"a", "1"}}));
  EXPECT_EQ(key({}, {{"a", "1"}, {"b", "2"}}, {"a", "b"}),
            key({}, {{"b", "2"}, {"a", "1"}}, {"a", "b"}));
}

TEST(Key, CountsByTheNamedPartsOnly) {
  const Parts one{{"user", "alice"}, {"sku", "9"}};
  const Parts two{{"user", "alice"}, {"sku", "8"}};
  EXPECT_EQ(key({}, one, {"user"}), key({}, two, {"user"}));
  EXPECT_NE(key({}, one, {"sku"}), key({}, two, {"sku"}));
  EXPECT_NE(key({}, one), key({}, two));
}

TEST(Key, MayHoldAnyBytes) {
  const std::string bytes("\0\xff{}\n", 5);
  EXPECT_EQ(key(bytes, {}), "whole " + bytes);
}

TEST(Key, NamesTheMissingPart) {
  EXPECT_EQ(key("alice", {}, {"user"}),
            "error: the part \"user\" is missing: this is counted by user");
  EXPECT_EQ(key({}, {{"user", ""}}, {"user"}), "error: the part \"user\" is empty");
  EXPECT_EQ(key("", {}), "error: the key is empty");
}

TEST(Key, RefusesDuplicateParts) {
  EXPECT_EQ(key({}, {{"user", "alice"}, {"user", "bob"}}),
            "error: the part \"user\" is given twice");
  // A limit that counts by this part would have to choose a value, and the caller could exploit
  // that.
  EXPECT_EQ(key({}, {{"user", "alice"}, {"sku", "9"}, {"user", "bob"}}, {"user"}),
            "error: the part \"user\" is given twice");
  EXPECT_EQ(key({}, {{"sku", "9"}, {"sku", "8"}, {"user", "bob"}}, {"user"}),
            key({}, {{"user", "bob"}}, {"user"}));
}

TEST(Key, RefusesMoreThan4096Bytes) {
  EXPECT_EQ(key(std::string(4096, 'x'), {}).size(), 4096u + 6);
  EXPECT_EQ(key(std::string(4097, 'x'), {}),
            "error: the key has 4097 bytes, at most 4096 are allowed");
  EXPECT_EQ(key({}, {{"user", std::string(4097, 'x')}}),
            "error: the part \"user\" has 4097 bytes, at most 4096 are allowed");
  EXPECT_EQ(key({}, {{std::string(4097, 'x'), "alice"}}),
            "error: the name of a part has 4097 bytes, at most 4096 are allowed");
}

}  // namespace
}  // namespace weir::policy
