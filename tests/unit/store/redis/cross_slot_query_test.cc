// Requests with several hash slots, without sockets: the test provides the response of each node.

#include "store/redis/cross_slot_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>

#include "core/price_history.h"

namespace weir::store::redis {
namespace {

using testing::ElementsAre;
using Kind = StoreResponse::Kind;

class NotingCallback final : public StoreCallback {
 public:
  void on_response(StoreResponse& given) override {
    ++answers;
    answer = given;
    if (then) then();
  }
  int answers = 0;
  StoreResponse answer{};
  std::function<void()> then{};
};

class CrossSlotQueryTest : public testing::Test, protected CrossSlotQuery::PartSender {
 protected:
  // One part of a request, as a node gets it.
  struct SentPart {
    const StoreRequest* request;
    StoreCallback* callback;
    Nanos deadline;
    std::string keys{};  // a copy, from when it was sent
  };

  void send_part(const StoreRequest& of_part, StoreCallback& callback, Nanos deadline) override {
    SentPart& part = parts.emplace_back(SentPart{&of_part, &callback, deadline});
    for (const StoreItem& each : of_part.items) part.keys.append(each.key).append(" ");
  }
  void on_complete(const StoreRequest&, StoreResponse& answer, StoreCallback& callback,
                   bool is_part) override {
    completed_as_part = is_part;
    callback.on_response(answer);
  }

  StoreItem& item(std::string key, core::Limit limit = core::Window{.count = 100}) {
    StoreItem& made = items.emplace_back();
    made.limit = &limits.emplace_back(std::move(limit));
    made.key = keys.emplace_back(std::move(key));
    return made;
  }
  void ask(StoreVerb verb, bool each_key = false) {
    request.verb = verb;
    request.items = items;
    each_key ? query.ask_each_key(request, whole, Nanos{1000}, false)
             : query.ask(request, whole, Nanos{1000});
  }

  // Responds to a part: `held` are the items whose permits the holder had before.
  void decide(std::size_t i, bool admits, Permits remaining = 5, std::uint32_t held = 0) {
    const StoreRequest& part = *parts.at(i).request;
    StoreResponse answer{.kind = Kind::decided, .now = instant(static_cast<int>(i) + 1)};
    answer.held = held;
    for (const StoreItem& each : part.items) {
      answer.decisions.push_back(
          {.outcome = admits ? Outcome::allowed : Outcome::limited,
           .limit = 100,
           .remaining = remaining,
           .retry_after = admits ? Nanos{0} : Nanos{static_cast<int>(i) + 7}});
      if (admits && part.wants_receipts) {
        answer.receipts.push_back({{.taken = each.ask.cost}, 40 + i});
      }
    }
    answer.verdict = {.decision = answer.decisions.front(), .refusing = admits ? 0u : 1u};
    parts[i].callback->on_response(answer);
  }
  void fail(std::size_t i, Kind kind, std::string why) {
    StoreResponse answer{.kind = kind, .error = std::move(why)};
    parts.at(i).callback->on_response(answer);
  }
  StoreVerb verb_of(std::size_t i) const { return parts.at(i).request->verb; }

  static constexpr core::Concurrency kConcurrency{.count = 3,
                                                  .hold_time = std::chrono::seconds{30}};

  LinkCounts counts;
  CrossSlotQuery query{*this, counts};
  std::deque<core::Limit> limits;
  std::deque<std::string> keys;
  std::vector<StoreItem> items;
  StoreRequest request{};
  NotingCallback whole;
  std::deque<SentPart> parts;
  bool completed_as_part = false;
};

TEST_F(CrossSlotQueryTest, IsNeededForSeveralSlots) {
  item("{a}1");
  item("{a}2");
  request.items = items;
  EXPECT_FALSE(CrossSlotQuery::is_needed(request));
  item("{b}1");
  request.items = items;
  EXPECT_TRUE(CrossSlotQuery::is_needed(request));
}

TEST_F(CrossSlotQueryTest, SendsAPartToEachSlotAndJoinsTheResponses) {
  item("{a}1");
  item("{b}1");
  item("{a}2");
  request.wants_receipts = true;
  ask(StoreVerb::take);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].keys, "{a}1 {a}2 ");
  EXPECT_EQ(parts[1].keys, "{b}1 ");
  EXPECT_EQ(parts[0].deadline, Nanos{1000});
  decide(1, true, 3);
  EXPECT_EQ(whole.answers, 0);
  decide(0, true, 7);
  ASSERT_EQ(whole.answers, 1);
  EXPECT_EQ(whole.answer.kind, Kind::decided);
  EXPECT_TRUE(whole.answer.verdict.decision);
  EXPECT_EQ(whole.answer.verdict.tightest, 1u);
  EXPECT_EQ(whole.answer.verdict.decision.remaining, 3);
  EXPECT_EQ(whole.answer.now, instant(2));
  ASSERT_EQ(whole.answer.receipts.size(), 3u);
  EXPECT_EQ(whole.answer.receipts[0].birth, 40u);
  EXPECT_EQ(whole.answer.receipts[1].birth, 41u);
  EXPECT_EQ(whole.answer.receipts[2].birth, 40u);
  EXPECT_EQ(parts.size(), 2u);
}

TEST_F(CrossSlotQueryTest, RefundsTakenPartsByTheirReceiptsIfAnotherIsDenied) {
  item("{a}1").ask.cost = 2;
  item("{b}1");
  ask(StoreVerb::take);
  EXPECT_TRUE(parts[0].request->wants_receipts);
  decide(0, true);
  decide(1, false);
  ASSERT_EQ(whole.answers, 1);
  EXPECT_FALSE(whole.answer.verdict.decision);
  EXPECT_EQ(whole.answer.verdict.tightest, 1u);
  EXPECT_EQ(whole.answer.verdict.refusing, 2u);
  ASSERT_EQ(parts.size(), 3u);
  // By then everything that the request lent is gone.
  limits.clear();
  keys.clear();
  const StoreRequest& undo = *parts[2].request;
  EXPECT_EQ(undo.verb, StoreVerb::settle);
  EXPECT_EQ(undo.items.front().key, "{a}1");
  EXPECT_EQ(std::get<core::Window>(*undo.items.front().limit).count, 100);
  EXPECT_EQ(undo.items.front().ask.cost, -2);
  EXPECT_EQ(undo.receipts.front().birth, 40u);
  EXPECT_EQ(parts[2].deadline, Nanos{0});
  decide(2, true);
  EXPECT_EQ(whole.answers, 1);
  EXPECT_EQ(counts.given_back.get(), 1u);
}

TEST_F(CrossSlotQueryTest, RefundsTakenPartsIfAnotherFails) {
  item("{a}1");
  item("{b}1");
  item("{c}1");
  ask(StoreVerb::take);
  fail(1, Kind::unavailable, "gone");
  decide(0, true);
  fail(2, Kind::misconfigured, "wrong");
  EXPECT_EQ(whole.answer.kind, Kind::misconfigured);
  EXPECT_EQ(whole.answer.error, "wrong");
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(verb_of(3), StoreVerb::settle);
  fail(3, Kind::unavailable, "gone");  // the permit stays taken
  EXPECT_EQ(whole.answers, 1);
}

TEST_F(CrossSlotQueryTest, RefundsNothingThatWasNotTaken) {
  item("{a}1");
  item("{b}1");
  ask(StoreVerb::take);
  decide(0, false);
  fail(1, Kind::unavailable, "gone");
  EXPECT_EQ(whole.answer.kind, Kind::unavailable);
  EXPECT_EQ(parts.size(), 2u);
}

TEST_F(CrossSlotQueryTest, ADeniedShadowLimitDoesNotDenyTheRequest) {
  item("{a}1");
  item("{b}1").shadow = true;
  ask(StoreVerb::take);
  decide(0, true);
  StoreResponse shadow{.kind = Kind::decided};
  shadow.decisions.push_back({.outcome = Outcome::limited, .limit = 100});
  parts[1].callback->on_response(shadow);
  EXPECT_TRUE(whole.answer.verdict.decision);
  EXPECT_EQ(whole.answer.verdict.refusing, 2u);
  EXPECT_EQ(parts.size(), 2u);
}

TEST_F(CrossSlotQueryTest, JoinsPeeksAndRefundsNothing) {
  item("{a}1");
  item("{b}1");
  ask(StoreVerb::peek);
  decide(0, true);
  decide(1, false);
  EXPECT_FALSE(whole.answer.verdict.decision);
  EXPECT_EQ(whole.answer.decisions.size(), 2u);
  EXPECT_EQ(parts.size(), 2u);
}

// A part that fails may have learnt the outcome of an earlier refund.
TEST_F(CrossSlotQueryTest, SettleUpdatesAllReceiptsEvenIfOneNodeDoesNotAnswer) {
  item("{a}1").ask.cost = -1;
  item("{b}1").ask.cost = -1;
  std::array<StoreReceipt, 2> receipts{StoreReceipt{{.taken = 5}, 1}, {{.taken = 6}, 2}};
  request.receipts = receipts;
  request.receipt_name = "r";
  ask(StoreVerb::settle);
  EXPECT_EQ(parts[0].request->receipt_name, "r");
  EXPECT_EQ(parts[1].request->receipts.front().birth, 2u);
  parts[0].request->receipts.front().receipt.taken = 4;
  parts[1].request->receipts.front().receipt.taken = 5;
  decide(0, true);
  fail(1, Kind::unavailable, "gone");
  EXPECT_EQ(receipts[0].receipt.taken, 4);
  EXPECT_EQ(receipts[1].receipt.taken, 5);
  EXPECT_EQ(whole.answer.kind, Kind::unavailable);
}

TEST_F(CrossSlotQueryTest, LeaveIsSentForConcurrencyLimitsOnly) {
  item("{a}1");
  item("{b}1", kConcurrency);
  item("{c}1", kConcurrency);
  request.holder = "h";
  ask(StoreVerb::leave);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].request->holder, "h");
  StoreResponse gone{.kind = Kind::decided};
  parts[0].callback->on_response(gone);
  StoreResponse left{.kind = Kind::decided};
  left.left = true;
  parts[1].callback->on_response(left);
  EXPECT_TRUE(whole.answer.left);
}

TEST_F(CrossSlotQueryTest, ResetIsSentToAllSlots) {
  item("{a}1");
  item("{b}1");
  ask(StoreVerb::reset);
  EXPECT_EQ(verb_of(0), StoreVerb::reset);
  for (const SentPart& part : parts) {
    StoreResponse done{.kind = Kind::decided};
    part.callback->on_response(done);
  }
  EXPECT_EQ(whole.answer.kind, Kind::decided);
}

// ---- Concurrency limits

TEST_F(CrossSlotQueryTest, SendsConcurrencyLimitsFirstAndThenTheOthers) {
  item("{a}1");
  item("{a}2", kConcurrency);
  item("{b}1", kConcurrency);
  ask(StoreVerb::enter);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].keys, "{a}2 ");
  EXPECT_EQ(parts[1].keys, "{b}1 ");
  decide(0, true, 2, 1);
  decide(1, true, 2, 0);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].keys, "{a}1 ");
  EXPECT_EQ(verb_of(2), StoreVerb::take);
  decide(2, true);
  EXPECT_TRUE(whole.answer.verdict.decision);
  EXPECT_EQ(parts.size(), 3u);
}

TEST_F(CrossSlotQueryTest, AHolderOfAllConcurrencyLimitsRenewsAndIsChargedForNothingElse) {
  item("{a}1").ask.cost = 4;
  item("{b}1", kConcurrency);
  ask(StoreVerb::enter);
  decide(0, true, 2, 1);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(verb_of(1), StoreVerb::settle);
  EXPECT_EQ(parts[1].request->items.front().ask.cost, 0);
  decide(1, true);
  EXPECT_TRUE(whole.answer.verdict.decision);
}

TEST_F(CrossSlotQueryTest, OtherLimitsAreOnlyReadIfAConcurrencyLimitDenies) {
  item("{a}1");
  item("{b}1", kConcurrency);
  ask(StoreVerb::enter);
  decide(0, false);
  EXPECT_EQ(verb_of(1), StoreVerb::peek);
  decide(1, true);
  EXPECT_FALSE(whole.answer.verdict.decision);
  EXPECT_EQ(whole.answer.verdict.tightest, 1u);
  EXPECT_EQ(parts.size(), 2u);
}

TEST_F(CrossSlotQueryTest, LeavesNewlyEnteredLimitsIfAnotherDeniesAndKeepsEarlierOnes) {
  item("{a}1", kConcurrency);
  item("{b}1", kConcurrency);
  item("{c}1");
  request.holder = "h";
  ask(StoreVerb::enter);
  decide(0, true, 2, 1);  // held before
  decide(1, true, 2, 0);
  decide(2, false);
  ASSERT_EQ(parts.size(), 4u);
  request.holder = "gone";
  EXPECT_EQ(verb_of(3), StoreVerb::leave);
  EXPECT_EQ(parts[3].keys, "{b}1 ");
  EXPECT_EQ(parts[3].request->holder, "h");
  // The receipt keeps it from leaving a lease that was renewed since.
  EXPECT_EQ(parts[3].request->receipts.front().birth, 41u);
}

TEST_F(CrossSlotQueryTest, SendsConcurrencyShadowLimitsLaterInTheirOwnPart) {
  item("{a}1", kConcurrency);
  item("{b}1", kConcurrency).shadow = true;
  item("{b}2");
  ask(StoreVerb::enter);
  ASSERT_EQ(parts.size(), 1u);
  decide(0, true);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(verb_of(1), StoreVerb::enter);
  EXPECT_EQ(verb_of(2), StoreVerb::take);
}

// The request and its price history may be gone before the response to the refund arrives.
TEST_F(CrossSlotQueryTest, CopiesThePriceHistoryForTheRefundOfAnUndoneTake) {
  core::Bucket bucket = *core::Bucket::make({.count = 60, .period = std::chrono::minutes{1}}, 9);
  auto history = std::make_unique<core::PriceTimeline>();
  const Instant changed = instant(1'767'225'600'000'000'000);
  bucket = history->change(*core::Bucket::make({.count = 30, .period = std::chrono::minutes{1}}, 9),
                           bucket, changed);
  item("{a}1", bucket).history = history.get();
  item("{b}1");
  whole.then = [&] { history.reset(); };
  ask(StoreVerb::take);
  decide(0, true);
  decide(1, false);
  ASSERT_EQ(parts.size(), 3u);
  ASSERT_EQ(parts[2].keys, "{a}1 ");
  EXPECT_EQ(core::present_since(parts[2].request->items.front().history), changed);
}

// ---- Split by key

TEST_F(CrossSlotQueryTest, SendsEachKeyInItsOwnPartWhileItsSlotIsMigrated) {
  item("{a}1");
  item("{a}2");
  ask(StoreVerb::take, true);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].keys, "{a}1 ");
  decide(0, true);
  decide(1, false);
  EXPECT_FALSE(whole.answer.verdict.decision);
  EXPECT_EQ(verb_of(2), StoreVerb::settle);
}

TEST_F(CrossSlotQueryTest, APartThatIsSplitByKeyCompletesAsAPart) {
  item("{a}1");
  item("{a}2");
  request.items = items;
  query.ask_each_key(request, whole, Nanos{1000}, true);
  decide(0, true);
  decide(1, true);
  EXPECT_TRUE(completed_as_part);
}

TEST_F(CrossSlotQueryTest, ARequestMayBeStartedFromWithinACallback) {
  item("{a}1");
  item("{b}1");
  NotingCallback second;
  whole.then = [&] { query.ask(request, second, Nanos{2000}); };
  ask(StoreVerb::take);
  decide(0, true);
  decide(1, false);
  // The request from within the callback is sent before the undo.
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(verb_of(4), StoreVerb::settle);
  decide(2, true);
  decide(3, true);
  EXPECT_TRUE(second.answer.verdict.decision);
}

}  // namespace
}  // namespace weir::store::redis
