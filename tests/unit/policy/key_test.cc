#include "policy/key.h"

#include <gtest/gtest.h>

namespace weir::policy {
namespace {

std::string key(const Subject& subject, const std::vector<std::string>& by = {}) {
  const auto made = key_of(subject, by);
  return made ? *made : "error: " + made.error().message;
}

TEST(Key, TellsPartsApartThatRunTogether) {
  EXPECT_NE(key({.key = {}, .parts = {{"a", "b_c"}, {"a_b", "d"}}}),
            key({.key = {}, .parts = {{"a", "b"}, {"a_b", "c_d"}}}));
  EXPECT_NE(key({.key = {}, .parts = {{"a", "bc"}}}), key({.key = {}, .parts = {{"ab", "c"}}}));
}

TEST(Key, TellsAKeyFromPartsThatLookLikeIt) {
  const std::string parts = key({.key = {}, .parts = {{"a", "b"}}});
  EXPECT_NE(key({.key = parts, .parts = {}}), parts);
  EXPECT_NE(key({.key = parts.substr(1), .parts = {}}), parts);
}

TEST(Key, CountsByTheNamedPartsOnly) {
  const Subject one{.key = {}, .parts = {{"user", "alice"}, {"sku", "9"}}};
  const Subject two{.key = {}, .parts = {{"user", "alice"}, {"sku", "8"}}};
  EXPECT_EQ(key(one, {"user"}), key(two, {"user"}));
  EXPECT_NE(key(one, {"sku"}), key(two, {"sku"}));
  EXPECT_NE(key(one), key(two));
}

TEST(Key, MayHoldAnyBytes) {
  const std::string bytes("\0\xff{}\n", 5);
  EXPECT_EQ(key({.key = bytes, .parts = {}}).substr(1), bytes);
}

TEST(Key, SaysWhatIsMissing) {
  EXPECT_EQ(key({.key = "alice", .parts = {}}, {"user"}), "error: the part \"user\" is missing");
  EXPECT_EQ(key({.key = {}, .parts = {{"user", ""}}}, {"user"}),
            "error: the part \"user\" is empty");
  EXPECT_EQ(key({.key = "", .parts = {}}), "error: the key is empty");
}

TEST(Key, HasALongestLength) {
  EXPECT_EQ(key({.key = std::string(4096, 'x'), .parts = {}}).size(), 4097u);
  EXPECT_EQ(key({.key = std::string(4097, 'x'), .parts = {}}),
            "error: the key has 4097 bytes, at most 4096 are allowed");
}

}  // namespace
}  // namespace weir::policy
