#include "base/truncated_text.h"

#include <gtest/gtest.h>

#include <string>

namespace weir {
namespace {

TEST(TruncatedText, KeepsATextThatFits) {
  const std::string whole(TruncatedText::kMaxBytes, 'x');
  TruncatedText text;
  text.append("");
  EXPECT_EQ(text.view(), "");
  text.append(whole.substr(0, 100));
  text.append(whole.substr(100));
  EXPECT_EQ(text.view(), whole);
  EXPECT_FALSE(text.is_truncated());
}

TEST(TruncatedText, TruncatesALongerText) {
  TruncatedText text;
  text.append(std::string(TruncatedText::kMaxBytes, 'x'));
  text.append("y");
  EXPECT_EQ(text.view(), std::string(TruncatedText::kMaxBytes - 3, 'x') + "…");
  EXPECT_TRUE(text.is_truncated());
  text.append("more");
  EXPECT_EQ(text.view().size(), TruncatedText::kMaxBytes);
}

TEST(TruncatedText, DoesNotCutACharacterInTwo) {
  std::string long_one = "x";
  for (int i = 0; i < 100; ++i) long_one += "é";
  TruncatedText text;
  text.append(long_one);
  EXPECT_EQ(text.view(), long_one.substr(0, 125) + "…");
  text.clear();
  text.append(long_one.substr(1));
  EXPECT_EQ(text.view(), long_one.substr(1, 124) + "…");
}

TEST(TruncatedText, IsEmptyAfterClear) {
  TruncatedText text;
  text.append(std::string(1000, 'x'));
  text.clear();
  text.append("y");
  EXPECT_EQ(text.view(), "y");
  EXPECT_FALSE(text.is_truncated());
}

}  // namespace
}  // namespace weir
