// Who shares the store: what a node makes of what it is told, and the list on a real server. That
// no two nodes use the same part is tested in tests/property/split_test.cc.

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
using Place = Membership::Place;
using weir::test_support::RedisConnection;
using weir::test_support::RedisServer;

RosterReply reply(std::uint64_t generation, std::vector<Place> places, std::uint64_t joined = 1) {
  return {.epoch = 7, .generation = generation, .joined = joined, .places = std::move(places)};
}

std::vector<std::vector<Place>> steps_of(const Roster& roster, std::uint64_t since = 0) {
  std::vector<std::vector<Place>> all;
  for (const Membership::Step& step : roster.since(since, seconds{0}).steps) {
    all.push_back(step.places);
  }
  return all;
}

// ---- When

TEST(RosterTest, IsHeardByOneLinkAtATime) {
  Roster roster("me", "name 1");
  EXPECT_TRUE(roster.is_due(seconds{1}));
  EXPECT_FALSE(roster.is_due(seconds{1}));
  EXPECT_EQ(roster.due_at(), seconds{1} + kHeartbeatEvery);
  EXPECT_TRUE(roster.is_due(seconds{1} + kHeartbeatEvery));
}

// The others take over after two seconds without a word, counted from when it got there.
TEST(RosterTest, IsAMemberForAWhileFromWhenItSaidSo) {
  Roster roster("me", "name 1");
  EXPECT_FALSE(roster.is_member(seconds{0}));
  roster.on_reply(reply(1, {{1, 0}}), seconds{10}, seconds{11});
  EXPECT_TRUE(roster.is_member(seconds{10} + kMemberFor - Nanos{1}));
  EXPECT_FALSE(roster.is_member(seconds{10} + kMemberFor));
  static_assert(kMemberFor < kGoneAfter);
}

TEST(RosterTest, IsNoMemberForLessTimeBecauseAnEarlierWordIsAnsweredLater) {
  Roster roster("me", "name 1");
  roster.on_reply(reply(1, {{1, 0}}), seconds{10}, seconds{11});
  roster.on_reply(reply(1, {{1, 0}}), seconds{9}, seconds{11});
  EXPECT_TRUE(roster.is_member(seconds{10} + kMemberFor - Nanos{1}));
}

TEST(RosterTest, IsNoMemberOnceItLeaves) {
  Roster roster("me", "name 1");
  roster.on_reply(reply(1, {{1, 0}}), seconds{10}, seconds{10});
  roster.leave();
  EXPECT_FALSE(roster.is_member(seconds{10}));
  EXPECT_TRUE(roster.report().leaves);
  roster.on_reply(reply(1, {{1, 0}}), seconds{10}, seconds{10});
  EXPECT_FALSE(roster.is_member(seconds{10}));
  EXPECT_TRUE(roster.is_due(seconds{10}));
  roster.on_left();
  EXPECT_FALSE(roster.is_due(seconds{20}));
}

// ---- What

TEST(RosterTest, MakesAStepWithEveryChange) {
  Roster roster("me", "name 1");
  roster.on_reply(reply(1, {{1, 0}}), seconds{1}, seconds{1});
  roster.on_reply(reply(1, {{1, 0}}), seconds{1}, seconds{1});
  roster.on_reply(reply(2, {{1, 0}, {2, 0}}), seconds{1}, seconds{1});
  roster.on_reply(reply(2, {{2, 0}}), seconds{1}, seconds{1});
  EXPECT_EQ(roster.version(), 3u);
  EXPECT_THAT(steps_of(roster),
              ElementsAre(ElementsAre(Place{1, 0}), ElementsAre(Place{1, 0}, Place{2, 0}),
                          ElementsAre(Place{2, 0})));
  EXPECT_THAT(steps_of(roster, 2), ElementsAre(ElementsAre(Place{2, 0})));
  EXPECT_THAT(steps_of(roster, 3), IsEmpty());
  EXPECT_EQ(roster.nodes(), 2u);
}

// Links of several threads hear answers in another order than they were given.
TEST(RosterTest, NeverGoesBack) {
  Roster roster("me", "name 1");
  roster.on_reply(reply(2, {{2, 0}}), seconds{1}, seconds{1});
  roster.on_reply(reply(1, {{1, 0}}), seconds{2}, seconds{2});
  roster.on_reply(reply(2, {{1, 0}, {2, 0}}), seconds{2}, seconds{2});
  EXPECT_EQ(roster.version(), 1u);
  EXPECT_EQ(roster.report().generation, 2u);
}

TEST(RosterTest, HadNothingInBetweenIfItWasLeftOut) {
  Roster roster("me", "name 1");
  roster.on_reply(reply(1, {{1, 0}}, 1), seconds{1}, seconds{1});
  roster.on_reply(reply(3, {{1, 0}}, 3), seconds{9}, seconds{9});
  EXPECT_THAT(steps_of(roster),
              ElementsAre(ElementsAre(Place{1, 0}), IsEmpty(), ElementsAre(Place{1, 0})));
}

TEST(RosterTest, HadNothingInBetweenIfTheListBeganAnew) {
  Roster roster("me", "name 1");
  roster.on_reply(reply(4, {{1, 0}}), seconds{1}, seconds{1});
  RosterReply anew = reply(1, {{0, {}}, {1, 0}});
  anew.epoch = 8;
  roster.on_reply(anew, seconds{1}, seconds{1});
  EXPECT_EQ(steps_of(roster).size(), 3u);
  EXPECT_EQ(roster.report().epoch, 8u);
  EXPECT_EQ(roster.report().generation, 1u);
}

// A server whose clock was put back, and that has lost its memory.
TEST(RosterTest, BelievesAnEarlierListOnceItsOwnHasRunOut) {
  Roster roster("me", "name 1");
  roster.on_reply(reply(4, {{1, 0}}), seconds{1}, seconds{1});
  RosterReply earlier = reply(1, {{0, {}}, {1, 0}});
  earlier.epoch = 6;
  roster.on_reply(earlier, seconds{2}, seconds{2});
  EXPECT_EQ(roster.report().epoch, 7u);
  roster.on_reply(earlier, seconds{9}, seconds{9});
  EXPECT_EQ(roster.report().epoch, 6u);
  EXPECT_TRUE(roster.is_member(seconds{9}));
}

// Replies to all heartbeats from `from` on, for so long.
void hear(Roster& roster, const RosterReply& reply, Nanos from, Nanos for_so_long) {
  for (Nanos now = from; now <= from + for_so_long; now += kHeartbeatEvery) {
    roster.on_reply(reply, now, now);
  }
}

TEST(RosterTest, CountsANodeLessAtOnceWhenOneCrashes) {
  Roster roster("me", "name 1");
  hear(roster, reply(3, {{3, 0}}), seconds{10}, kAllBackWithin);
  const Nanos crash = seconds{10} + kAllBackWithin + kHeartbeatEvery;
  hear(roster, reply(4, {{2, 0}}), crash, Nanos{0});
  EXPECT_EQ(roster.nodes(), 2u);
}

// All were dropped, and it is the first to be back. Its share stays what it was in the outage.
TEST(RosterTest, CountsNoFewerNodesUntilAllHadTimeToRejoinAfterAnOutage) {
  Roster roster("me", "name 1");
  hear(roster, reply(3, {{3, 0}}), seconds{10}, kAllBackWithin);
  hear(roster, reply(4, {{1, 0}}, 4), seconds{60}, kAllBackWithin - Nanos{1});
  EXPECT_EQ(roster.nodes(), 3u);
  hear(roster, reply(4, {{1, 0}}, 4), seconds{60} + kAllBackWithin, Nanos{0});
  EXPECT_EQ(roster.nodes(), 1u);
}

// It was back in time to keep its place, and another one was not.
TEST(RosterTest, CountsNoFewerNodesAfterAnOutageInWhichItKeptItsPlace) {
  Roster roster("me", "name 1");
  hear(roster, reply(3, {{3, 0}}), seconds{10}, kAllBackWithin);
  const Nanos back = seconds{10} + kAllBackWithin + kMemberFor;
  hear(roster, reply(4, {{2, 0}}), back, Nanos{0});
  EXPECT_EQ(roster.nodes(), 3u);
  hear(roster, reply(5, {{3, 0}}), back + kHeartbeatEvery, Nanos{0});
  EXPECT_EQ(roster.nodes(), 3u);
}

// The server has lost the list, and goes on without an outage.
TEST(RosterTest, CountsNoFewerNodesUntilAllHadTimeToJoinANewList) {
  Roster roster("me", "name 1");
  hear(roster, reply(3, {{3, 0}}), seconds{10}, kAllBackWithin);
  RosterReply anew = reply(1, {{1, 0}});
  anew.epoch = 8;
  hear(roster, anew, seconds{10} + kAllBackWithin + kHeartbeatEvery, Nanos{0});
  EXPECT_EQ(roster.nodes(), 3u);
}

TEST(RosterTest, TellsWhoHasMissedTooMuchThatItHadNothing) {
  Roster roster("me", "name 1");
  for (std::uint64_t i = 1; i <= 200; ++i) {
    roster.on_reply(reply(i, {{static_cast<std::uint32_t>(i), 0}}), seconds{1}, seconds{1});
  }
  const Membership all = roster.since(0, seconds{1});
  EXPECT_EQ(all.version, 200u);
  EXPECT_THAT(all.steps.front().places, IsEmpty());
  EXPECT_EQ(all.steps.back().places.front().nodes, 200u);
  EXPECT_EQ(roster.since(199, seconds{1}).steps.size(), 1u);
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

std::vector<RespValue> usual() {
  return list({number(7), number(3), number(2), number(0), text("1:-1 2:1"),
               text("other 150 2 a 1\nme 0 3 b 2")});
}

TEST(RosterReplies, AreRead) {
  const auto read = read_roster(usual());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->epoch, 7u);
  EXPECT_EQ(read->generation, 3u);
  EXPECT_EQ(read->joined, 2u);
  EXPECT_FALSE(read->founder);
  EXPECT_THAT(read->places, ElementsAre(Place{1, {}}, Place{2, 1}));
  EXPECT_THAT(read->members, ElementsAre(Member{"other", "a 1", milliseconds{150}, 2},
                                         Member{"me", "b 2", milliseconds{0}, 3}));
}

TEST(RosterReplies, ThatAreCutOffAreNone) {
  const std::vector<RespValue> whole = usual();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(read_roster(std::span(whole).first(size))) << size;
  }
}

TEST(RosterReplies, WithAnythingElseInItAreNone) {
  for (std::size_t i = 0; i < usual().size(); ++i) {
    std::vector<RespValue> strange = usual();
    strange[i] = {};
    EXPECT_FALSE(read_roster(strange)) << i;
  }
  std::vector<RespValue> more = usual();
  more.push_back(number(1));
  EXPECT_FALSE(read_roster(more));
}

TEST(RosterReplies, ThatMakeNoSenseAreNone) {
  const auto with = [](std::size_t position, const RespValue& value) {
    std::vector<RespValue> values = usual();
    values[position] = value;
    return read_roster(values).has_value();
  };
  EXPECT_TRUE(with(1, number(8)));
  EXPECT_FALSE(with(1, number(-8)));
  EXPECT_FALSE(with(2, number(0)));  // no generation
  EXPECT_FALSE(with(3, number(4)));  // came after the newest
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

class ListTest : public ::testing::Test {
 protected:
  void TearDown() override { connection_.say({"FLUSHALL"}); }

  // Says what a node has to say after so long, and what it is told.
  std::optional<RosterReply> says(const Roster& roster, Nanos at) {
    std::string command;
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(at).count();
    append_report(command, true, kKey, roster,
                  std::to_string(1'700'000'000 + micros / 1'000'000) + ' ' +
                      std::to_string(micros % 1'000'000 * 1000) + " 1");
    return read_roster(connection_.ask(command));
  }
  // The same, and it is heard.
  const RosterReply& tells(Roster& roster, Nanos at) {
    last_ = says(roster, at).value();
    roster.on_reply(last_, at, at);
    return last_;
  }

  static constexpr std::string_view kKey = "weir1:test:{nodes}:members";
  RedisConnection connection_{RedisServer::shared().socket()};
  RosterReply last_{};
  Roster a_{"a", "one 1"};
  Roster b_{"b", "two 1"};
};

// Whoever was in another list that is lost stops within that time.
TEST_F(ListTest, GivesNobodyAnythingInItsFirstTwoSeconds) {
  EXPECT_THAT(tells(a_, seconds{0}).places, ElementsAre(Place{0, {}}, Place{1, 0}));
  EXPECT_TRUE(last_.founder);
  EXPECT_THAT(tells(b_, seconds{1}).places, ElementsAre(Place{0, {}}, Place{1, {}}, Place{2, 1}));
  EXPECT_TRUE(last_.founder);
  tells(a_, milliseconds{1999});
  EXPECT_EQ(last_.places.size(), 3u);
  tells(a_, seconds{2});  // says what it has seen
  EXPECT_THAT(tells(b_, seconds{2}).places, ElementsAre(Place{2, 1}));
}

TEST_F(ListTest, TellsWhoIsThereInTheOrderInWhichTheyCame) {
  tells(a_, seconds{0});
  tells(b_, milliseconds{1500});
  EXPECT_THAT(
      tells(a_, seconds{2}).members,
      ElementsAre(Member{"a", "one 1", seconds{0}, 1}, Member{"b", "two 1", milliseconds{500}, 2}));
}

TEST_F(ListTest, KeepsTheListsThatSomebodyMayGoBy) {
  tells(a_, seconds{0});
  tells(a_, seconds{2});
  tells(b_, seconds{3});
  EXPECT_FALSE(last_.founder);
  EXPECT_THAT(last_.places, ElementsAre(Place{1, {}}, Place{2, 1}));
  tells(a_, seconds{3});  // is told
  EXPECT_EQ(tells(b_, seconds{3}).places.size(), 2u);
  tells(a_, seconds{3});  // says so
  EXPECT_THAT(tells(b_, seconds{3}).places, ElementsAre(Place{2, 1}));
}

TEST_F(ListTest, DropsWhoIsSilent) {
  tells(a_, seconds{0});
  tells(b_, seconds{0});
  tells(a_, seconds{2});
  tells(a_, seconds{2} + milliseconds{1});
  EXPECT_EQ(last_.generation, 3u);
  EXPECT_THAT(last_.places.back(), (Place{1, 0}));
}

// Nobody has noticed, so nobody has taken its place.
TEST_F(ListTest, KeepsWhoIsHeardAgainFirst) {
  tells(a_, seconds{0});
  tells(a_, seconds{30});
  EXPECT_EQ(last_.generation, 1u);
  EXPECT_THAT(last_.places, ElementsAre(Place{1, 0}));
}

TEST_F(ListTest, RemovesWhoSaysGoodByeAtOnce) {
  tells(a_, seconds{0});
  tells(b_, seconds{0});
  b_.leave();
  EXPECT_FALSE(says(b_, seconds{1}));
  EXPECT_THAT(tells(a_, seconds{1}).places.back(), (Place{1, 0}));
  EXPECT_EQ(last_.members.size(), 1u);
}

TEST_F(ListTest, DropsWhoDoesNotHearWhatItIsTold) {
  tells(a_, seconds{0});
  for (int i = 2; i <= 20; ++i) {
    says(a_, milliseconds{500} * i);  // it is there, and hears nothing
    tells(b_, milliseconds{500} * i);
  }
  EXPECT_GT(last_.generation, 3u);
}

TEST_F(ListTest, BeginsAnewIfSomeOfItIsLost) {
  tells(a_, seconds{0});
  tells(b_, seconds{0});
  tells(a_, seconds{3});
  connection_.say({"FLUSHALL"});
  tells(b_, seconds{4});
  EXPECT_THAT(last_.places, ElementsAre(Place{0, {}}, Place{1, 0}));
  Roster stale("a", "one 1");
  RosterReply more = last_;
  more.generation += 5;
  stale.on_reply(more, seconds{4}, seconds{4});
  EXPECT_GT(tells(stale, seconds{5}).epoch, more.epoch);
  EXPECT_EQ(last_.generation, 1u);
}

// An answer has its limits, and so have those who read it.
TEST_F(ListTest, TellsOfSoManyNodesAsPeopleWouldRead) {
  const std::string info(100, 'x');
  for (int i = 0; i < 400; ++i) {
    Roster roster("node-" + std::to_string(i), info);
    tells(roster, seconds{0});
  }
  EXPECT_EQ(last_.members.size(), 300u);
  EXPECT_EQ(last_.places.back(), (Place{400, 399}));
}

TEST_F(ListTest, IsForgottenAfterADayWithoutAWord) {
  tells(a_, seconds{0});
  const long left = std::stol(connection_.say({"PTTL", kKey}));
  EXPECT_GT(left, 23L * 3600 * 1000);
  EXPECT_LE(left, 24L * 3600 * 1000);
}

}  // namespace
}  // namespace weir::store::redis
