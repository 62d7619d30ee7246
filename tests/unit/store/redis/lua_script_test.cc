// The scripts on a real server: behaviour that needs one. tests/property/redis_test.cc tests that
// they decide as the core does, for any limit.

#include "store/redis/scripts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "support/redis_connection.h"
#include "support/redis_server.h"

namespace weir::store::redis {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using weir::test_support::BlockingStore;
using weir::test_support::RedisServer;

class LuaScriptTest : public ::testing::Test {
 protected:
  static StoreItem item(const core::Limit& limit, std::string_view key, Permits cost = 1) {
    return {.limit = &limit, .key = key, .ask = {.cost = cost}};
  }

  StoreResponse& ask(StoreVerb verb, const StoreItem& one, std::span<StoreReceipt> receipts = {},
                     std::string_view holder = {}) {
    return store_.ask({.verb = verb,
                       .items = {&one, 1},
                       .holder = holder,
                       .wants_receipts = true,
                       .receipts = receipts});
  }
  std::string say(std::initializer_list<std::string_view> words) {
    return store_.connection().say(words);
  }
  void TearDown() override { say({"FLUSHALL"}); }

  BlockingStore store_{RedisServer::shared().socket()};
  const core::Limit bucket_ = *core::Bucket::make({10, 1, hours{1}}, 5);
};

TEST_F(LuaScriptTest, DecidesByTheServersClockAndStoresAReadableText) {
  const auto& answer = ask(StoreVerb::take, item(bucket_, "weir1:{p:k}:=l"));
  ASSERT_EQ(answer.kind, StoreResponse::Kind::decided) << answer.error;
  EXPECT_EQ(answer.decisions.at(0).remaining, 4);
  EXPECT_GT(answer.now, instant(1'700'000'000'000'000'000));
  EXPECT_THAT(say({"GET", "weir1:{p:k}:=l"}),
              MatchesRegex("1b 360000000000 0 1 [0-9]+ 0 [0-9]+ [0-9]+ [0-9]+"));
}

// A key at rest is gone; a call of one permit is at rest after 360 s.
TEST_F(LuaScriptTest, ExpiresAKeyOnceItIsAtRest) {
  ask(StoreVerb::take, item(bucket_, "weir1:{p:k}:=l"));
  const int left = std::stoi(say({"PTTL", "weir1:{p:k}:=l"}));
  EXPECT_LE(left, 360'002);
  EXPECT_GT(left, 200'000);
}

// The price will become ten times as high: a permit that is taken now may be owed for 3600 s.
TEST_F(LuaScriptTest, KeepsAKeyUntilItIsAtRestAtTheHighestKnownPrice) {
  core::Bucket bucket = std::get<core::Bucket>(bucket_);
  bucket.known_rise = 10;
  const core::Limit limit = bucket;
  ask(StoreVerb::take, item(limit, "weir1:{p:k}:=l"));
  const int left = std::stoi(say({"PTTL", "weir1:{p:k}:=l"}));
  EXPECT_LE(left, 3'600'020);
  EXPECT_GT(left, 3'400'000);
}

TEST_F(LuaScriptTest, WritesNothingWhenItDenies) {
  const StoreItem all = item(bucket_, "weir1:{p:k}:=l", 5);
  ASSERT_TRUE(ask(StoreVerb::take, all).verdict.decision);
  const std::string before = say({"GET", "weir1:{p:k}:=l"});
  const auto& refused = ask(StoreVerb::take, all);
  ASSERT_EQ(refused.kind, StoreResponse::Kind::decided) << refused.error;
  EXPECT_FALSE(refused.verdict.decision);
  EXPECT_EQ(say({"GET", "weir1:{p:k}:=l"}), before);
}

TEST_F(LuaScriptTest, ChargesAllLimitsOrNone) {
  const core::Limit small = *core::Bucket::make({1, 1, hours{1}}, 1);
  const std::vector<StoreItem> both = {item(bucket_, "weir1:{p:k}:=a"),
                                       item(small, "weir1:{p:k}:=b")};
  ASSERT_TRUE(store_.ask({.items = both}).verdict.decision);
  const std::string before = say({"GET", "weir1:{p:k}:=a"});
  const auto& second = store_.ask({.items = both});
  EXPECT_FALSE(second.verdict.decision);
  EXPECT_EQ(second.verdict.tightest, 1u);
  EXPECT_EQ(say({"GET", "weir1:{p:k}:=a"}), before);
}

TEST_F(LuaScriptTest, RejectsTextsOfAnotherVersionWithAnError) {
  const core::Limit window = *core::Window::make({5, 1, seconds{1}}, false);
  for (const core::Limit* limit : {&bucket_, &window}) {
    for (const char* text : {"2b 1 1 1 1 1 1", "hello", "1", ""}) {
      say({"SET", "weir1:{p:k}:=l", text});
      const auto& answer = ask(StoreVerb::take, item(*limit, "weir1:{p:k}:=l"));
      EXPECT_EQ(answer.kind, StoreResponse::Kind::misconfigured);
      EXPECT_THAT(answer.error, HasSubstr("WEIRFORMAT weir1:{p:k}:=l")) << text;
      EXPECT_EQ(say({"GET", "weir1:{p:k}:=l"}), text);
    }
  }
}

TEST_F(LuaScriptTest, RejectsKeysOfAnotherTypeWithAnError) {
  say({"RPUSH", "weir1:{p:k}:=l", "x"});
  const auto& answer = ask(StoreVerb::take, item(bucket_, "weir1:{p:k}:=l"));
  EXPECT_EQ(answer.kind, StoreResponse::Kind::misconfigured);
  EXPECT_THAT(answer.error, HasSubstr("WRONGTYPE"));
}

TEST_F(LuaScriptTest, AcceptsACallersTimeOnlyUnderTheTestPrefix) {
  const StoreItem real = item(bucket_, "weir1:{p:k}:=l");
  const auto& answer = store_.ask({.items = {&real, 1}, .now = instant(5'000'000)});
  EXPECT_EQ(answer.kind, StoreResponse::Kind::misconfigured);
  EXPECT_THAT(answer.error, HasSubstr("WEIRCLOCK"));
  const StoreItem test = item(bucket_, "weir1:test:1:{p:k}:=l");
  EXPECT_EQ(store_.ask({.items = {&test, 1}, .now = instant(5'000'000)}).now, instant(5'000'000));
}

// After 10/h is used up and raised to 20/h, 10 remain.
TEST_F(LuaScriptTest, KeepsTheUsageWhenThePriceChanges) {
  const core::Limit low = *core::Bucket::make({10, 1, hours{1}}, 10);
  const core::Limit high = *core::Bucket::make({20, 1, hours{1}}, 20);
  ASSERT_TRUE(ask(StoreVerb::take, item(low, "weir1:{p:k}:=l", 10)).verdict.decision);
  const int before = store_.commands();
  const auto& answer = ask(StoreVerb::take, item(high, "weir1:{p:k}:=l"));
  ASSERT_EQ(answer.kind, StoreResponse::Kind::decided) << answer.error;
  EXPECT_EQ(answer.decisions.at(0).remaining, 9);
  EXPECT_GE(store_.commands() - before, 2);
  // From then on the text has the new price.
  const int after = store_.commands();
  EXPECT_EQ(ask(StoreVerb::take, item(high, "weir1:{p:k}:=l")).decisions.at(0).remaining, 8);
  EXPECT_EQ(store_.commands() - after, 1);
}

// A take at another price can only be undone as a whole.
TEST_F(LuaScriptTest, RefundsATakeAtAnotherPriceAsAWholeOnly) {
  const core::Bucket low = *core::Bucket::make({10, 1, hours{1}}, 10);
  const core::Bucket raised = *core::Bucket::make({20, 1, hours{1}}, 20);
  const core::Limit first = low;
  std::vector<StoreReceipt> receipts =
      ask(StoreVerb::take, item(first, "weir1:{p:k}:=l", 4)).receipts;
  core::PriceTimeline prices;
  const core::Limit high = prices.change(raised, low, receipts[0].receipt.at);
  const auto item = [&](const core::Limit& limit, std::string_view key, Permits cost = 1) {
    return StoreItem{.limit = &limit, .key = key, .ask = {.cost = cost}, .history = &prices};
  };
  const auto& part = ask(StoreVerb::settle, item(high, "weir1:{p:k}:=l", -1), receipts);
  ASSERT_EQ(part.kind, StoreResponse::Kind::decided) << part.error;
  EXPECT_EQ(receipts[0].receipt.taken, 4);
  const auto& all = ask(StoreVerb::settle, item(high, "weir1:{p:k}:=l", -4), receipts);
  ASSERT_EQ(all.kind, StoreResponse::Kind::decided) << all.error;
  EXPECT_EQ(receipts[0].receipt.taken, 0);
  EXPECT_EQ(all.decisions.at(0).remaining, 20);
  EXPECT_EQ(ask(StoreVerb::peek, item(high, "weir1:{p:k}:=l")).decisions.at(0).remaining, 20);
}

TEST_F(LuaScriptTest, ReceiptsAreWorthNothingAfterAReset) {
  const StoreItem take = item(bucket_, "weir1:{p:k}:=l", 3);
  std::vector<StoreReceipt> receipts = ask(StoreVerb::take, take).receipts;
  ask(StoreVerb::reset, take);
  ask(StoreVerb::take, take);
  const auto& answer = ask(StoreVerb::settle, item(bucket_, "weir1:{p:k}:=l", -3), receipts);
  ASSERT_EQ(answer.kind, StoreResponse::Kind::decided) << answer.error;
  EXPECT_EQ(answer.decisions.at(0).remaining, 2);
  EXPECT_EQ(receipts[0].receipt.taken, 0);
}

// Settles with named receipts.
class LuaScriptRefundTest : public LuaScriptTest {
 protected:
  std::vector<StoreReceipt> take(const core::Limit& limit, Permits permits) {
    return ask(StoreVerb::take, item(limit, kKey, permits)).receipts;
  }
  const StoreResponse& settle(const core::Limit& limit, Permits correction,
                              std::span<StoreReceipt> receipts) {
    const StoreItem one = item(limit, kKey, correction);
    return store_.ask(
        {.verb = StoreVerb::settle, .items = {&one, 1}, .receipts = receipts, .receipt_name = "r"});
  }
  Permits left(const core::Limit& limit) {
    return ask(StoreVerb::peek, item(limit, kKey)).decisions.at(0).remaining;
  }

  static constexpr std::string_view kKey = "weir1:{p:k}:=l";
  static constexpr std::string_view kRefundKey = "weir1:{p:k}:=l:refund:r";
  const core::Limit window_ = *core::Window::make({10, 1, hours{24 * 365}}, true);
  const core::Limit log_ = *core::SlidingLog::make({10, 1, hours{1}});
  const std::array<const core::Limit*, 3> limits_{&bucket_, &window_, &log_};
};

TEST_F(LuaScriptRefundTest, IsMadeOnceWhenItsResponseIsLost) {
  for (const core::Limit* limit : limits_) {
    std::vector<StoreReceipt> receipts = take(*limit, 4);
    std::vector<StoreReceipt> lost = receipts;
    settle(*limit, -3, lost);
    const Permits after = left(*limit);
    settle(*limit, -3, receipts);
    EXPECT_EQ(left(*limit), after);
    EXPECT_EQ(receipts[0].receipt.taken, 1);
    EXPECT_EQ(receipts[0].repeated, 3);
    receipts[0].repeated = 0;
    settle(*limit, -3, receipts);
    EXPECT_EQ(left(*limit), after + 1);
    EXPECT_EQ(receipts[0].receipt.taken, 0);
    say({"FLUSHALL"});
  }
}

TEST_F(LuaScriptRefundTest, RefundsTheRestWhenMoreIsRequestedAfterALostResponse) {
  for (const core::Limit* limit : limits_) {
    std::vector<StoreReceipt> receipts = take(*limit, 4);
    const Permits before = left(*limit);
    std::vector<StoreReceipt> lost = receipts;
    settle(*limit, -1, lost);
    settle(*limit, -3, receipts);
    EXPECT_EQ(left(*limit), before + 3);
    EXPECT_EQ(receipts[0].receipt.taken, 1);
    say({"FLUSHALL"});
  }
}

TEST_F(LuaScriptRefundTest, IsRecordedForAsLongAsItCouldBeRepeated) {
  for (const core::Limit* limit : limits_) {
    std::vector<StoreReceipt> receipts = take(*limit, 4);
    const std::int64_t lasts = std::stoll(say({"PTTL", kKey}));
    settle(*limit, -4, receipts);
    EXPECT_EQ(say({"GET", kRefundKey}).substr(0, 6), "1r 1 4");
    // Some milliseconds have passed between the two.
    EXPECT_GT(std::stoll(say({"PTTL", kRefundKey})), lasts - 10'000);
    EXPECT_LT(std::stoll(say({"PTTL", kRefundKey})), lasts + 10'000);
    say({"FLUSHALL"});
  }
}

// The command of the first refund may be delayed, and could refund more.
TEST_F(LuaScriptRefundTest, IsRecordedForAtLeastAsLongAfterAnotherRefund) {
  std::vector<StoreReceipt> receipts = take(bucket_, 3);
  take(bucket_, 1);
  settle(bucket_, -1, receipts);
  const std::int64_t lasts = std::stoll(say({"PTTL", kRefundKey}));
  receipts[0].repeated = 0;
  settle(bucket_, -1, receipts);
  EXPECT_EQ(say({"GET", kRefundKey}), "1r 2 1 0");
  EXPECT_GT(std::stoll(say({"PTTL", kRefundKey})), lasts - 10'000);
}

TEST_F(LuaScriptRefundTest, IsNotMadeOnceTheServerHasLostTheLastOne) {
  std::vector<StoreReceipt> receipts = take(window_, 4);
  settle(window_, -1, receipts);
  say({"DEL", kRefundKey});
  settle(window_, -3, receipts);
  EXPECT_EQ(left(window_), 7);
  EXPECT_EQ(receipts[0].receipt.taken, 0);
}

TEST_F(LuaScriptRefundTest, IsNotMadeWhenTheRecordOfAnUnansweredOneMayHaveExpired) {
  std::vector<StoreReceipt> receipts = take(window_, 4);
  receipts[0].unknown_until = at_micro(1);
  settle(window_, -4, receipts);
  EXPECT_EQ(left(window_), 6);
}

TEST_F(LuaScriptRefundTest, NamesTheKeyThatHoldsAnotherFormat) {
  std::vector<StoreReceipt> receipts = take(window_, 4);
  say({"SET", kRefundKey, "2r"});
  EXPECT_THAT(settle(window_, -4, receipts).error, HasSubstr(kRefundKey));
  EXPECT_EQ(left(window_), 6);
}

// Requests about a queue, each a microsecond after the one before.
class LuaScriptQueueRefundTest : public LuaScriptTest {
 protected:
  const StoreResponse& send_later(StoreVerb verb, Permits permits,
                                  std::span<StoreReceipt> receipts = {}) {
    now_ += std::chrono::microseconds{1};
    StoreItem one = item(queue_, "weir1:test:1:{p:k}:=l", permits);
    one.ask.max_wait = seconds{30};
    return store_.ask({.verb = verb,
                       .items = {&one, 1},
                       .wants_receipts = true,
                       .receipts = receipts,
                       .now = now_});
  }
  std::vector<StoreReceipt> take(Permits permits) {
    return send_later(StoreVerb::take, permits).receipts;
  }
  void refund(Permits permits, std::span<StoreReceipt> receipts) {
    const StoreResponse& answer = send_later(StoreVerb::settle, -permits, receipts);
    EXPECT_EQ(answer.kind, StoreResponse::Kind::decided) << answer.error;
  }
  Permits left() { return send_later(StoreVerb::peek, 1).decisions.at(0).remaining; }

  Instant now_ = instant(1'767'225'600'000'000'000);
  const core::Limit queue_ = *core::Bucket::make_queue({60, 1, std::chrono::minutes{1}}, 9, 0);
};

// The second refund finds the state after its take, although that was written again since.
TEST_F(LuaScriptQueueRefundTest, UndoesTakesInReverseOrder) {
  std::vector<StoreReceipt> first = take(3);
  std::vector<StoreReceipt> second = take(2);
  refund(2, second);
  EXPECT_EQ(left(), 7);
  refund(3, first);
  EXPECT_EQ(left(), 10);
  EXPECT_EQ(first.at(0).receipt.taken, 0);
}

TEST_F(LuaScriptQueueRefundTest, UndoesAPartOfATakeAfterTheNextOneIsUndone) {
  std::vector<StoreReceipt> first = take(3);
  std::vector<StoreReceipt> second = take(2);
  refund(2, second);
  refund(1, first);
  EXPECT_EQ(left(), 8);
  refund(2, first);
  EXPECT_EQ(left(), 10);
}

// A later take that is not undone as a whole keeps its turn, so nothing is refunded.
TEST_F(LuaScriptQueueRefundTest, KeepsTheTurnOfALaterTake) {
  std::vector<StoreReceipt> first = take(3);
  std::vector<StoreReceipt> second = take(2);
  refund(1, second);
  refund(3, first);
  EXPECT_EQ(left(), 6);
}

TEST_F(LuaScriptTest, HoldersMayHaveAnyBytesAsName) {
  const core::Limit two = *core::Concurrency::make(2, seconds{3600});
  const StoreItem slot = item(two, "weir1:{p:k}:=l");
  const std::string strange("\0}\r\n ", 5);
  EXPECT_TRUE(ask(StoreVerb::enter, slot, {}, strange).verdict.decision);
  EXPECT_EQ(ask(StoreVerb::enter, slot, {}, strange).decisions.at(0).remaining, 1);
  EXPECT_TRUE(ask(StoreVerb::enter, slot, {}, "b").verdict.decision);
  EXPECT_FALSE(ask(StoreVerb::enter, slot, {}, "c").verdict.decision);
  EXPECT_TRUE(ask(StoreVerb::leave, slot, {}, strange).left);
  EXPECT_FALSE(ask(StoreVerb::leave, slot, {}, strange).left);
  EXPECT_TRUE(ask(StoreVerb::enter, slot, {}, "c").verdict.decision);
}

TEST_F(LuaScriptTest, ReportsWhetherTheHolderHeldPermitsBefore) {
  const core::Limit two = *core::Concurrency::make(2, seconds{3600});
  const StoreItem slot = item(two, "weir1:{p:k}:=l");
  EXPECT_EQ(ask(StoreVerb::enter, slot, {}, "a").held, 0u);
  EXPECT_EQ(ask(StoreVerb::enter, slot, {}, "a").held, 1u);
  EXPECT_EQ(ask(StoreVerb::peek, slot, {}, "a").held, 1u);
  EXPECT_EQ(ask(StoreVerb::peek, slot, {}, "b").held, 0u);
}

TEST_F(LuaScriptTest, LeaveByReceiptFailsAfterARenewal) {
  const core::Limit two = *core::Concurrency::make(2, seconds{3600});
  const StoreItem slot = item(two, "weir1:{p:k}:=l");
  std::vector<StoreReceipt> first = ask(StoreVerb::enter, slot, {}, "a").receipts;
  EXPECT_FALSE(ask(StoreVerb::leave, slot, first, "b").left);
  ask(StoreVerb::enter, slot, {}, "a");
  EXPECT_FALSE(ask(StoreVerb::leave, slot, first, "a").left);
  std::vector<StoreReceipt> other = ask(StoreVerb::enter, slot, {}, "b").receipts;
  EXPECT_TRUE(ask(StoreVerb::leave, slot, other, "b").left);
  EXPECT_TRUE(ask(StoreVerb::leave, slot, {}, "a").left);
}

TEST_F(LuaScriptTest, ConcurrentClientsAreAdmittedExactlyUpToTheLimit) {
  const core::Limit bucket = *core::Bucket::make({1, 1, hours{24}}, 1000);
  const core::Limit log = *core::SlidingLog::make({700, 1, hours{24}});
  const std::vector<StoreItem> plan = {item(bucket, "weir1:{p:k}:=a"), item(log, "weir1:{p:k}:=b")};
  for (const std::span<const StoreItem> items :
       {std::span(plan).first(1), std::span(plan).last(1)}) {
    std::atomic<int> admitted{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        BlockingStore own(RedisServer::shared().socket());
        for (int k = 0; k < 250; ++k) {
          if (own.ask({.items = items}).verdict.decision) ++admitted;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(admitted, items[0].limit == &bucket ? 1000 : 700);
  }
}

TEST_F(LuaScriptTest, HasTheSha1ThatTheServerComputes) {
  const LuaScript& script = general_script(1);
  EXPECT_EQ(say({"SCRIPT", "LOAD", script.source}), script.sha1);
  const std::string most(core::kMaxLimits, 'b');
  for (const std::string_view letters : {"b", "w", "q", "bq", "wb", "qqqq", "bwqb", most.c_str()}) {
    const LuaScript& take = take_script(letters);
    EXPECT_EQ(say({"SCRIPT", "LOAD", take.source}), take.sha1) << letters;
  }
}

}  // namespace
}  // namespace weir::store::redis
