#include "cli/top/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/top/text.h"

namespace weir::cli::top {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr Style kPrinted{.utf8 = true, .colour = false, .is_live = false};

TopView some_view() {
  TopView view{.address = "http://127.0.0.1:7380", .uptime = 3700, .generation = 3, .seconds = 93};
  view.rows = {{.policy = {.name = "login",
                           .top_allowed = {{"alice", 40, 0}, {"bob", 10, 3}},
                           .top_refused = {{"mallory", 1'234'567, 0}}},
                .allowed = 30,
                .refused = 10},
               {.policy = {.name = "", .top_allowed = {{"203.0.113.9", 7, 0}}}, .allowed = 20},
               {.policy = {.name = "quiet"}}};
  return view;
}

TopView large_view() {
  TopView view = some_view();
  view.rows.clear();
  for (int i = 0; i < 50; ++i) {
    PolicyActivity policy{.name = "policy " + std::to_string(i)};
    for (unsigned k = 0; k < 64; ++k) {
      policy.top_allowed.push_back({"日本 key " + std::to_string(k), 1'000'000'000 - k, k});
      policy.top_refused.push_back({std::string(200, 'x'), 1000 - k, 1'000'000});
    }
    view.rows.push_back({.policy = policy, .allowed = 1e6 - i, .refused = 3});
  }
  return view;
}

std::string without_colours(std::string line) {
  for (std::size_t at; (at = line.find('\x1b')) != std::string::npos;) {
    line.erase(at, line.find('m', at) - at + 1);
  }
  return line;
}

TEST(TopDraw, ShowsAllPoliciesAndTheKeysOfTheSelectedOne) {
  constexpr std::string_view expected = R"(
weir top  http://127.0.0.1:7380  up 1 h 1 min  generation 3
60/s, 16.7 % refused  keys of the last 93 s

  policy    allowed/s  refused/s
> login            30         10  ██████████████████████████████████░░░░░░░░░░░░
  (ad hoc)         20        0.0  ███████████████████████
  quiet           0.0        0.0

allowed most: login                     refused most: login
  alice              40 ±0     ███████    mallory          1235k ±0     ░░░░░░░░
  bob                10 ±3     ██)";
  std::string all;
  for (const std::string& line : draw(some_view(), {.columns = 80, .rows = 16}, kPrinted)) {
    all += "\n" + line;
  }
  EXPECT_EQ(all, expected);
}

TEST(TopDraw, FallsBackToTheFirstPolicyIfTheSelectedOneIsGone) {
  TopView view = some_view();
  view.selected = "(ad hoc)";
  const auto lines = draw(view, {.columns = 80, .rows = 24}, kPrinted);
  EXPECT_THAT(lines, Contains(StartsWith("> (ad hoc)")));
  EXPECT_THAT(lines, Contains(StartsWith("  203.0.113.9")));
  EXPECT_THAT(lines, Contains(HasSubstr("  none")));  // of the refused keys
  view.selected = "gone";
  EXPECT_EQ(selected_row(view), 0u);
}

TEST(TopDraw, FitsTerminalsOfAnySize) {
  for (const TopView& view : {some_view(), large_view(), TopView{.address = "http://[::1]:7380"}}) {
    for (std::size_t columns = 0; columns < 170; columns += columns < 12 ? 1 : 9) {
      for (std::size_t rows = 0; rows < 60; rows += rows < 12 ? 1 : 12) {
        for (const bool utf8 : {true, false}) {
          const Style style{.utf8 = utf8, .colour = true};
          const auto lines = draw(view, {.columns = columns, .rows = rows}, style);
          ASSERT_THAT(lines, SizeIs(rows));
          for (const std::string& line : lines) {
            const DisplayText all = display_text(without_colours(line), 10'000, true);
            ASSERT_LE(all.columns, columns) << columns << "x" << rows << ": " << line;
            ASSERT_EQ(all.text, without_colours(line));
          }
        }
      }
    }
  }
}

TEST(TopDraw, ShowsAtLeastOneRowOfEachSectionInASmallTerminal) {
  const auto lines = draw(large_view(), {.columns = 40, .rows = 10}, {});
  EXPECT_THAT(lines, Contains(StartsWith("weir top")));
  EXPECT_THAT(lines, Contains(StartsWith("> policy 0")));
  EXPECT_THAT(lines, Contains(StartsWith("allowed most: policy 0")));
  EXPECT_THAT(lines, Contains(StartsWith("  日本 key")));
  EXPECT_THAT(lines, Contains(StartsWith("refused most: policy 0")));
  EXPECT_THAT(lines, Contains(StartsWith("  xxxx")));
  EXPECT_THAT(lines.back(), StartsWith("q quit"));
}

TEST(TopDraw, ScrollsToTheSelectedPolicy) {
  TopView view = large_view();
  for (const int selected : {0, 5, 30, 49}) {
    view.selected = "policy " + std::to_string(selected);
    for (const std::size_t rows : {std::size_t{10}, std::size_t{24}, std::size_t{50}}) {
      EXPECT_THAT(draw(view, {.columns = 80, .rows = rows}, {}),
                  Contains(StartsWith("> " + view.selected + " ")));
    }
  }
}

TEST(TopDraw, ShowsErrorsAndThePause) {
  TopView view = some_view();
  view.error = "cannot reach\x1b";
  EXPECT_EQ(draw(view, {}, kPrinted)[1], "cannot reach\\x1b");
  view.error.clear();
  view.paused = true;
  EXPECT_THAT(draw(view, {}, kPrinted)[1], StartsWith("paused  60/s"));
}

TEST(TopDraw, EscapesControlCharactersInAllTexts) {
  TopView view = some_view();
  const std::string hostile = "\x1b]0;pwned\x07\r\n\xc2\x9b";
  view.address = hostile;
  view.rows[0].policy.name = hostile;
  view.rows[0].policy.top_allowed[0].text = hostile;
  view.rows[0].policy.top_refused[0].text = hostile;
  for (const std::string& line : draw(view, {.columns = 160, .rows = 30}, kPrinted)) {
    for (const char c : line) ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20) << line;
    EXPECT_THAT(line, Not(HasSubstr("\xc2\x9b")));
  }
}

TEST(TopDraw, EmitsEscapeSequencesOnlyWithColour) {
  const auto has_escape = HasSubstr("\x1b");
  EXPECT_THAT(draw(some_view(), {}, {.colour = true}), Contains(has_escape));
  EXPECT_THAT(draw(some_view(), {}, {.colour = false}), Not(Contains(has_escape)));
}

TEST(TopDraw, ShowsAllKeysInTheNumberOfRowsThatRowsForReturns) {
  for (const TopView& view : {some_view(), large_view()}) {
    for (const std::size_t columns : {std::size_t{40}, std::size_t{80}, std::size_t{160}}) {
      const auto lines =
          draw(view, {.columns = columns, .rows = rows_for(view, columns)}, kPrinted);
      std::size_t keys = 0;
      for (const std::string& line : lines) keys += line.find("±") != std::string::npos;
      const PolicyActivity& shown_one = view.rows[0].policy;
      EXPECT_EQ(keys, columns >= 80
                          ? std::max(shown_one.top_allowed.size(), shown_one.top_refused.size())
                          : shown_one.top_allowed.size() + shown_one.top_refused.size());
    }
  }
}

}  // namespace
}  // namespace weir::cli::top
