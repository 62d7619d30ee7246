// Questions about several slots, without sockets: what each node says is in the test's hand.

#include "store/redis/spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>

#include "core/price_history.h"

namespace weir::store::redis {
namespace {

using testing::ElementsAre;
using Kind = SharedAnswer::Kind;

class Whole final : public Asker {
 public:
  void on_answer(SharedAnswer& given) override {
    ++answers;
    answer = given;
    if (then) then();
  }
  int answers = 0;
  SharedAnswer answer{};
  std::function<void()> then{};
};

class SpreadTest : public testing::Test, protected Spread::Host {
 protected:
  // One part of a question, as a node gets it.
  struct Asked {
    const SharedQuestion* question;
    Asker* asker;
    Nanos deadline;
    std::string keys{};  // of that time
  };

  void ask_part(const SharedQuestion& of_part, Asker& asker, Nanos deadline) override {
    Asked& part = asked.emplace_back(Asked{&of_part, &asker, deadline});
    for (const SharedItem& each : of_part.items) part.keys.append(each.key).append(" ");
  }
  void answer_whole(const SharedQuestion&, SharedAnswer& answer, Asker& asker,
                    bool is_part) override {
    whole_was_part = is_part;
    asker.on_answer(answer);
  }

  SharedItem& item(std::string key, core::Limit limit = core::Window{.count = 100}) {
    SharedItem& made = items.emplace_back();
    made.limit = &limits.emplace_back(std::move(limit));
    made.key = keys.emplace_back(std::move(key));
    return made;
  }
  void ask(SharedVerb verb, bool apart = false) {
    question.verb = verb;
    question.items = items;
    apart ? spread.ask_apart(question, whole, Nanos{1000}, false)
          : spread.ask(question, whole, Nanos{1000});
  }

  // What a node says to a part: whether it admits, what remains, and which seats the holder had.
  void decide(std::size_t i, bool admits, Permits remaining = 5, std::uint32_t held = 0) {
    const SharedQuestion& part = *asked.at(i).question;
    SharedAnswer answer{.kind = Kind::decided, .now = instant(static_cast<int>(i) + 1)};
    answer.held = held;
    for (const SharedItem& each : part.items) {
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
    asked[i].asker->on_answer(answer);
  }
  void fail(std::size_t i, Kind kind, std::string why) {
    SharedAnswer answer{.kind = kind, .error = std::move(why)};
    asked.at(i).asker->on_answer(answer);
  }
  SharedVerb verb_of(std::size_t i) const { return asked.at(i).question->verb; }

  static constexpr core::Concurrency kSeats{.count = 3, .lease = std::chrono::seconds{30}};

  LinkCounts counts;
  Spread spread{*this, counts};
  std::deque<core::Limit> limits;
  std::deque<std::string> keys;
  std::vector<SharedItem> items;
  SharedQuestion question{};
  Whole whole;
  std::deque<Asked> asked;
  bool whole_was_part = false;
};

TEST_F(SpreadTest, IsNeededForSeveralSlots) {
  item("{a}1");
  item("{a}2");
  question.items = items;
  EXPECT_FALSE(Spread::is_needed(question));
  item("{b}1");
  question.items = items;
  EXPECT_TRUE(Spread::is_needed(question));
}

TEST_F(SpreadTest, AsksEachSlotAtTheSameTimeAndAnswersAsOne) {
  item("{a}1");
  item("{b}1");
  item("{a}2");
  question.wants_receipts = true;
  ask(SharedVerb::take);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].keys, "{a}1 {a}2 ");
  EXPECT_EQ(asked[1].keys, "{b}1 ");
  EXPECT_EQ(asked[0].deadline, Nanos{1000});
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
  EXPECT_EQ(asked.size(), 2u);
}

TEST_F(SpreadTest, WhatWasTakenIsGivenBackByItsReceiptsIfAnotherRefuses) {
  item("{a}1").ask.cost = 2;
  item("{b}1");
  ask(SharedVerb::take);
  EXPECT_TRUE(asked[0].question->wants_receipts);
  decide(0, true);
  decide(1, false);
  ASSERT_EQ(whole.answers, 1);
  EXPECT_FALSE(whole.answer.verdict.decision);
  EXPECT_EQ(whole.answer.verdict.tightest, 1u);
  EXPECT_EQ(whole.answer.verdict.refusing, 2u);
  ASSERT_EQ(asked.size(), 3u);
  // By then what the question had lent is gone.
  limits.clear();
  keys.clear();
  const SharedQuestion& back = *asked[2].question;
  EXPECT_EQ(back.verb, SharedVerb::settle);
  EXPECT_EQ(back.items.front().key, "{a}1");
  EXPECT_EQ(std::get<core::Window>(*back.items.front().limit).count, 100);
  EXPECT_EQ(back.items.front().ask.cost, -2);
  EXPECT_EQ(back.receipts.front().birth, 40u);
  EXPECT_EQ(asked[2].deadline, Nanos{0});
  decide(2, true);
  EXPECT_EQ(whole.answers, 1);
  EXPECT_EQ(counts.given_back.get(), 1u);
}

TEST_F(SpreadTest, TheSameIfAnotherFails) {
  item("{a}1");
  item("{b}1");
  item("{c}1");
  ask(SharedVerb::take);
  fail(1, Kind::unavailable, "gone");
  decide(0, true);
  fail(2, Kind::misconfigured, "wrong");
  EXPECT_EQ(whole.answer.kind, Kind::misconfigured);
  EXPECT_EQ(whole.answer.error, "wrong");
  ASSERT_EQ(asked.size(), 4u);
  EXPECT_EQ(verb_of(3), SharedVerb::settle);
  fail(3, Kind::unavailable, "gone");  // a permit is lost
  EXPECT_EQ(whole.answers, 1);
}

TEST_F(SpreadTest, WhatWasNotTakenIsNotGivenBack) {
  item("{a}1");
  item("{b}1");
  ask(SharedVerb::take);
  decide(0, false);
  fail(1, Kind::unavailable, "gone");
  EXPECT_EQ(whole.answer.kind, Kind::unavailable);
  EXPECT_EQ(asked.size(), 2u);
}

TEST_F(SpreadTest, ShadowsCannotRefuse) {
  item("{a}1");
  item("{b}1").shadow = true;
  ask(SharedVerb::take);
  decide(0, true);
  SharedAnswer shadow{.kind = Kind::decided};
  shadow.decisions.push_back({.outcome = Outcome::limited, .limit = 100});
  asked[1].asker->on_answer(shadow);
  EXPECT_TRUE(whole.answer.verdict.decision);
  EXPECT_EQ(whole.answer.verdict.refusing, 2u);
  EXPECT_EQ(asked.size(), 2u);
}

TEST_F(SpreadTest, PeeksAreJoinedAndNothingIsGivenBack) {
  item("{a}1");
  item("{b}1");
  ask(SharedVerb::peek);
  decide(0, true);
  decide(1, false);
  EXPECT_FALSE(whole.answer.verdict.decision);
  EXPECT_EQ(whole.answer.decisions.size(), 2u);
  EXPECT_EQ(asked.size(), 2u);
}

// A part that is not answered may have learnt what became of an earlier refund.
TEST_F(SpreadTest, SettleUpdatesAllReceiptsEvenIfOneNodeDoesNotAnswer) {
  item("{a}1").ask.cost = -1;
  item("{b}1").ask.cost = -1;
  std::array<SharedReceipt, 2> receipts{SharedReceipt{{.taken = 5}, 1}, {{.taken = 6}, 2}};
  question.receipts = receipts;
  question.receipt_name = "r";
  ask(SharedVerb::settle);
  EXPECT_EQ(asked[0].question->receipt_name, "r");
  EXPECT_EQ(asked[1].question->receipts.front().birth, 2u);
  asked[0].question->receipts.front().receipt.taken = 4;
  asked[1].question->receipts.front().receipt.taken = 5;
  decide(0, true);
  fail(1, Kind::unavailable, "gone");
  EXPECT_EQ(receipts[0].receipt.taken, 4);
  EXPECT_EQ(receipts[1].receipt.taken, 5);
  EXPECT_EQ(whole.answer.kind, Kind::unavailable);
}

TEST_F(SpreadTest, LeavingIsOnlyAboutSeats) {
  item("{a}1");
  item("{b}1", kSeats);
  item("{c}1", kSeats);
  question.holder = "h";
  ask(SharedVerb::leave);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].question->holder, "h");
  SharedAnswer gone{.kind = Kind::decided};
  asked[0].asker->on_answer(gone);
  SharedAnswer left{.kind = Kind::decided};
  left.left = true;
  asked[1].asker->on_answer(left);
  EXPECT_TRUE(whole.answer.left);
}

TEST_F(SpreadTest, ResetsGoToAll) {
  item("{a}1");
  item("{b}1");
  ask(SharedVerb::reset);
  EXPECT_EQ(verb_of(0), SharedVerb::reset);
  for (const Asked& part : asked) {
    SharedAnswer done{.kind = Kind::decided};
    part.asker->on_answer(done);
  }
  EXPECT_EQ(whole.answer.kind, Kind::decided);
}

// ---- Seats

TEST_F(SpreadTest, SeatsComeFirstAndThenTheOthersAreTakenFrom) {
  item("{a}1");
  item("{a}2", kSeats);
  item("{b}1", kSeats);
  ask(SharedVerb::enter);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].keys, "{a}2 ");
  EXPECT_EQ(asked[1].keys, "{b}1 ");
  decide(0, true, 2, 1);
  decide(1, true, 2, 0);
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[2].keys, "{a}1 ");
  EXPECT_EQ(verb_of(2), SharedVerb::take);
  decide(2, true);
  EXPECT_TRUE(whole.answer.verdict.decision);
  EXPECT_EQ(asked.size(), 3u);
}

TEST_F(SpreadTest, WhoHasAllSeatsRenewsAndIsChargedForNothingElse) {
  item("{a}1").ask.cost = 4;
  item("{b}1", kSeats);
  ask(SharedVerb::enter);
  decide(0, true, 2, 1);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(verb_of(1), SharedVerb::settle);
  EXPECT_EQ(asked[1].question->items.front().ask.cost, 0);
  decide(1, true);
  EXPECT_TRUE(whole.answer.verdict.decision);
}

TEST_F(SpreadTest, WithoutASeatTheOthersAreOnlyLookedAt) {
  item("{a}1");
  item("{b}1", kSeats);
  ask(SharedVerb::enter);
  decide(0, false);
  EXPECT_EQ(verb_of(1), SharedVerb::peek);
  decide(1, true);
  EXPECT_FALSE(whole.answer.verdict.decision);
  EXPECT_EQ(whole.answer.verdict.tightest, 1u);
  EXPECT_EQ(asked.size(), 2u);
}

TEST_F(SpreadTest, NewSeatsAreLeftIfAnotherLimitRefusesAndOldOnesAreKept) {
  item("{a}1", kSeats);
  item("{b}1", kSeats);
  item("{c}1");
  question.holder = "h";
  ask(SharedVerb::enter);
  decide(0, true, 2, 1);  // was in
  decide(1, true, 2, 0);
  decide(2, false);
  ASSERT_EQ(asked.size(), 4u);
  question.holder = "gone";
  EXPECT_EQ(verb_of(3), SharedVerb::leave);
  EXPECT_EQ(asked[3].keys, "{b}1 ");
  EXPECT_EQ(asked[3].question->holder, "h");
  // Only the seat of this receipt: it may be another's by now.
  EXPECT_EQ(asked[3].question->receipts.front().birth, 41u);
}

TEST_F(SpreadTest, SeatsOfShadowsAreAskedApartAndLater) {
  item("{a}1", kSeats);
  item("{b}1", kSeats).shadow = true;
  item("{b}2");
  ask(SharedVerb::enter);
  ASSERT_EQ(asked.size(), 1u);
  decide(0, true);
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(verb_of(1), SharedVerb::enter);
  EXPECT_EQ(verb_of(2), SharedVerb::take);
}

// The question, and the price history of its key, may be gone before the answer to the refund
// comes.
TEST_F(SpreadTest, RefundOfARefusedTakeOwnsThePriceHistory) {
  core::Bucket bucket = *core::Bucket::make({.count = 60, .period = std::chrono::minutes{1}}, 9);
  auto history = std::make_unique<core::PriceTimeline>();
  const Instant changed = instant(1'767'225'600'000'000'000);
  bucket = history->change(*core::Bucket::make({.count = 30, .period = std::chrono::minutes{1}}, 9),
                           bucket, changed);
  item("{a}1", bucket).history = history.get();
  item("{b}1");
  whole.then = [&] { history.reset(); };
  ask(SharedVerb::take);
  decide(0, true);
  decide(1, false);
  ASSERT_EQ(asked.size(), 3u);
  ASSERT_EQ(asked[2].keys, "{a}1 ");
  EXPECT_EQ(core::present_since(asked[2].question->items.front().history), changed);
}

// ---- Apart

TEST_F(SpreadTest, AKeyAtATimeIfTheirSlotIsBetweenTwoNodes) {
  item("{a}1");
  item("{a}2");
  ask(SharedVerb::take, true);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].keys, "{a}1 ");
  decide(0, true);
  decide(1, false);
  EXPECT_FALSE(whole.answer.verdict.decision);
  EXPECT_EQ(verb_of(2), SharedVerb::settle);
}

TEST_F(SpreadTest, APartThatIsTakenApartIsAnsweredAsAPart) {
  item("{a}1");
  item("{a}2");
  question.items = items;
  spread.ask_apart(question, whole, Nanos{1000}, true);
  decide(0, true);
  decide(1, true);
  EXPECT_TRUE(whole_was_part);
}

TEST_F(SpreadTest, WhoIsAnsweredMayAskFromWithin) {
  item("{a}1");
  item("{b}1");
  Whole second;
  whole.then = [&] { spread.ask(question, second, Nanos{2000}); };
  ask(SharedVerb::take);
  decide(0, true);
  decide(1, false);
  // What was asked from within comes before what is given back.
  ASSERT_EQ(asked.size(), 5u);
  EXPECT_EQ(verb_of(4), SharedVerb::settle);
  decide(2, true);
  decide(3, true);
  EXPECT_TRUE(second.answer.verdict.decision);
}

}  // namespace
}  // namespace weir::store::redis
