#include "base/utf8.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using namespace std::string_view_literals;

TEST(Utf8, IsValidated) {
  for (const auto text : {""sv, "plain"sv, "a\0b"sv, "\xc3\xa4"sv, "\xf0\x9f\x98\x80!"sv}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  for (const auto text : {"\xff"sv, "a\xc3"sv, "\xc3\xa4\x80"sv, "\xc0\x80"sv, "\xed\xa0\x80"sv,
                          "\xf0\x9f\x98"sv, "\xf4\x90\x80\x80"sv}) {
    EXPECT_FALSE(is_utf8(text)) << testing::PrintToString(text);
  }
}

TEST(Utf8, IsShortenedInMessages) {
  EXPECT_EQ(shortened("abc"), "abc");
  EXPECT_EQ(shortened(std::string(64, 'x')), std::string(64, 'x'));
  EXPECT_EQ(shortened(std::string(1000, 'x')), std::string(64, 'x') + "…");
  EXPECT_EQ(shortened(std::string(63, 'x') + "äöü"), std::string(63, 'x') + "…");
}

TEST(Utf8, IsTruncatedBetweenCharacters) {
  EXPECT_EQ(truncate_utf8("abc", 3), "abc");
  EXPECT_EQ(truncate_utf8("abc", 2), "ab");
  EXPECT_EQ(truncate_utf8("aäb", 3), "aä");
  EXPECT_EQ(truncate_utf8("aäb", 2), "a");
  EXPECT_EQ(truncate_utf8("😀", 3), "");
  EXPECT_EQ(truncate_utf8("\x80\x80", 1), "");
}

}  // namespace
}  // namespace weir
