#include "cli/top/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::cli::top {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TopTerminal, ParsesLettersTabsAndArrowKeys) {
  EXPECT_THAT(parse_commands("q"), ElementsAre(UserCommand::quit));
  EXPECT_THAT(parse_commands("p"), ElementsAre(UserCommand::pause));
  EXPECT_THAT(parse_commands("\x1b[A\x1b[B\x1bOA\x1bOB"),
              ElementsAre(UserCommand::previous, UserCommand::next, UserCommand::previous,
                          UserCommand::next));
  EXPECT_THAT(parse_commands("\t\x1b[Z"), ElementsAre(UserCommand::next, UserCommand::previous));
}

TEST(TopTerminal, IgnoresOtherBytes) {
  EXPECT_THAT(parse_commands(""), IsEmpty());
  EXPECT_THAT(parse_commands("\x1bxyz7\xff\n"), IsEmpty());
  EXPECT_THAT(parse_commands("xq"), ElementsAre(UserCommand::quit));
}

}  // namespace
}  // namespace weir::cli::top
