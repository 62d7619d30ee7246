#include "cli/top/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::cli::top {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TopTerminal, KnowsWhatSomebodyTypes) {
  EXPECT_THAT(wishes_in("q"), ElementsAre(Wish::quit));
  EXPECT_THAT(wishes_in("p"), ElementsAre(Wish::pause));
  EXPECT_THAT(wishes_in("\x1b[A\x1b[B\x1bOA\x1bOB"),
              ElementsAre(Wish::previous, Wish::next, Wish::previous, Wish::next));
  EXPECT_THAT(wishes_in("\t\x1b[Z"), ElementsAre(Wish::next, Wish::previous));
}

TEST(TopTerminal, IgnoresTheRest) {
  EXPECT_THAT(wishes_in(""), IsEmpty());
  EXPECT_THAT(wishes_in("\x1bxyz7\xff\n"), IsEmpty());
  EXPECT_THAT(wishes_in("xq"), ElementsAre(Wish::quit));
}

}  // namespace
}  // namespace weir::cli::top
