// Membership: the view of a node, and the list on a real server. tests/property/split_test.cc tests
// that no two nodes use the same share.

#include "store/redis/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/redis/link.h"
#include "store/redis/scripts.h"
#include "support/redis_connection.h"
#include "support/redis_server.h"

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Place = Membership::NodeRank;
using weir::test_support::RedisConnection;
using weir::test_support::RedisServer;

MembershipReply reply(std::uint64_t generation, std::vector<Place> places,
                      std::uint64_t joined = 1) {
  return {.epoch = 7, .generation = generation, .joined = joined, .places = std::move(places)};
}

std::vector<std::vector<Place>> steps_of(const MembershipView& view, std::uint64_t since = 0) {
  std::vector<std::vector<Place>> all;
  for (const Membership::Step& step : view.since(since, seconds{0}).steps) {
    all.push_back(step.places);
  }
  return all;
}

// ---- Heartbeats

TEST(MembershipViewTest, IsDueForOneLinkAtATime) {
  MembershipView view("me", "name 1");
  EXPECT_TRUE(view.is_due(seconds{1}));
  EXPECT_FALSE(view.is_due(seconds{1}));
  EXPECT_EQ(view.due_at(), seconds{1} + kHeartbeatInterval);
  EXPECT_TRUE(view.is_due(seconds{1} + kHeartbeatInterval));
}

// Other nodes take over after two seconds of silence, counted from when the heartbeat arrived.
TEST(MembershipViewTest, IsAMemberForALimitedTimeAfterAHeartbeatWasSent) {
  MembershipView view("me", "name 1");
  EXPECT_FALSE(view.is_member(seconds{0}));
  view.on_reply(reply(1, {{1, 0}}), seconds{10}, seconds{11});
  EXPECT_TRUE(view.is_member(seconds{10} + kMembershipValidFor - Nanos{1}));
  EXPECT_FALSE(view.is_member(seconds{10} + kMembershipValidFor));
  static_assert(kMembershipValidFor < kRemovedAfter);
}

TEST(MembershipViewTest, ALateReplyToAnEarlierHeartbeatDoesNotShortenTheMembership) {
  MembershipView view("me", "name 1");
  view.on_reply(reply(1, {{1, 0}}), seconds{10}, seconds{11});
  view.on_reply(reply(1, {{1, 0}}), seconds{9}, seconds{11});
  EXPECT_TRUE(view.is_member(seconds{10} + kMembershipValidFor - Nanos{1}));
}

TEST(MembershipViewTest, IsNotAMemberOnceItLeaves) {
  MembershipView view("me", "name 1");
  view.on_reply(reply(1, {{1, 0}}), seconds{10}, seconds{10});
  view.leave();
  EXPECT_FALSE(view.is_member(seconds{10}));
  EXPECT_TRUE(view.heartbeat_state().leaves);
  view.on_reply(reply(1, {{1, 0}}), seconds{10}, seconds{10});
  EXPECT_FALSE(view.is_member(seconds{10}));
  EXPECT_TRUE(view.is_due(seconds{10}));
  view.on_left();
  EXPECT_FALSE(view.is_due(seconds{20}));
}

// ---- Steps

TEST(MembershipViewTest, AddsAStepForEveryChange) {
  MembershipView view("me", "name 1");
  view.on_reply(reply(1, {{1, 0}}), seconds{1}, seconds{1});
  view.on_reply(reply(1, {{1, 0}}), seconds{1}, seconds{1});
  view.on_reply(reply(2, {{1, 0}, {2, 0}}), seconds{1}, seconds{1});
  view.on_reply(reply(2, {{2, 0}}), seconds{1}, seconds{1});
  EXPECT_EQ(view.version(), 3u);
  EXPECT_THAT(steps_of(view),
              ElementsAre(ElementsAre(Place{1, 0}), ElementsAre(Place{1, 0}, Place{2, 0}),
                          ElementsAre(Place{2, 0})));
  EXPECT_THAT(steps_of(view, 2), ElementsAre(ElementsAre(Place{2, 0})));
  EXPECT_THAT(steps_of(view, 3), IsEmpty());
  EXPECT_EQ(view.nodes(), 2u);
}

// Links of several threads may receive replies out of order.
TEST(MembershipViewTest, NeverGoesBack) {
  MembershipView view("me", "name 1");
  view.on_reply(reply(2, {{2, 0}}), seconds{1}, seconds{1});
  view.on_reply(reply(1, {{1, 0}}), seconds{2}, seconds{2});
  view.on_reply(reply(2, {{1, 0}, {2, 0}}), seconds{2}, seconds{2});
  EXPECT_EQ(view.version(), 1u);
  EXPECT_EQ(view.heartbeat_state().generation, 2u);
}

TEST(MembershipViewTest, ReportsAStepWithoutAPlaceIfItWasRemoved) {
  MembershipView view("me", "name 1");
  view.on_reply(reply(1, {{1, 0}}, 1), seconds{1}, seconds{1});
  view.on_reply(reply(3, {{1, 0}}, 3), seconds{9}, seconds{9});
  EXPECT_THAT(steps_of(view),
              ElementsAre(ElementsAre(Place{1, 0}), IsEmpty(), ElementsAre(Place{1, 0})));
}

TEST(MembershipViewTest, ReportsAStepWithoutAPlaceIfTheListStartedAnew) {
  MembershipView view("me", "name 1");
  view.on_reply(reply(4, {{1, 0}}), seconds{1}, seconds{1});
  MembershipReply anew = reply(1, {{0, {}}, {1, 0}});
  anew.epoch = 8;
  view.on_reply(anew, seconds{1}, seconds{1});
  EXPECT_EQ(steps_of(view).size(), 3u);
  EXPECT_EQ(view.heartbeat_state().epoch, 8u);
  EXPECT_EQ(view.heartbeat_state().generation, 1u);
}

// A server that lost its data, and whose clock was set back.
TEST(MembershipViewTest, AcceptsAnEarlierListOnceItsMembershipHasExpired) {
  MembershipView view("me", "name 1");
  view.on_reply(reply(4, {{1, 0}}), seconds{1}, seconds{1});
  MembershipReply earlier = reply(1, {{0, {}}, {1, 0}});
  earlier.epoch = 6;
  view.on_reply(earlier, seconds{2}, seconds{2});
  EXPECT_EQ(view.heartbeat_state().epoch, 7u);
  view.on_reply(earlier, seconds{9}, seconds{9});
  EXPECT_EQ(view.heartbeat_state().epoch, 6u);
  EXPECT_TRUE(view.is_member(seconds{9}));
}

// Replies to all heartbeats of a period that starts at `from`.
void reply_to_all(MembershipView& view, const MembershipReply& reply, Nanos from, Nanos duration) {
  for (Nanos now = from; now <= from + duration; now += kHeartbeatInterval) {
    view.on_reply(reply, now, now);
  }
}

TEST(MembershipViewTest, CountsOneNodeLessAtOnceWhenOneCrashes) {
  MembershipView view("me", "name 1");
  reply_to_all(view, reply(3, {{3, 0}}), seconds{10}, kAllRejoinedWithin);
  const Nanos crash = seconds{10} + kAllRejoinedWithin + kHeartbeatInterval;
  reply_to_all(view, reply(4, {{2, 0}}), crash, Nanos{0});
  EXPECT_EQ(view.nodes(), 2u);
}

// All nodes were removed, and this one is the first to rejoin. Its share stays that of the outage.
TEST(MembershipViewTest, KeepsTheNodeCountUntilAllHadTimeToRejoinAfterAnOutage) {
  MembershipView view("me", "name 1");
  reply_to_all(view, reply(3, {{3, 0}}), seconds{10}, kAllRejoinedWithin);
  reply_to_all(view, reply(4, {{1, 0}}, 4), seconds{60}, kAllRejoinedWithin - Nanos{1});
  EXPECT_EQ(view.nodes(), 3u);
  reply_to_all(view, reply(4, {{1, 0}}, 4), seconds{60} + kAllRejoinedWithin, Nanos{0});
  EXPECT_EQ(view.nodes(), 1u);
}

// This node reconnected in time to keep its place, and another one did not.
TEST(MembershipViewTest, KeepsTheNodeCountAfterAnOutageIfTheNodeKeptItsPlace) {
  MembershipView view("me", "name 1");
  reply_to_all(view, reply(3, {{3, 0}}), seconds{10}, kAllRejoinedWithin);
  const Nanos back = seconds{10} + kAllRejoinedWithin + kMembershipValidFor;
  reply_to_all(view, reply(4, {{2, 0}}), back, Nanos{0});
  EXPECT_EQ(view.nodes(), 3u);
  reply_to_all(view, reply(5, {{3, 0}}), back + kHeartbeatInterval, Nanos{0});
  EXPECT_EQ(view.nodes(), 3u);
}

// The server lost the list, without an outage.
TEST(MembershipViewTest, KeepsTheNodeCountUntilAllHadTimeToJoinANewList) {
  MembershipView view("me", "name 1");
  reply_to_all(view, reply(3, {{3, 0}}), seconds{10}, kAllRejoinedWithin);
  MembershipReply anew = reply(1, {{1, 0}});
  anew.epoch = 8;
  reply_to_all(view, anew, seconds{10} + kAllRejoinedWithin + kHeartbeatInterval, Nanos{0});
  EXPECT_EQ(view.nodes(), 3u);
}

TEST(MembershipViewTest, ReportsAStepWithoutAPlaceIfStepsWereDropped) {
  MembershipView view("me", "name 1");
  for (std::uint64_t i = 1; i <= 200; ++i) {
    view.on_reply(reply(i, {{static_cast<std::uint32_t>(i), 0}}), seconds{1}, seconds{1});
  }
  const Membership all = view.since(0, seconds{1});
  EXPECT_EQ(all.version, 200u);
  EXPECT_THAT(all.steps.front().places, IsEmpty());
  EXPECT_EQ(all.steps.back().places.front().nodes, 200u);
  EXPECT_EQ(view.since(199, seconds{1}).steps.size(), 1u);
}

// ---- Replies

using wire::RespValue;

RespValue number(std::int64_t n) { return {.kind = RespValue::Kind::integer, .number = n}; }
RespValue text(std::string_view t) { return {.kind = RespValue::Kind::bulk, .text = t}; }

std::vector<RespValue> list(std::vector<RespValue> values) {
  values.insert(values.begin(), {.kind = RespValue::Kind::array,
                                 .number = static_cast<std::int64_t>(values.size())});
  return values;
}

std::vector<RespValue> valid_reply() {
  return list({number(7), number(3), number(2), number(0), text("1:-1 2:1"),
               text("other 150 2 a 1\nme 0 3 b 2")});
}

TEST(MembershipReplyTest, IsParsed) {
  const auto read = parse_membership_reply(valid_reply());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->epoch, 7u);
  EXPECT_EQ(read->generation, 3u);
  EXPECT_EQ(read->joined, 2u);
  EXPECT_FALSE(read->founder);
  EXPECT_THAT(read->places, ElementsAre(Place{1, {}}, Place{2, 1}));
  EXPECT_THAT(read->members, ElementsAre(Member{"other", "a 1", milliseconds{150}, 2},
                                         Member{"me", "b 2", milliseconds{0}, 3}));
}

TEST(MembershipReplyTest, IsRejectedIfTruncated) {
  const std::vector<RespValue> whole = valid_reply();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse_membership_reply(std::span(whole).first(size))) << size;
  }
}

TEST(MembershipReplyTest, IsRejectedWithUnexpectedValues) {
  for (std::size_t i = 0; i < valid_reply().size(); ++i) {
    std::vector<RespValue> unexpected = valid_reply();
    unexpected[i] = {};
    EXPECT_FALSE(parse_membership_reply(unexpected)) << i;
  }
  std::vector<RespValue> more = valid_reply();
  more.push_back(number(1));
  EXPECT_FALSE(parse_membership_reply(more));
}

TEST(MembershipReplyTest, IsRejectedIfInconsistent) {
  const auto with = [](std::size_t position, const RespValue& value) {
    std::vector<RespValue> values = valid_reply();
    values[position] = value;
    return parse_membership_reply(values).has_value();
  };
  EXPECT_TRUE(with(1, number(8)));
  EXPECT_FALSE(with(1, number(-8)));
  EXPECT_FALSE(with(2, number(0)));  // no generation
  EXPECT_FALSE(with(3, number(4)));  // joined after the newest
  for (const char* places : {"", " ", "1:-1 2:2", "1:-1 2:-1", "1:-1 -2:1", "1:-1 2", "1:-1 2:",
                             "1:-1 2:1x", "1:-2 2:1", "1:-1  2:1", "9999999:0", "1:-1 2:1 x"}) {
    EXPECT_FALSE(with(5, text(places))) << places;
  }
  for (const char* members : {"", "me", "me 0", "me 0 x b", "me -1 3 b", " 0 3 b", "\nme 0 3 b",
                              "me 99999999999999999999 3 b"}) {
    EXPECT_FALSE(with(6, text(members))) << members;
  }
  EXPECT_TRUE(with(6, text("me 0 3 ")));
}

// ---- The list, on a server

class MemberListTest : public ::testing::Test {
 protected:
  void TearDown() override { connection_.say({"FLUSHALL"}); }

  // Sends a node's heartbeat at a time, and returns the reply.
  std::optional<MembershipReply> send_heartbeat(const MembershipView& view, Nanos at) {
    std::string command;
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(at).count();
    append_heartbeat(command, true, kKey, view,
                     std::to_string(1'700'000'000 + micros / 1'000'000) + ' ' +
                         std::to_string(micros % 1'000'000 * 1000) + " 1");
    return parse_membership_reply(connection_.ask(command));
  }
  // The same, and the node receives the reply.
  const MembershipReply& exchange_heartbeat(MembershipView& view, Nanos at) {
    last_ = send_heartbeat(view, at).value();
    view.on_reply(last_, at, at);
    return last_;
  }

  static constexpr std::string_view kKey = "weir1:test:{nodes}:members";
  RedisConnection connection_{RedisServer::shared().socket()};
  MembershipReply last_{};
  MembershipView a_{"a", "one 1"};
  MembershipView b_{"b", "two 1"};
};

// Members of an earlier list, which was lost, stop within that time.
TEST_F(MemberListTest, GivesNoNodeAPlaceInItsFirstTwoSeconds) {
  EXPECT_THAT(exchange_heartbeat(a_, seconds{0}).places, ElementsAre(Place{0, {}}, Place{1, 0}));
  EXPECT_TRUE(last_.founder);
  EXPECT_THAT(exchange_heartbeat(b_, seconds{1}).places,
              ElementsAre(Place{0, {}}, Place{1, {}}, Place{2, 1}));
  EXPECT_TRUE(last_.founder);
  exchange_heartbeat(a_, milliseconds{1999});
  EXPECT_EQ(last_.places.size(), 3u);
  exchange_heartbeat(a_, seconds{2});  // acknowledges the generation
  EXPECT_THAT(exchange_heartbeat(b_, seconds{2}).places, ElementsAre(Place{2, 1}));
}

TEST_F(MemberListTest, NamesMembersInTheOrderInWhichTheyJoined) {
  exchange_heartbeat(a_, seconds{0});
  exchange_heartbeat(b_, milliseconds{1500});
  EXPECT_THAT(
      exchange_heartbeat(a_, seconds{2}).members,
      ElementsAre(Member{"a", "one 1", seconds{0}, 1}, Member{"b", "two 1", milliseconds{500}, 2}));
}

TEST_F(MemberListTest, KeepsGenerationsThatAMemberMayStillUse) {
  exchange_heartbeat(a_, seconds{0});
  exchange_heartbeat(a_, seconds{2});
  exchange_heartbeat(b_, seconds{3});
  EXPECT_FALSE(last_.founder);
  EXPECT_THAT(last_.places, ElementsAre(Place{1, {}}, Place{2, 1}));
  exchange_heartbeat(a_, seconds{3});  // receives it
  EXPECT_EQ(exchange_heartbeat(b_, seconds{3}).places.size(), 2u);
  exchange_heartbeat(a_, seconds{3});  // acknowledges it
  EXPECT_THAT(exchange_heartbeat(b_, seconds{3}).places, ElementsAre(Place{2, 1}));
}

TEST_F(MemberListTest, RemovesASilentNode) {
  exchange_heartbeat(a_, seconds{0});
  exchange_heartbeat(b_, seconds{0});
  exchange_heartbeat(a_, seconds{2});
  exchange_heartbeat(a_, seconds{2} + milliseconds{1});
  EXPECT_EQ(last_.generation, 3u);
  EXPECT_THAT(last_.places.back(), (Place{1, 0}));
}

// No other node has noticed the silence, so none has taken its place.
TEST_F(MemberListTest, KeepsASilentNodeThatReturnsBeforeAnyOther) {
  exchange_heartbeat(a_, seconds{0});
  exchange_heartbeat(a_, seconds{30});
  EXPECT_EQ(last_.generation, 1u);
  EXPECT_THAT(last_.places, ElementsAre(Place{1, 0}));
}

TEST_F(MemberListTest, RemovesALeavingNodeAtOnce) {
  exchange_heartbeat(a_, seconds{0});
  exchange_heartbeat(b_, seconds{0});
  b_.leave();
  EXPECT_FALSE(send_heartbeat(b_, seconds{1}));
  EXPECT_THAT(exchange_heartbeat(a_, seconds{1}).places.back(), (Place{1, 0}));
  EXPECT_EQ(last_.members.size(), 1u);
}

TEST_F(MemberListTest, RemovesANodeThatReceivesNoReplies) {
  exchange_heartbeat(a_, seconds{0});
  for (int i = 2; i <= 20; ++i) {
    send_heartbeat(a_, milliseconds{500} * i);  // it receives no reply
    exchange_heartbeat(b_, milliseconds{500} * i);
  }
  EXPECT_GT(last_.generation, 3u);
}

TEST_F(MemberListTest, StartsAnewIfTheServerLostAPart) {
  exchange_heartbeat(a_, seconds{0});
  exchange_heartbeat(b_, seconds{0});
  exchange_heartbeat(a_, seconds{3});
  connection_.say({"FLUSHALL"});
  exchange_heartbeat(b_, seconds{4});
  EXPECT_THAT(last_.places, ElementsAre(Place{0, {}}, Place{1, 0}));
  MembershipView stale("a", "one 1");
  MembershipReply more = last_;
  more.generation += 5;
  stale.on_reply(more, seconds{4}, seconds{4});
  EXPECT_GT(exchange_heartbeat(stale, seconds{5}).epoch, more.epoch);
  EXPECT_EQ(last_.generation, 1u);
}

// The size of a reply is bounded.
TEST_F(MemberListTest, NamesAtMost300Members) {
  const std::string info(100, 'x');
  for (int i = 0; i < 400; ++i) {
    MembershipView view("node-" + std::to_string(i), info);
    exchange_heartbeat(view, seconds{0});
  }
  EXPECT_EQ(last_.members.size(), 300u);
  EXPECT_EQ(last_.places.back(), (Place{400, 399}));
}

TEST_F(MemberListTest, ExpiresAfterADayWithoutHeartbeats) {
  exchange_heartbeat(a_, seconds{0});
  const long left = std::stol(connection_.say({"PTTL", kKey}));
  EXPECT_GT(left, 23L * 3600 * 1000);
  EXPECT_LE(left, 24L * 3600 * 1000);
}

}  // namespace
}  // namespace weir::store::redis
