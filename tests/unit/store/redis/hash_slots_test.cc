#include "store/redis/hash_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::store::redis {
namespace {

using testing::ElementsAre;

TEST(HashSlotTest, EqualsThatOfRedis) {
  EXPECT_EQ(hash_slot_of("123456789"), 12739);
  EXPECT_EQ(hash_slot_of("foo"), 12182);
  EXPECT_EQ(hash_slot_of(""), 0);
}

TEST(HashSlotTest, UsesTheHashTagIfItIsNotEmpty) {
  EXPECT_EQ(hash_slot_of("{user1000}.following"), 3443);
  EXPECT_EQ(hash_slot_of("user1000"), 3443);
  EXPECT_EQ(hash_slot_of("foo{bar}{zap}"), 5061);
  EXPECT_EQ(hash_slot_of("foo{{bar}}zap"), 4015);
  EXPECT_EQ(hash_slot_of("foo{}{bar}"), 8363);
  EXPECT_EQ(hash_slot_of("weir1:{login:alice}:bucket/1min"), hash_slot_of("login:alice"));
}

std::optional<SlotMap> map_of(std::string_view reply, std::string_view replying_host = "asked") {
  wire::RespReplyParser parser;
  EXPECT_EQ(parser.parse(reply), wire::RespReplyParser::Status::reply);
  return parse_slot_map(parser.values(), replying_host);
}

constexpr std::string_view kTwoNodes =
    "*3\r\n"
    "*4\r\n:0\r\n:99\r\n*4\r\n$1\r\na\r\n:1\r\n$2\r\nid\r\n*0\r\n*3\r\n$1\r\nr\r\n:3\r\n$"
    "2\r\nid\r\n"
    "*3\r\n:100\r\n:16383\r\n*3\r\n$1\r\nb\r\n:2\r\n$2\r\nid\r\n"
    "*3\r\n:50\r\n:50\r\n*3\r\n$1\r\nb\r\n:2\r\n$2\r\nid\r\n";

TEST(SlotMapTest, KnowsTheOwnerOfEachSlotAndAllNodes) {
  const auto map = map_of(kTwoNodes);
  ASSERT_TRUE(map);
  EXPECT_THAT(map->nodes, ElementsAre(HostPort{"a", 1}, HostPort{"b", 2}, HostPort{"r", 3}));
  EXPECT_EQ(map->primaries, 2u);
  EXPECT_EQ(map->owners[0], 0);
  EXPECT_EQ(map->owners[50], 1);
  EXPECT_EQ(map->owners[99], 0);
  EXPECT_EQ(map->owners[100], 1);
  EXPECT_EQ(map->owners[16383], 1);
}

TEST(SlotMapTest, AnEmptyHostIsTheHostThatReplied) {
  for (const std::string_view host : {"$0\r\n\r\n", "$-1\r\n", "_\r\n"}) {
    const auto map = map_of("*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n" + std::string(host) + ":7\r\n");
    ASSERT_TRUE(map);
    EXPECT_THAT(map->nodes, ElementsAre(HostPort{"asked", 7}));
    EXPECT_EQ(map->owners[2], SlotMap::kUnassigned);
  }
}

TEST(SlotMapTest, ANodeWithAnUnknownHostHasNoSlots) {
  const auto map = map_of("*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\n?\r\n:7\r\n");
  ASSERT_TRUE(map);
  EXPECT_EQ(map->owners[0], SlotMap::kUnassigned);
  EXPECT_EQ(map->primaries, 0u);
}

TEST(SlotMapTest, RejectsMalformedReplies) {
  for (const std::string_view reply : {"+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*2\r\n:0\r\n:1\r\n",
                                       "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:7\r\n",
                                       "*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\na\r\n:7\r\n",
                                       "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:65536\r\n",
                                       "*1\r\n*3\r\n:0\r\n:1\r\n$1\r\na\r\n"}) {
    EXPECT_FALSE(map_of(reply)) << reply;
  }
}

TEST(RedirectionTest, HasTheHashSlotAndTheTarget) {
  const auto moved = parse_redirection("MOVED 3999 127.0.0.1:6381", "asked");
  ASSERT_TRUE(moved);
  EXPECT_FALSE(moved->asks);
  EXPECT_EQ(moved->slot, 3999);
  EXPECT_EQ(moved->to, (HostPort{"127.0.0.1", 6381}));
  const auto ask = parse_redirection("ASK 1 ::1:7", "asked");
  ASSERT_TRUE(ask);
  EXPECT_TRUE(ask->asks);
  EXPECT_EQ(ask->to, (HostPort{"::1", 7}));
  EXPECT_EQ(parse_redirection("MOVED 1 :7", "asked")->to, (HostPort{"asked", 7}));
}

TEST(RedirectionTest, RejectsErrorsWithoutAUsableTarget) {
  for (const std::string_view error : {"MOVED", "MOVED 1", "MOVED 1 a", "MOVED x a:1",
                                       "MOVED 16384 a:1", "MOVED 1 ?:1", "ASK 1 a:x", "ERR no"}) {
    EXPECT_FALSE(parse_redirection(error, "asked")) << error;
  }
}

}  // namespace
}  // namespace weir::store::redis
