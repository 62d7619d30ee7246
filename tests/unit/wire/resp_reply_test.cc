#include "wire/resp_reply.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/resp.h"

namespace weir::wire {
namespace {

using Kind = RespValue::Kind;
using Status = RespReplyParser::Status;

// Each value as text: its type and content.
std::string shown(std::span<const RespValue> values) {
  std::string text;
  for (const RespValue& value : values) {
    switch (value.kind) {
      case Kind::simple:
        text += "+" + std::string(value.text);
        break;
      case Kind::error:
        text += "-" + std::string(value.text);
        break;
      case Kind::integer:
        text += ":" + std::to_string(value.number);
        break;
      case Kind::bulk:
        text += "$" + std::string(value.text);
        break;
      case Kind::null:
        text += "_";
        break;
      case Kind::array:
        text += "*" + std::to_string(value.number);
        break;
      case Kind::map:
        text += "%" + std::to_string(value.number);
        break;
      case Kind::push:
        text += ">" + std::to_string(value.number);
        break;
    }
    text += ' ';
  }
  return text;
}

// Parses a reply; expects need_more until its last byte is there.
std::string read(const std::string& bytes) {
  RespReplyParser parser;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(parser.parse(bytes.substr(0, size)), Status::need_more) << size << " of " << bytes;
  }
  const std::string with_next = bytes + "+NEXT\r\n";
  EXPECT_EQ(parser.parse(with_next), Status::reply) << bytes;
  EXPECT_EQ(parser.consumed(), bytes.size());
  return shown(parser.values());
}

TEST(RespReplyParser, ReadsRepliesOfEveryType) {
  EXPECT_EQ(read("+OK\r\n"), "+OK ");
  EXPECT_EQ(read("-ERR no\r\n"), "-ERR no ");
  EXPECT_EQ(read(":-12\r\n"), ":-12 ");
  EXPECT_EQ(read("$5\r\na\r\nbc\r\n"), "$a\r\nbc ");
  EXPECT_EQ(read("$0\r\n\r\n"), "$ ");
  EXPECT_EQ(read("$-1\r\n"), "_ ");
  EXPECT_EQ(read("*-1\r\n"), "_ ");
  EXPECT_EQ(read("_\r\n"), "_ ");
  EXPECT_EQ(read("*0\r\n"), "*0 ");
  EXPECT_EQ(read("*2\r\n:1\r\n*1\r\n+a\r\n"), "*2 :1 *1 +a ");
  EXPECT_EQ(read("%1\r\n+a\r\n:1\r\n"), "%2 +a :1 ");
  EXPECT_EQ(read(">2\r\n+a\r\n:1\r\n"), ">2 +a :1 ");
}

TEST(RespReplyParser, ReadsWhatTheWriterWrites) {
  for (const int protocol : {2, 3}) {
    std::string bytes;
    RespWriter writer(bytes, protocol);
    writer.array(5);
    writer.simple("OK");
    writer.error("ERR x\ny");
    writer.integer(INT64_MIN);
    writer.bulk("text");
    writer.null();
    EXPECT_EQ(read(bytes), "*5 +OK -ERR x y :-9223372036854775808 $text _ ");
  }
}

TEST(RespReplyParser, RefusesMalformedReplies) {
  RespReplyParser parser;
  for (const char* bytes :
       {"x\r\n", "\r\n", ":\r\n", ":1x\r\n", ":99999999999999999999\r\n", "$-2\r\n",
        "$99999999\r\n", "$1\r\nabc", "*-2\r\n", "*257\r\n", "%-1\r\n", "%200\r\n", "_x\r\n",
        "+a\rb\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"}) {
    EXPECT_EQ(parser.parse(bytes), Status::error) << bytes;
    EXPECT_FALSE(parser.error().empty());
  }
}

TEST(RespReplyParser, HasLimitsThatCanBeRaised) {
  std::string list = "*1000\r\n";
  for (int i = 0; i < 1000; ++i) list += ":" + std::to_string(i) + "\r\n";
  EXPECT_EQ(RespReplyParser().parse(list), Status::error);
  RespReplyParser parser({.values = 1001, .bytes = 1 << 20});
  ASSERT_EQ(parser.parse(list), Status::reply);
  EXPECT_EQ(parser.values().size(), 1001u);
  EXPECT_EQ(parser.values().back().number, 999);
  EXPECT_EQ(RespReplyParser({.values = 1000, .bytes = 1 << 20}).parse(list), Status::error);
}

TEST(RespReplyParser, RefusesRepliesWithoutEnd) {
  RespReplyParser parser;
  EXPECT_EQ(parser.parse("+" + std::string(1000, 'x')), Status::need_more);
  EXPECT_EQ(parser.parse("+" + std::string(RespReplyLimits::kBytes, 'x')), Status::error);
  std::string lists = "*256\r\n";
  for (int i = 0; i < 10; ++i) lists += "*100\r\n" + std::string(3, '_');
  EXPECT_EQ(parser.parse(lists), Status::error);
}

}  // namespace
}  // namespace weir::wire
