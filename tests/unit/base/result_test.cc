#include "weir/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace weir {
namespace {

enum class Why { too_big, too_small };

Result<std::string, Why> word(int length) {
  if (length > 3) return Why::too_big;
  if (length < 1) return Why::too_small;
  return std::string(static_cast<std::size_t>(length), 'x');
}

TEST(Result, HoldsAValue) {
  const auto made = word(3);
  ASSERT_TRUE(made);
  EXPECT_EQ(*made, "xxx");
  EXPECT_EQ(made->size(), 3u);
}

TEST(Result, HoldsAnError) {
  EXPECT_FALSE(word(4));
  EXPECT_EQ(word(4).error(), Why::too_big);
  EXPECT_EQ(word(0).error(), Why::too_small);
}

TEST(Result, MovesAMoveOnlyValueOut) {
  Result<std::unique_ptr<int>, Why> made(std::make_unique<int>(7));
  ASSERT_TRUE(made);
  const std::unique_ptr<int> taken = *std::move(made);
  EXPECT_EQ(*taken, 7);
}

TEST(Result, ProvidesMutableAccessToItsValue) {
  auto made = word(2);
  ASSERT_TRUE(made);
  made->push_back('y');
  *made += 'z';
  EXPECT_EQ(*made, "xxyz");
}

}  // namespace
}  // namespace weir
