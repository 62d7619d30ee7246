// Worked numbers. What holds for any questions is in tests/property/loans_test.cc, and that a Redis
// lends alike in tests/property/redis_loans_test.cc.

#include "store/lease/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::store::lease {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LedgerTest : public ::testing::Test {
 protected:
  Instant at(Nanos passed) const { return start_ + passed; }

  // What is asked by somebody who has a new question each time.
  LoanAnswer ask(const core::Limit& limit, Nanos passed, std::string_view borrower,
                 LoanQuestion question) {
    question.borrower = borrower;
    if (question.number == 0) question.number = ++questions_;
    if (question.term == Nanos{0}) question.term = seconds{10};
    return lend(limit, ledger_, at(passed), question);
  }
  Permits remaining(const core::Limit& limit, Nanos passed) {
    return ask(limit, passed, "who only looks", {}).remaining;
  }

  const Instant start_ = instant(1'700'000'000'000'000'000);
  const core::Limit bucket_ = *core::Bucket::make({.count = 10, .period = seconds{1}}, 20);
  const core::Limit window_ = *core::Window::make({.count = 20, .period = seconds{100}}, false);
  Ledger ledger_{};
  std::uint64_t questions_ = 0;
};

// ---- A bucket: 10/s, burst 20

TEST_F(LedgerTest, LendsWhatIsWanted) {
  const LoanAnswer answer = ask(bucket_, seconds{0}, "a", {.least = 1, .wanted = 8});
  EXPECT_EQ(answer.kind, SharedAnswer::Kind::decided);
  EXPECT_EQ(answer.lent, 8);
  EXPECT_EQ(answer.kept, 0);
  EXPECT_EQ(answer.lasts, seconds{10});
  EXPECT_EQ(answer.remaining, 12);
  EXPECT_EQ(answer.outstanding, 8);
  EXPECT_EQ(answer.retry_after, Nanos{0});
  EXPECT_EQ(answer.reset_after, milliseconds{800});
}

TEST_F(LedgerTest, LendsWhatThereIs) {
  EXPECT_EQ(ask(bucket_, seconds{0}, "a", {.least = 1, .wanted = 15}).lent, 15);
  EXPECT_EQ(ask(bucket_, seconds{0}, "b", {.least = 1, .wanted = 15}).lent, 5);
}

TEST_F(LedgerTest, LendsNothingThatWouldNotHelp) {
  ask(bucket_, seconds{0}, "a", {.wanted = 15});
  const LoanAnswer answer = ask(bucket_, seconds{0}, "b", {.least = 6, .wanted = 15});
  EXPECT_EQ(answer.lent, 0);
  EXPECT_EQ(answer.remaining, 5);
  EXPECT_THAT(ledger_.loans, SizeIs(1));
}

// The limit was 1/s when they were spent, and became 10/s half a second ago.
TEST_F(LedgerTest, WhatWasSpentBeforeAPriceChangedDrainsAtThePresentPriceOnlySinceThen) {
  const core::Bucket slow = *core::Bucket::make({.count = 1, .period = seconds{1}}, 20);
  core::PriceTimeline prices;
  const core::Limit fast =
      prices.change(std::get<core::Bucket>(bucket_), slow, at(milliseconds{1'500}));
  EXPECT_EQ(ask(core::Limit{slow}, seconds{0}, "a", {.wanted = 20}).lent, 20);
  // As a node does that knows when the limit changed.
  ledger_.state = carried(std::get<core::Bucket>(fast), ledger_.state, at(seconds{2}), &prices);
  const LoanAnswer answer =
      ask(fast, seconds{2}, "a", {.spent_ago = seconds{2}, .history = &prices});
  EXPECT_EQ(answer.remaining, 4);  // less than a microsecond short of 5
}

// While 15 are lent there is never more than 5 for others: at 10s they end, and 100ms later there
// is room for one more.
TEST_F(LedgerTest, WhatIsLentOccupiesTheBucketUntilItEnds) {
  ask(bucket_, seconds{0}, "a", {.wanted = 15});
  EXPECT_EQ(remaining(bucket_, seconds{9}), 5);
  const LoanAnswer refused = ask(bucket_, seconds{9}, "b", {.least = 6, .wanted = 6});
  EXPECT_EQ(refused.retry_after, milliseconds{1100});
  EXPECT_EQ(remaining(bucket_, milliseconds{10'099}), 5);
  EXPECT_EQ(ask(bucket_, milliseconds{10'100}, "b", {.least = 6, .wanted = 6}).lent, 6);
}

TEST_F(LedgerTest, WhatWasSpentDrainsFromWhenItIsTold) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  const LoanAnswer told = ask(bucket_, seconds{5}, "a", {.held = 8});
  EXPECT_EQ(told.kept, 8);
  EXPECT_EQ(told.outstanding, 8);
  EXPECT_EQ(told.remaining, 0);
  EXPECT_EQ(remaining(bucket_, milliseconds{5'500}), 5);
  EXPECT_EQ(remaining(bucket_, seconds{9}), 12);
}

// Spent at 1s, reported at 2s: ten have come in since. What others were lent stays.
TEST_F(LedgerTest, WhatWasSpentHasDrainedSinceThen) {
  ask(bucket_, seconds{0}, "a", {.wanted = 12});
  ask(bucket_, seconds{0}, "b", {.wanted = 8});
  EXPECT_EQ(ask(bucket_, seconds{2}, "a", {.spent_ago = seconds{1}}).remaining, 10);
  EXPECT_EQ(remaining(bucket_, seconds{9}), 12);
}

TEST_F(LedgerTest, AnAgeOfSpendingDoesNotCountForWhatIsHeld) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(bucket_, seconds{5}, "a", {.held = 15, .spent_ago = seconds{5}}).remaining, 5);
}

// The loan ends at 10s, and was spent by 9s.
TEST_F(LedgerTest, WhatWasSpentBeforeItsTermPassedHasDrainedSinceThen) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(bucket_, milliseconds{10'500}, "a", {.spent_ago = milliseconds{1'500}}).remaining,
            14);
}

// Nothing drains before it was lent.
TEST_F(LedgerTest, AnAgeOfSpendingBeforeTheLoanIsThatOfTheLoan) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(bucket_, seconds{1}, "a", {.spent_ago = seconds{100}}).remaining, 10);
}

TEST_F(LedgerTest, AWindowIsNotRefilledByTheAgeOfSpending) {
  ask(window_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(window_, seconds{5}, "a", {.spent_ago = seconds{5}}).remaining, 0);
}

TEST_F(LedgerTest, WhatIsGivenBackIsThereAtOnce) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  const LoanAnswer answer = ask(bucket_, seconds{5}, "a", {.held = 3, .returned = 10});
  EXPECT_EQ(answer.remaining, 10);
  EXPECT_EQ(answer.outstanding, 3);
}

TEST_F(LedgerTest, ATermIsRenewedWithEachQuestion) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(bucket_, seconds{9}, "a", {.held = 20}).lasts, seconds{10});
  EXPECT_EQ(remaining(bucket_, seconds{18}), 0);
}

// Whoever does not hear that the term is shorter spends until the end it knows of.
TEST_F(LedgerTest, AnEndThatWasToldStays) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(bucket_, seconds{1}, "a", {.held = 20, .term = seconds{2}}).lasts, seconds{9});
  EXPECT_EQ(remaining(bucket_, seconds{9}), 0);
}

// The first ends at 2s, when 20 were out; the second at 4s, when 10 were. At 4s the debt of both is
// that of the ten.
TEST_F(LedgerTest, TermsPassInTheirOrder) {
  ask(bucket_, seconds{0}, "a", {.wanted = 10, .term = seconds{2}});
  ask(bucket_, seconds{0}, "b", {.wanted = 10, .term = seconds{4}});
  EXPECT_EQ(remaining(bucket_, milliseconds{4'500}), 15);
  EXPECT_THAT(ledger_.loans, IsEmpty());
}

TEST_F(LedgerTest, AQuestionThatIsAskedAgainIsAnsweredAsBefore) {
  const LoanQuestion question{.number = 7, .held = -2, .wanted = 5};
  const LoanAnswer first = ask(bucket_, seconds{0}, "a", question);
  const LoanAnswer second = ask(bucket_, seconds{4}, "a", question);
  EXPECT_EQ(second.lent, 5);
  EXPECT_EQ(second.kept, 0);
  EXPECT_EQ(first.lasts, seconds{10});
  EXPECT_EQ(second.lasts, seconds{6});
  EXPECT_EQ(second.outstanding, 5);
  EXPECT_EQ(remaining(bucket_, seconds{4}), 15);
}

TEST_F(LedgerTest, NumbersOfDifferentBorrowersHaveNothingToDoWithEachOther) {
  EXPECT_EQ(ask(bucket_, seconds{0}, "a", {.number = 7, .wanted = 5}).lent, 5);
  EXPECT_EQ(ask(bucket_, seconds{0}, "b", {.number = 7, .wanted = 9}).lent, 9);
}

TEST_F(LedgerTest, WhatWasSpentBeyondTheLoanIsCharged) {
  EXPECT_EQ(ask(bucket_, seconds{0}, "a", {.held = -25}).remaining, 0);
  EXPECT_EQ(ask(bucket_, milliseconds{500}, "a", {.wanted = 1}).retry_after, milliseconds{100});
  EXPECT_EQ(remaining(bucket_, milliseconds{600}), 1);
}

TEST_F(LedgerTest, WhatIsHeldIsLentAnewByAStoreThatHasForgottenIt) {
  const LoanAnswer answer = ask(bucket_, seconds{0}, "a", {.held = 12, .wanted = 2});
  EXPECT_EQ(answer.kept, 12);
  EXPECT_EQ(answer.lent, 2);
  EXPECT_EQ(answer.outstanding, 14);
  EXPECT_EQ(answer.remaining, 6);
}

// It is others' by then.
TEST_F(LedgerTest, KeepsWhatIsToBeHadOfWhatWasForgotten) {
  ask(bucket_, seconds{0}, "b", {.wanted = 15});
  const LoanAnswer answer = ask(bucket_, seconds{0}, "a", {.held = 12, .wanted = 2});
  EXPECT_EQ(answer.kept, 5);
  EXPECT_EQ(answer.lent, 0);
  EXPECT_EQ(answer.outstanding, 20);
}

TEST_F(LedgerTest, NothingComesBackThatHasCountedAsSpent) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20, .term = seconds{1}});
  EXPECT_EQ(ask(bucket_, milliseconds{1'500}, "a", {.returned = 20}).remaining, 5);
}

TEST_F(LedgerTest, WhatCanNeverBeLentIsToldApart) {
  EXPECT_EQ(ask(bucket_, seconds{0}, "a", {.least = 21, .wanted = 21}).retry_after, core::kNever);
  EXPECT_EQ(ask(window_, seconds{0}, "a", {.least = 21, .wanted = 21}).retry_after, core::kNever);
}

TEST_F(LedgerTest, LoansStayOutWhenAKeyIsReset) {
  for (const core::Limit* limit : {&bucket_, &window_}) {
    ledger_ = {};
    ask(*limit, seconds{0}, "a", {.wanted = 15});
    ledger_.state = {};
    EXPECT_EQ(remaining(*limit, seconds{0}), 5);
  }
}

// 20 of 20/2s are 20 of the 30 of 30/s.
TEST_F(LedgerTest, LoansArePermitsWhateverTheyCost) {
  const core::Limit other = *core::Bucket::make({.count = 30, .period = seconds{1}}, 30);
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(remaining(other, seconds{1}), 10);
}

// ---- Windows of 100s, 20 each. (The first here begins at the start.)

TEST_F(LedgerTest, LoansOfAWindowEndWithIt) {
  const LoanAnswer first = ask(window_, seconds{95}, "a", {.wanted = 12});
  EXPECT_EQ(first.lent, 12);
  EXPECT_EQ(first.lasts, seconds{5});
  EXPECT_EQ(first.remaining, 8);
  const LoanAnswer next = ask(window_, seconds{101}, "a", {.held = 9, .wanted = 20});
  EXPECT_EQ(next.kept, 0);
  EXPECT_EQ(next.lent, 20);
  EXPECT_EQ(next.outstanding, 20);
}

TEST_F(LedgerTest, WhatIsGivenBackToAWindowCanBeLentAgain) {
  ask(window_, seconds{0}, "a", {.wanted = 20});
  const LoanAnswer refused = ask(window_, seconds{1}, "b", {.wanted = 1});
  EXPECT_EQ(refused.lent, 0);
  EXPECT_EQ(refused.retry_after, seconds{99});
  ask(window_, seconds{2}, "a", {.held = 5, .returned = 5});
  EXPECT_EQ(ask(window_, seconds{3}, "b", {.wanted = 9}).lent, 5);
}

TEST_F(LedgerTest, WhatEndsWithinAWindowCountsAsUsed) {
  ask(window_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(window_, seconds{11}, "a", {.returned = 20}).remaining, 0);
  EXPECT_EQ(remaining(window_, seconds{99}), 0);
  EXPECT_EQ(remaining(window_, seconds{100}), 20);
}

TEST_F(LedgerTest, AWindowFromTheFirstCallIsOpenedByALoan) {
  const core::Limit limit = *core::Window::make({.count = 20, .period = seconds{100}}, true);
  EXPECT_EQ(ask(limit, seconds{30}, "a", {.wanted = 12, .term = seconds{1000}}).lasts,
            seconds{100});
  EXPECT_EQ(remaining(limit, seconds{129}), 8);
  EXPECT_EQ(remaining(limit, seconds{130}), 20);
}

// Half a window later, half of what was lent in the one before still counts.
TEST_F(LedgerTest, LoansOfASlidingWindowFadeAsCallsDo) {
  const core::Limit limit = *core::Sliding::make({.count = 20, .period = seconds{100}});
  EXPECT_EQ(ask(limit, seconds{90}, "a", {.wanted = 20, .term = seconds{50}}).lasts, seconds{10});
  const LoanAnswer answer = ask(limit, seconds{150}, "b", {.wanted = 20});
  EXPECT_EQ(answer.lent, 10);
  EXPECT_EQ(answer.outstanding, 10);
}

TEST_F(LedgerTest, SaysWhyALimitIsNotLentFrom) {
  const core::Limit queue = *core::Bucket::make_queue({.count = 1, .period = seconds{1}}, 5, 0);
  const LoanAnswer answer = ask(queue, seconds{0}, "a", {.wanted = 1});
  EXPECT_EQ(answer.kind, SharedAnswer::Kind::misconfigured);
  EXPECT_THAT(answer.error, HasSubstr("a queue cannot be leased"));
}

}  // namespace
}  // namespace weir::store::lease
