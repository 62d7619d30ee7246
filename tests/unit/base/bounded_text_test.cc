#include "base/bounded_text.h"

#include <gtest/gtest.h>

#include <string>

namespace weir {
namespace {

TEST(BoundedText, KeepsATextThatFits) {
  const std::string whole(BoundedText::kMost, 'x');
  BoundedText text;
  text.append("");
  EXPECT_EQ(text.view(), "");
  text.append(whole.substr(0, 100));
  text.append(whole.substr(100));
  EXPECT_EQ(text.view(), whole);
  EXPECT_FALSE(text.is_cut());
}

TEST(BoundedText, TruncatesALongerText) {
  BoundedText text;
  text.append(std::string(BoundedText::kMost, 'x'));
  text.append("y");
  EXPECT_EQ(text.view(), std::string(BoundedText::kMost - 3, 'x') + "…");
  EXPECT_TRUE(text.is_cut());
  text.append("more");
  EXPECT_EQ(text.view().size(), BoundedText::kMost);
}

TEST(BoundedText, DoesNotCutACharacterInTwo) {
  std::string long_one = "x";
  for (int i = 0; i < 100; ++i) long_one += "é";
  BoundedText text;
  text.append(long_one);
  EXPECT_EQ(text.view(), long_one.substr(0, 125) + "…");
  text.clear();
  text.append(long_one.substr(1));
  EXPECT_EQ(text.view(), long_one.substr(1, 124) + "…");
}

TEST(BoundedText, IsEmptyAfterClear) {
  BoundedText text;
  text.append(std::string(1000, 'x'));
  text.clear();
  text.append("y");
  EXPECT_EQ(text.view(), "y");
  EXPECT_FALSE(text.is_cut());
}

}  // namespace
}  // namespace weir
