#include "cli/top/text.h"

#include <gtest/gtest.h>

namespace weir::cli::top {
namespace {

std::string text(std::string_view bytes, std::size_t max_columns = 1000, bool utf8 = true) {
  return display_text(bytes, max_columns, utf8).text;
}
std::size_t columns(std::string_view bytes) { return display_text(bytes, 1000, true).columns; }

TEST(TopText, LeavesPrintableTextUnchanged) {
  EXPECT_EQ(text("alice@example.org"), "alice@example.org");
  EXPECT_EQ(text("Zoë 日本 ☃"), "Zoë 日本 ☃");
}

// A terminal interprets escape sequences in a key unless their bytes are escaped.
TEST(TopText, EscapesControlCharacters) {
  EXPECT_EQ(text("\x1b]0;pwned\x07"), "\\x1b]0;pwned\\x07");
  EXPECT_EQ(text("a\r\n\tb\x7f"), "a\\x0d\\x0a\\x09b\\x7f");
  EXPECT_EQ(text(std::string_view{"a\0b", 3}), "a\\x00b");
  EXPECT_EQ(text("\xc2\x9b"
                 "31m"),
            "\\x9b31m");  // U+009B starts an escape sequence, like ESC [
}

TEST(TopText, EscapesInvisibleAndDirectionCharacters) {
  EXPECT_EQ(text("a\u202e"
                 "b\u200bc\ufeff"),
            "a\\u202eb\\u200bc\\ufeff");
  EXPECT_EQ(text("\U000e0041"), "\\U0e0041");
}

TEST(TopText, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(text("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(text("\x9b"
                 "31m"),
            "\\x9b31m");
}

TEST(TopText, CountsColumnsAsTerminalsDo) {
  EXPECT_EQ(columns("abc"), 3u);
  EXPECT_EQ(columns("Zoë"), 3u);
  EXPECT_EQ(columns("日本"), 4u);
  EXPECT_EQ(columns("🚀"), 2u);
  EXPECT_EQ(columns("e\u0301"), 1u);  // a combining accent
  EXPECT_EQ(columns("\x1b"), 4u);
}

TEST(TopText, TruncatesTextThatDoesNotFit) {
  EXPECT_EQ(text("alice", 5), "alice");
  EXPECT_EQ(text("alice", 4), "ali…");
  EXPECT_EQ(text("alice", 1), "…");
  EXPECT_EQ(text("alice", 0), "");
  EXPECT_EQ(text("日本", 4), "日本");
  EXPECT_EQ(text("日本", 3), "日…");
  EXPECT_EQ(text("日本", 2), "…");
  EXPECT_EQ(text("ab\x1b", 5), "ab…");
}

TEST(TopText, IsAsciiWithoutUtf8) {
  EXPECT_EQ(text("Zoë 日本", 100, false), "Zo? ??");
  EXPECT_EQ(text("alice", 4, false), "ali~");
}

}  // namespace
}  // namespace weir::cli::top
