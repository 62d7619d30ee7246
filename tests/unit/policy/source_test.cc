#include "policy/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::policy {
namespace {

TEST(Source, PointsAtTheCharacter) {
  const Source source{"limits.yaml", "first\nlimit: 100/sec\n"};
  EXPECT_EQ(source.render({{2, 12}, "unknown unit"}),
            "limits.yaml:2:12: unknown unit\n"
            "  limit: 100/sec\n"
            "             ^\n");
}

TEST(Source, KeepsTheCaretBelowTabsAndUmlauts) {
  const Source source{"f", "\tgrün: x\n"};
  EXPECT_EQ(source.render({{1, 8}, "what"}), "f:1:8: what\n  \tgrün: x\n  \t     ^\n");
}

TEST(Source, ShowsPartOfALongLine) {
  const Source source{"f", std::string(1 << 20, 'x')};
  EXPECT_LT(source.render({{1, 500'000}, "here"}).size(), 300u);
}

TEST(Source, ShowsNothingBeyondTheEnd) {
  const Source source{"f", "one\r\n"};
  EXPECT_EQ(source.line(1), "one");
  EXPECT_EQ(source.line(2), "");
  EXPECT_EQ(source.line(99), "");
  EXPECT_EQ(source.render({{9, 9}, "gone"}), "f:9:9: gone\n  \n  ^\n");
}

TEST(Source, SaysWhyAFileCannotBeRead) {
  const auto missing = Source::read("/nonexistent/weir.yaml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error(), "cannot open /nonexistent/weir.yaml: No such file or directory");
  const auto folder = Source::read("/");
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error(), testing::HasSubstr("Is a directory"));
}

TEST(Source, ReadsAnEmptyFile) {
  const auto empty = Source::read("/dev/null");
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->text, "");
}

}  // namespace
}  // namespace weir::policy
