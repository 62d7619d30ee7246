#include "wire/resp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace weir::wire {
namespace {

using std::string_literals::operator""s;
using testing::ElementsAre;
using Words = std::vector<std::string>;

struct Read {
  std::vector<Words> commands;
  std::string error;
  std::string rest;
};

// Reads like a connection does: input arrives in pieces, and consumed bytes are dropped.
Read read_in_pieces(const std::string& bytes, std::size_t piece) {
  RespParser parser;
  Read read;
  std::size_t given = 0;
  for (;;) {
    const RespParser::Status status = parser.parse(read.rest);
    read.rest.erase(0, parser.consumed());
    if (status == RespParser::Status::error) {
      read.error = parser.error();
      return read;
    }
    if (status == RespParser::Status::need_more) {
      if (given == bytes.size()) return read;
      read.rest += bytes.substr(given, piece);
      given = std::min(given + piece, bytes.size());
    } else {
      // The arguments point into bytes that are erased: only the number of commands is compared.
      read.commands.emplace_back();
    }
  }
}

Read read_all(const std::string& bytes) {
  RespParser parser;
  Read read{.commands = {}, .error = {}, .rest = bytes};
  for (;;) {
    const RespParser::Status status = parser.parse(read.rest);
    if (status == RespParser::Status::command) {
      read.commands.emplace_back(parser.arguments().begin(), parser.arguments().end());
    }
    read.rest.erase(0, parser.consumed());
    if (status == RespParser::Status::error) read.error = parser.error();
    if (status != RespParser::Status::command) return read;
  }
}

// The commands are the same however the input is cut.
void expect_commands(const std::string& bytes, const std::vector<Words>& commands) {
  const Read read = read_all(bytes);
  EXPECT_EQ(read.commands, commands);
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.rest, "");
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    const Read pieces = read_in_pieces(bytes, piece);
    EXPECT_EQ(pieces.commands.size(), commands.size()) << "in pieces of " << piece;
    EXPECT_EQ(pieces.error, "");
  }
}

void expect_error(const std::string& bytes, const std::string& error) {
  EXPECT_EQ(read_all(bytes).error, error) << bytes;
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    EXPECT_EQ(read_in_pieces(bytes, piece).error, error) << bytes << " in pieces of " << piece;
  }
}

TEST(RespParser, ReadsArraysOfBulkStrings) {
  expect_commands("*1\r\n$4\r\nPING\r\n", {{"PING"}});
  expect_commands("*3\r\n$9\r\nWEIR.TAKE\r\n$5\r\nlogin\r\n$5\r\nalice\r\n",
                  {{"WEIR.TAKE", "login", "alice"}});
  expect_commands("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", {{"ECHO", ""}});
}

// Keys are bytes: also such that look like the protocol.
TEST(RespParser, ReadsAnyBytes) {
  expect_commands("*2\r\n$4\r\nECHO\r\n$8\r\n\r\n*1\0\xff\r\n\r\n"s,
                  {{"ECHO", "\r\n*1\0\xff\r\n"s}});
}

TEST(RespParser, ReadsSeveralCommandsAtOnce) {
  expect_commands("*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$1\r\na\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n",
                  {{"PING"}, {"ECHO", "a"}, {"PING"}, {"QUIT"}});
}

// As typed into a terminal; a line may end without a carriage return.
TEST(RespParser, ReadsInlineCommands) {
  expect_commands("PING\r\n", {{"PING"}});
  expect_commands("PING\n", {{"PING"}});
  expect_commands("  weir.take \t login   alice  \r\n", {{"weir.take", "login", "alice"}});
}

TEST(RespParser, ReadsQuotedWords) {
  expect_commands(R"(ECHO "a b" 'c d' "" '')"
                  "\r\n",
                  {{"ECHO", "a b", "c d", "", ""}});
  expect_commands("ECHO \"\\x41\\n\\\"\\\\\" 'it\\'s' \"\\xzz\"\r\n",
                  {{"ECHO", "A\n\"\\", "it's", "xzz"}});
  expect_commands("ECHO a\"b c\" d'e f' g\r\n", {{"ECHO", "ab c", "de f", "g"}});
}

TEST(RespParser, SkipsEmptyCommands) {
  expect_commands("\r\n\n  \r\n*0\r\n*-1\r\nPING\r\n", {{"PING"}});
}

TEST(RespParser, RefusesMalformedCommands) {
  expect_error("*x\r\n", "Protocol error: invalid multibulk length");
  expect_error("*\r\n", "Protocol error: invalid multibulk length");
  expect_error("*1x\r\n", "Protocol error: invalid multibulk length");
  expect_error("*99999999999999999999\r\n", "Protocol error: invalid multibulk length");
  expect_error("*65\r\n", "Protocol error: invalid multibulk length");
  expect_error("*1\r\nPING\r\n", "Protocol error: expected '$'");
  expect_error("*1\r\n$x\r\n", "Protocol error: invalid bulk length");
  expect_error("*1\r\n$-1\r\n", "Protocol error: invalid bulk length");
  expect_error("*1\r\n$16385\r\n", "Protocol error: invalid bulk length");
  expect_error("*1\r\n$4\r\nPINGxx", "Protocol error: expected CRLF after a bulk string");
  expect_error("ECHO \"a\r\n", "Protocol error: unbalanced quotes in request");
  expect_error("ECHO \"a\"b\r\n", "Protocol error: unbalanced quotes in request");
}

// A client cannot make it buffer without limit.
TEST(RespParser, LimitsTheInputThatItWaitsFor) {
  expect_error(std::string(RespLimits::kInlineBytes, 'x'),
               "Protocol error: too big inline request");
  EXPECT_EQ(read_all("*" + std::string(30, '1')).error, "Protocol error: invalid multibulk length");
  std::string large = "*5\r\n";
  for (int i = 0; i < 4; ++i) large += "$16384\r\n" + std::string(16384, 'x') + "\r\n";
  EXPECT_EQ(read_all(large).error, "Protocol error: too big command");
  std::string words;
  for (std::size_t i = 0; i <= RespLimits::kArguments; ++i) words += "a ";
  EXPECT_EQ(read_all(words + "\r\n").error, "Protocol error: too many arguments");
}

std::string bulk(std::size_t size) {
  return "$" + std::to_string(size) + "\r\n" + std::string(size, 'x') + "\r\n";
}

// The largest valid input is read, and one byte or argument more is refused.
TEST(RespParser, ReadsArgumentsUpToTheirMaximumNumber) {
  const auto array = [](std::size_t count) {
    std::string bytes = "*" + std::to_string(count) + "\r\n";
    for (std::size_t i = 0; i < count; ++i) bytes += "$1\r\na\r\n";
    return bytes;
  };
  const auto line = [](std::size_t count) {
    std::string bytes = "a";
    for (std::size_t i = 1; i < count; ++i) bytes += " a";
    return bytes + "\r\n";
  };
  expect_commands(array(64), {Words(64, "a")});
  expect_commands(line(64), {Words(64, "a")});
  EXPECT_EQ(read_all(array(65)).error, "Protocol error: invalid multibulk length");
  EXPECT_EQ(read_all(line(65)).error, "Protocol error: too many arguments");
}

TEST(RespParser, ReadsArgumentsUpToTheirMaximumSize) {
  const Read longest = read_all("*2\r\n$4\r\nECHO\r\n" + bulk(16 << 10));
  EXPECT_EQ(longest.error, "");
  EXPECT_THAT(longest.commands, ElementsAre(Words{"ECHO", std::string(16 << 10, 'x')}));
  EXPECT_EQ(read_all("*2\r\n$4\r\nECHO\r\n" + bulk((16 << 10) + 1)).error,
            "Protocol error: invalid bulk length");
}

TEST(RespParser, ReadsLinesUpToTheirMaximumSize) {
  const auto line = [](std::size_t size) { return std::string(size - 2, 'x') + "\r\n"; };
  EXPECT_THAT(read_all(line(16 << 10)).commands,
              ElementsAre(Words{std::string((16 << 10) - 2, 'x')}));
  EXPECT_EQ(read_all(line((16 << 10) + 1)).error, "Protocol error: too big inline request");
}

TEST(RespParser, ReadsCommandsUpToTheirMaximumSize) {
  const auto command = [](std::size_t size) {
    std::string bytes = "*5\r\n" + bulk(16 << 10) + bulk(16 << 10) + bulk(16 << 10);
    constexpr std::size_t frame = 10;  // "$16334\r\n" and "\r\n"
    return bytes += bulk(size - bytes.size() - frame - bulk(0).size()) + bulk(0);
  };
  const std::string longest = command(64 << 10);
  ASSERT_EQ(longest.size(), 64u << 10);
  EXPECT_EQ(read_all(longest).commands.size(), 1u);
  EXPECT_EQ(read_all(longest + longest).commands.size(), 2u);
  EXPECT_EQ(read_in_pieces(longest, 1000).commands.size(), 1u);
  EXPECT_EQ(read_all(command((64 << 10) + 1)).error, "Protocol error: too big command");
  // Also if the next argument exceeds the limit.
  for (const std::size_t beyond : {6u, 5u, 4u, 3u, 2u}) {
    const std::string start = command((64 << 10) + beyond).substr(0, 64 << 10);
    EXPECT_EQ(read_all(start).error, "Protocol error: too big command") << beyond;
    EXPECT_EQ(read_in_pieces(start, 1000).error, "Protocol error: too big command") << beyond;
  }
}

std::string written(int protocol, auto write) {
  std::string out;
  RespWriter writer(out, protocol);
  write(writer);
  return out;
}

TEST(RespWriter, WritesTypesThatBothProtocolsShare) {
  for (const int protocol : {2, 3}) {
    EXPECT_EQ(written(protocol, [](RespWriter& w) { w.simple("OK"); }), "+OK\r\n");
    EXPECT_EQ(written(protocol, [](RespWriter& w) { w.integer(-42); }), ":-42\r\n");
    EXPECT_EQ(written(protocol, [](RespWriter& w) { w.integer(INT64_MIN); }),
              ":-9223372036854775808\r\n");
    EXPECT_EQ(written(protocol, [](RespWriter& w) { w.bulk("a\r\nb"); }), "$4\r\na\r\nb\r\n");
    EXPECT_EQ(written(protocol, [](RespWriter& w) { w.array(8); }), "*8\r\n");
  }
}

TEST(RespWriter, WritesMapsAndNullsOfEachProtocol) {
  EXPECT_EQ(written(2, [](RespWriter& w) { w.map(4); }), "*8\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.map(4); }), "%4\r\n");
  EXPECT_EQ(written(2, [](RespWriter& w) { w.null(); }), "$-1\r\n");
  EXPECT_EQ(written(3, [](RespWriter& w) { w.null(); }), "_\r\n");
}

// Client input that is quoted in an error cannot end the line.
TEST(RespWriter, KeepsErrorsOnOneLine) {
  EXPECT_EQ(written(2, [](RespWriter& w) { w.error("ERR no 'a\r\n+OK'"); }),
            "-ERR no 'a  +OK'\r\n");
}

}  // namespace
}  // namespace weir::wire
