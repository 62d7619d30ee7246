#include "base/suggest.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace weir {
namespace {

constexpr std::array<std::string_view, 5> kKnown{"limits", "shadow", "schedule", "overrides", "by"};

TEST(Suggest, FindsTheWordThatWasMeant) {
  EXPECT_EQ(nearest("limit", kKnown), "limits");
  EXPECT_EQ(nearest("lmits", kKnown), "limits");
  EXPECT_EQ(nearest("shaddow", kKnown), "shadow");
  EXPECT_EQ(nearest("overides", kKnown), "overrides");
  EXPECT_EQ(nearest("bi", kKnown), "by");
}

TEST(Suggest, IgnoresCase) {
  EXPECT_EQ(nearest("BY", kKnown), "by");
  EXPECT_EQ(nearest("OVERIDES", kKnown), "overrides");
}

TEST(Suggest, SuggestsNothingWhenNoWordIsSimilar) {
  EXPECT_EQ(nearest("password", kKnown), "");
  EXPECT_EQ(nearest("zzzzzz", kKnown), "");
  EXPECT_EQ(nearest("limits", {}), "");
  EXPECT_EQ(did_you_mean("password", kKnown), "");
}

TEST(Suggest, FormatsTheSuggestionAsAQuestion) {
  EXPECT_EQ(did_you_mean("limit", kKnown), " (did you mean \"limits\"?)");
}

// The cost of a comparison grows with the product of the lengths.
TEST(Suggest, DoesNotCompareVeryLongWords) {
  EXPECT_EQ(nearest(std::string(1'000'000, 'x'), kKnown), "");
}

}  // namespace
}  // namespace weir
