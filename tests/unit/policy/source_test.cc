#include "policy/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

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

TEST(Source, PointsAtSeveralPlaces) {
  const Source source{"f", "\ufefffirst\r\n\nthird"};
  const Problem problems[] = {{{3, 2}, "c"}, {{1, 1}, "a"}, {{2, 1}, "b"}, {{4, 1}, "no line"}};
  std::string one_by_one;
  for (const Problem& problem : problems) one_by_one += source.render(problem);
  EXPECT_EQ(source.render_all({std::begin(problems), std::end(problems)}), one_by_one);
  EXPECT_EQ(one_by_one,
            "f:3:2: c\n  third\n   ^\nf:1:1: a\n  first\n  ^\nf:2:1: b\n  \n  ^\n"
            "f:4:1: no line\n  \n  ^\n");
  EXPECT_EQ(source.render_all({}), "");
}

// East Asian characters take two columns, and so does the blank below them.
TEST(Source, KeepsTheCaretBelowWideAndCombiningCharacters) {
  EXPECT_EQ((Source{"f", "限: x\n"}.render({{1, 6}, "what"})),
            "f:1:6: what\n  限: x\n  \u3000  ^\n");
  EXPECT_EQ((Source{"f", "😀 x\n"}.render({{1, 6}, "what"})), "f:1:6: what\n  😀 x\n  \u3000 ^\n");
  EXPECT_EQ((Source{"f", "e\u0301 x\n"}.render({{1, 5}, "what"})),
            "f:1:5: what\n  e\u0301 x\n    ^\n");
}

TEST(Source, LeavesOutAByteOrderMark) {
  const Source source{"f", "\ufeffone: x\ntwo\n"};
  EXPECT_EQ(source.line(1), "one: x");
  EXPECT_EQ(source.line(2), "two");
  EXPECT_EQ(source.render({{1, 6}, "what"}), "f:1:6: what\n  one: x\n       ^\n");
}

// A file of unknown origin must not send escape sequences to the terminal.
TEST(Source, ReplacesControlCharactersForTheTerminal) {
  const Source source{"f", "a\x1b[31m\xff x\n"};
  EXPECT_EQ(source.render({{1, 9}, "not \"\x1b\n\x07\""}),
            "f:1:9: not \"???\"\n  a?[31m\ufffd x\n          ^\n");
}

TEST(Source, ShowsWholeCharactersOfALongLine) {
  std::string line;
  for (int i = 0; i < 1000; ++i) line += "ä";
  for (const int column : {1, 3, 999, 1001, 1999}) {
    const std::string shown = Source{"f", line}.render({{1, column}, "what"});
    EXPECT_EQ(shown.find("\ufffd"), std::string::npos) << column;
  }
}

TEST(InQuotes, ShowsTheStartOfALongText) {
  EXPECT_EQ(in_quotes(""), "\"\"");
  EXPECT_EQ(in_quotes(std::string(40, 'x')), "\"" + std::string(40, 'x') + "\"");
  EXPECT_EQ(in_quotes(std::string(41, 'x')), "\"" + std::string(40, 'x') + "…\"");
  EXPECT_EQ(in_quotes(std::string(39, 'x') + "äx"), "\"" + std::string(39, 'x') + "…\"");
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
  const std::string path = testing::TempDir() + "weir-empty.yaml";
  std::ofstream{path};
  const auto empty = Source::read(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->text, "");
}

// A FIFO without a writer would block, and a device may have no end.
TEST(Source, ReadsRegularFilesOnly) {
  const std::string pipe = testing::TempDir() + "weir-pipe.yaml";
  std::filesystem::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto from_pipe = Source::read(pipe);
  std::filesystem::remove(pipe);
  ASSERT_FALSE(from_pipe);
  EXPECT_EQ(from_pipe.error(), "cannot read " + pipe + ": it is not a regular file");
  EXPECT_FALSE(Source::read("/dev/zero"));
}

// As with `weir validate <(…)`.
TEST(Source, ReadsAPipeOfTheCaller) {
  FILE* const pipe = popen("printf 'a: b'", "r");
  ASSERT_NE(pipe, nullptr);
  const auto given = Source::read("/dev/fd/" + std::to_string(fileno(pipe)));
  pclose(pipe);
  ASSERT_TRUE(given) << given.error();
  EXPECT_EQ(given->text, "a: b");
}

TEST(Source, RefusesEndlessFiles) {
  FILE* const endless = fopen("/dev/zero", "r");
  ASSERT_NE(endless, nullptr);
  const auto read = Source::read("/dev/fd/" + std::to_string(fileno(endless)));
  fclose(endless);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error(), testing::HasSubstr("more than 64 MiB"));
}

}  // namespace
}  // namespace weir::policy
