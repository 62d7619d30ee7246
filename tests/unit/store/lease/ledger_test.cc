// Examples with numbers. Invariants for random requests are in tests/property/lease_test.cc; the
// comparison with the script on Redis is in tests/property/lease_script_test.cc.

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

class LeaseLedger : public ::testing::Test {
 protected:
  Instant at(Nanos passed) const { return start_ + passed; }

  // Sends a new request with default values.
  LeaseResponse ask(const core::Limit& limit, Nanos passed, std::string_view borrower,
                    LeaseRequest question) {
    question.borrower = borrower;
    if (question.number == 0) question.number = ++questions_;
    if (question.term == Nanos{0}) question.term = seconds{10};
    return lend(limit, ledger_, at(passed), question);
  }
  Permits remaining(const core::Limit& limit, Nanos passed) {
    return ask(limit, passed, "observer", {}).remaining;
  }

  const Instant start_ = instant(1'700'000'000'000'000'000);
  const core::Limit bucket_ = *core::Bucket::make({.count = 10, .period = seconds{1}}, 20);
  const core::Limit window_ = *core::Window::make({.count = 20, .period = seconds{100}}, false);
  Ledger ledger_{};
  std::uint64_t questions_ = 0;
};

// ---- A bucket: 10/s, burst 20

TEST_F(LeaseLedger, LendsAllThatIsWanted) {
  const LeaseResponse answer = ask(bucket_, seconds{0}, "a", {.least = 1, .wanted = 8});
  EXPECT_EQ(answer.kind, StoreResponse::Kind::decided);
  EXPECT_EQ(answer.lent, 8);
  EXPECT_EQ(answer.kept, 0);
  EXPECT_EQ(answer.lasts, seconds{10});
  EXPECT_EQ(answer.remaining, 12);
  EXPECT_EQ(answer.outstanding, 8);
  EXPECT_EQ(answer.retry_after, Nanos{0});
  EXPECT_EQ(answer.reset_after, milliseconds{800});
}

TEST_F(LeaseLedger, LendsAllThatIsAvailable) {
  EXPECT_EQ(ask(bucket_, seconds{0}, "a", {.least = 1, .wanted = 15}).lent, 15);
  EXPECT_EQ(ask(bucket_, seconds{0}, "b", {.least = 1, .wanted = 15}).lent, 5);
}

TEST_F(LeaseLedger, LendsNothingBelowTheMinimum) {
  ask(bucket_, seconds{0}, "a", {.wanted = 15});
  const LeaseResponse answer = ask(bucket_, seconds{0}, "b", {.least = 6, .wanted = 15});
  EXPECT_EQ(answer.lent, 0);
  EXPECT_EQ(answer.remaining, 5);
  EXPECT_THAT(ledger_.loans, SizeIs(1));
}

// The limit was 1/s when the permits were spent, and became 10/s half a second ago.
TEST_F(LeaseLedger, DrainsAtThePresentPriceOnlySinceThatIsInForce) {
  const core::Bucket slow = *core::Bucket::make({.count = 1, .period = seconds{1}}, 20);
  core::PriceTimeline prices;
  const core::Limit fast =
      prices.change(std::get<core::Bucket>(bucket_), slow, at(milliseconds{1'500}));
  EXPECT_EQ(ask(core::Limit{slow}, seconds{0}, "a", {.wanted = 20}).lent, 20);
  // The conversion by a node that knows when the limit changed.
  ledger_.state = state_under_current_limit(std::get<core::Bucket>(fast), ledger_.state,
                                            at(seconds{2}), &prices);
  const LeaseResponse answer =
      ask(fast, seconds{2}, "a", {.spent_ago = seconds{2}, .history = &prices});
  EXPECT_EQ(answer.remaining, 4);  // 5 would be available within a microsecond
}

// While 15 are lent, at most 5 remain for others. The lease ends at 10 s, and 100 ms later there is
// room for one more.
TEST_F(LeaseLedger, OccupiesTheBucketUntilTheLeaseEnds) {
  ask(bucket_, seconds{0}, "a", {.wanted = 15});
  EXPECT_EQ(remaining(bucket_, seconds{9}), 5);
  const LeaseResponse refused = ask(bucket_, seconds{9}, "b", {.least = 6, .wanted = 6});
  EXPECT_EQ(refused.retry_after, milliseconds{1100});
  EXPECT_EQ(remaining(bucket_, milliseconds{10'099}), 5);
  EXPECT_EQ(ask(bucket_, milliseconds{10'100}, "b", {.least = 6, .wanted = 6}).lent, 6);
}

TEST_F(LeaseLedger, DrainsSpentPermitsFromTheReport) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  const LeaseResponse told = ask(bucket_, seconds{5}, "a", {.held = 8});
  EXPECT_EQ(told.kept, 8);
  EXPECT_EQ(told.outstanding, 8);
  EXPECT_EQ(told.remaining, 0);
  EXPECT_EQ(remaining(bucket_, milliseconds{5'500}), 5);
  EXPECT_EQ(remaining(bucket_, seconds{9}), 12);
}

// Spent at 1 s, reported at 2 s: ten have drained since. Permits lent to others stay occupied.
TEST_F(LeaseLedger, DrainsSpentPermitsFromTheReportedAge) {
  ask(bucket_, seconds{0}, "a", {.wanted = 12});
  ask(bucket_, seconds{0}, "b", {.wanted = 8});
  EXPECT_EQ(ask(bucket_, seconds{2}, "a", {.spent_ago = seconds{1}}).remaining, 10);
  EXPECT_EQ(remaining(bucket_, seconds{9}), 12);
}

TEST_F(LeaseLedger, DoesNotDrainHeldPermitsByTheReportedAge) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(bucket_, seconds{5}, "a", {.held = 15, .spent_ago = seconds{5}}).remaining, 5);
}

// The lease ends at 10 s, and its permits were spent by 9 s.
TEST_F(LeaseLedger, DrainsPermitsSpentBeforeTheLeaseEndedFromTheReportedAge) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(bucket_, milliseconds{10'500}, "a", {.spent_ago = milliseconds{1'500}}).remaining,
            14);
}

// No permit drains before it was lent.
TEST_F(LeaseLedger, LimitsTheReportedAgeToThatOfTheLease) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(bucket_, seconds{1}, "a", {.spent_ago = seconds{100}}).remaining, 10);
}

TEST_F(LeaseLedger, DoesNotRefillAWindowByTheReportedAge) {
  ask(window_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(window_, seconds{5}, "a", {.spent_ago = seconds{5}}).remaining, 0);
}

TEST_F(LeaseLedger, MakesReturnedPermitsAvailableAtOnce) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  const LeaseResponse answer = ask(bucket_, seconds{5}, "a", {.held = 3, .returned = 10});
  EXPECT_EQ(answer.remaining, 10);
  EXPECT_EQ(answer.outstanding, 3);
}

TEST_F(LeaseLedger, RenewsTheLeaseWithEachRequest) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(bucket_, seconds{9}, "a", {.held = 20}).lasts, seconds{10});
  EXPECT_EQ(remaining(bucket_, seconds{18}), 0);
}

// A borrower that misses the answer with a shorter lease spends until the end that it knows.
TEST_F(LeaseLedger, NeverShortensALease) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(bucket_, seconds{1}, "a", {.held = 20, .term = seconds{2}}).lasts, seconds{9});
  EXPECT_EQ(remaining(bucket_, seconds{9}), 0);
}

// The first lease ends at 2 s, when 20 were outstanding; the second at 4 s, when 10 were. At 4 s
// the debt is that of the ten.
TEST_F(LeaseLedger, EndsLeasesInTheirOrder) {
  ask(bucket_, seconds{0}, "a", {.wanted = 10, .term = seconds{2}});
  ask(bucket_, seconds{0}, "b", {.wanted = 10, .term = seconds{4}});
  EXPECT_EQ(remaining(bucket_, milliseconds{4'500}), 15);
  EXPECT_THAT(ledger_.loans, IsEmpty());
}

TEST_F(LeaseLedger, AnswersARepeatedRequestAsBefore) {
  const LeaseRequest question{.number = 7, .held = -2, .wanted = 5};
  const LeaseResponse first = ask(bucket_, seconds{0}, "a", question);
  const LeaseResponse second = ask(bucket_, seconds{4}, "a", question);
  EXPECT_EQ(second.lent, 5);
  EXPECT_EQ(second.kept, 0);
  EXPECT_EQ(first.lasts, seconds{10});
  EXPECT_EQ(second.lasts, seconds{6});
  EXPECT_EQ(second.outstanding, 5);
  EXPECT_EQ(remaining(bucket_, seconds{4}), 15);
}

TEST_F(LeaseLedger, TracksRequestNumbersPerBorrower) {
  EXPECT_EQ(ask(bucket_, seconds{0}, "a", {.number = 7, .wanted = 5}).lent, 5);
  EXPECT_EQ(ask(bucket_, seconds{0}, "b", {.number = 7, .wanted = 9}).lent, 9);
}

TEST_F(LeaseLedger, ChargesOverspentPermits) {
  EXPECT_EQ(ask(bucket_, seconds{0}, "a", {.held = -25}).remaining, 0);
  EXPECT_EQ(ask(bucket_, milliseconds{500}, "a", {.wanted = 1}).retry_after, milliseconds{100});
  EXPECT_EQ(remaining(bucket_, milliseconds{600}), 1);
}

TEST_F(LeaseLedger, LendsHeldPermitsAgainAfterItsDataWasLost) {
  const LeaseResponse answer = ask(bucket_, seconds{0}, "a", {.held = 12, .wanted = 2});
  EXPECT_EQ(answer.kept, 12);
  EXPECT_EQ(answer.lent, 2);
  EXPECT_EQ(answer.outstanding, 14);
  EXPECT_EQ(answer.remaining, 6);
}

// Some of the permits have been lent to others by then.
TEST_F(LeaseLedger, LendsHeldPermitsAgainOnlyAsFarAsTheyAreAvailable) {
  ask(bucket_, seconds{0}, "b", {.wanted = 15});
  const LeaseResponse answer = ask(bucket_, seconds{0}, "a", {.held = 12, .wanted = 2});
  EXPECT_EQ(answer.kept, 5);
  EXPECT_EQ(answer.lent, 0);
  EXPECT_EQ(answer.outstanding, 20);
}

TEST_F(LeaseLedger, RefusesReturnsOfPermitsThatCountAsSpent) {
  ask(bucket_, seconds{0}, "a", {.wanted = 20, .term = seconds{1}});
  EXPECT_EQ(ask(bucket_, milliseconds{1'500}, "a", {.returned = 20}).remaining, 5);
}

TEST_F(LeaseLedger, ReportsRequestsThatCanNeverBeMet) {
  EXPECT_EQ(ask(bucket_, seconds{0}, "a", {.least = 21, .wanted = 21}).retry_after, core::kNever);
  EXPECT_EQ(ask(window_, seconds{0}, "a", {.least = 21, .wanted = 21}).retry_after, core::kNever);
}

TEST_F(LeaseLedger, KeepsLeasesWhenAKeyIsReset) {
  for (const core::Limit* limit : {&bucket_, &window_}) {
    ledger_ = {};
    ask(*limit, seconds{0}, "a", {.wanted = 15});
    ledger_.state = {};
    EXPECT_EQ(remaining(*limit, seconds{0}), 5);
  }
}

// 20 permits lent of 20/2s are 20 of the 30 permits of 30/s.
TEST_F(LeaseLedger, KeepsTheNumberOfLentPermitsWhenThePriceChanges) {
  const core::Limit other = *core::Bucket::make({.count = 30, .period = seconds{1}}, 30);
  ask(bucket_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(remaining(other, seconds{1}), 10);
}

// ---- Windows of 100 s with a count of 20; the first one begins at the start of the test

TEST_F(LeaseLedger, EndsLeasesOfAWindowWithIt) {
  const LeaseResponse first = ask(window_, seconds{95}, "a", {.wanted = 12});
  EXPECT_EQ(first.lent, 12);
  EXPECT_EQ(first.lasts, seconds{5});
  EXPECT_EQ(first.remaining, 8);
  const LeaseResponse next = ask(window_, seconds{101}, "a", {.held = 9, .wanted = 20});
  EXPECT_EQ(next.kept, 0);
  EXPECT_EQ(next.lent, 20);
  EXPECT_EQ(next.outstanding, 20);
}

TEST_F(LeaseLedger, LendsPermitsReturnedToAWindowAgain) {
  ask(window_, seconds{0}, "a", {.wanted = 20});
  const LeaseResponse refused = ask(window_, seconds{1}, "b", {.wanted = 1});
  EXPECT_EQ(refused.lent, 0);
  EXPECT_EQ(refused.retry_after, seconds{99});
  ask(window_, seconds{2}, "a", {.held = 5, .returned = 5});
  EXPECT_EQ(ask(window_, seconds{3}, "b", {.wanted = 9}).lent, 5);
}

TEST_F(LeaseLedger, CountsLeasesThatEndWithinAWindowAsUsed) {
  ask(window_, seconds{0}, "a", {.wanted = 20});
  EXPECT_EQ(ask(window_, seconds{11}, "a", {.returned = 20}).remaining, 0);
  EXPECT_EQ(remaining(window_, seconds{99}), 0);
  EXPECT_EQ(remaining(window_, seconds{100}), 20);
}

TEST_F(LeaseLedger, OpensAWindowFromTheFirstCallWithALease) {
  const core::Limit limit = *core::Window::make({.count = 20, .period = seconds{100}}, true);
  EXPECT_EQ(ask(limit, seconds{30}, "a", {.wanted = 12, .term = seconds{1000}}).lasts,
            seconds{100});
  EXPECT_EQ(remaining(limit, seconds{129}), 8);
  EXPECT_EQ(remaining(limit, seconds{130}), 20);
}

// Half a window later, half of the permits lent in the previous one still count.
TEST_F(LeaseLedger, WeightsLeasesOfASlidingWindowLikeCalls) {
  const core::Limit limit = *core::SlidingCounter::make({.count = 20, .period = seconds{100}});
  EXPECT_EQ(ask(limit, seconds{90}, "a", {.wanted = 20, .term = seconds{50}}).lasts, seconds{10});
  const LeaseResponse answer = ask(limit, seconds{150}, "b", {.wanted = 20});
  EXPECT_EQ(answer.lent, 10);
  EXPECT_EQ(answer.outstanding, 10);
}

TEST_F(LeaseLedger, ReportsWhyALimitCannotBeLeased) {
  const core::Limit queue = *core::Bucket::make_queue({.count = 1, .period = seconds{1}}, 5, 0);
  const LeaseResponse answer = ask(queue, seconds{0}, "a", {.wanted = 1});
  EXPECT_EQ(answer.kind, StoreResponse::Kind::misconfigured);
  EXPECT_THAT(answer.error, HasSubstr("a queue cannot be leased"));
}

}  // namespace
}  // namespace weir::store::lease
