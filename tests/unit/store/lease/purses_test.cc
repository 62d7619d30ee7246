// Purses without an engine: what happens when there are many of them.

#include "store/lease/purses.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace weir::store::lease {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 16;  // purses, before they make room

Fingerprint key_of(std::uint64_t number) {
  return fingerprint({}, 1, KeyKind::whole, std::to_string(number), false);
}

// Lends all that is wanted, nothing, or answers when told to.
class FakeStore final : public SharedStore {
 public:
  enum class Mode { lends, refuses, waits };

  void ask(const SharedQuestion&, Asker&) override {}
  void borrow(const LoanQuestion& question, Borrower& borrower) override {
    limit = *question.limit;
    const auto answer = [wanted = question.wanted, &borrower, this] {
      LoanAnswer told{.kind = SharedAnswer::Kind::decided,
                      .lent = mode == Mode::lends ? wanted : 0,
                      .lasts = kTerm};
      borrower.on_loan(told);
    };
    if (mode == Mode::waits) {
      waiting.push_back(answer);
    } else {
      answer();
    }
  }
  Nanos timeout() const override { return std::chrono::milliseconds{50}; }

  Mode mode = Mode::lends;
  core::Limit limit{};  // of the last question
  std::vector<std::function<void()>> waiting;
};

class OneNode final : public Fleet {
 public:
  std::unique_ptr<Link> connect() override { return nullptr; }
};

struct Told final : Waiter {
  void on_purse(const LoanAnswer*) override {
    ++times;
    if (then) then();
  }
  int times = 0;
  std::function<void()> then{};
};

class PursesTest : public ::testing::Test {
 protected:
  void ask(std::uint64_t key, Waiter& waiter) {
    purses_.ask(limit_, key_of(key), std::to_string(key), 1, kForever, waiter);
  }
  std::uint64_t count() const { return counts_->keys.get(); }

  FakeStore store_;
  OneNode fleet_;
  Instant now_ = instant(1'700'000'000'000'000'000);
  const core::Limit limit_ = *core::Bucket::make({.count = 10}, 20);
  std::shared_ptr<PurseCounts> counts_ = std::make_shared<PurseCounts>();
  std::shared_ptr<RulesInForce> rules_ = std::make_shared<RulesInForce>();
  Purses purses_{
      store_,
      fleet_,
      {.now = [this] { return now_; }, .passed = [this] { return now_.time_since_epoch(); }},
      "a",
      counts_,
      rules_};
  Told nobody_;
};

TEST_F(PursesTest, PursesThatHoldNothingMakeRoom) {
  store_.mode = FakeStore::Mode::refuses;
  for (std::uint64_t key = 0; key < 3 * kMost; ++key) ask(key, nobody_);
  EXPECT_LE(count(), kMost);
}

// (As long as it would take to look at all of them for each new key, nobody waits for this test.)
TEST_F(PursesTest, PursesThatHoldSomethingStay) {
  for (std::uint64_t key = 0; key < 2 * kMost; ++key) ask(key, nobody_);
  EXPECT_EQ(count(), 2 * kMost);
  EXPECT_EQ(counts_->held.get(), 2 * kMost);
}

// The first of those who wait for a purse needs others, for which this one would make room: it
// holds nothing, and nothing is asked for it at the moment.
TEST_F(PursesTest, APurseWhoseWaitersAreBeingToldStays) {
  store_.mode = FakeStore::Mode::refuses;
  for (std::uint64_t key = 1; key < kMost; ++key) ask(key, nobody_);
  store_.mode = FakeStore::Mode::waits;
  Told first;
  Told second;
  first.then = [this] {
    store_.mode = FakeStore::Mode::refuses;
    for (std::uint64_t key = kMost; key < 2 * kMost; ++key) ask(key, nobody_);
  };
  ask(0, first);
  ask(0, second);
  ASSERT_EQ(store_.waiting.size(), 1u);
  store_.mode = FakeStore::Mode::refuses;
  std::exchange(store_.waiting, {}).front()();
  EXPECT_EQ(first.times, 1);
  EXPECT_EQ(second.times, 1);
}

// A call may wait for another purse while the limit is lowered. If it told the store of the old
// limit, what was spent would drain at the old price.
TEST_F(PursesTest, BorrowsAheadAtThePresentPriceForACallWithAnOldLimit) {
  rules_->edition = 2;
  const core::Limit lowered = *core::Bucket::make({.count = 1}, 20);
  const auto price = [](const core::Limit& limit) {
    return std::get<core::Bucket>(limit).pace.price;
  };
  for (int i = 0; i < 20; ++i) {
    now_ += std::chrono::milliseconds{10};
    purses_.ask({lowered, nullptr, 2}, key_of(1), "1", 1, kForever, nobody_);
    purses_.spend(*purses_.find(key_of(1)), lowered, 1, now_);
  }
  ASSERT_EQ(price(store_.limit), price(lowered));
  const std::uint64_t asked = counts_->asked.get();
  for (int i = 0; i < 10 && counts_->asked.get() == asked; ++i) {
    now_ += std::chrono::milliseconds{30};
    purses_.spend(*purses_.find(key_of(1)), limit_, 1, now_);
  }
  ASSERT_GT(counts_->asked.get(), asked);
  EXPECT_EQ(price(store_.limit), price(lowered));
}

// ---- Deadlines

TEST_F(PursesTest, AWaiterIsToldOnceAtItsDeadline) {
  store_.mode = FakeStore::Mode::waits;
  const Nanos start = now_.time_since_epoch();
  Told hasty;
  Told patient;
  purses_.ask(limit_, key_of(1), "1", 1, start + std::chrono::milliseconds{20}, hasty);
  purses_.ask(limit_, key_of(1), "1", 1, start + std::chrono::milliseconds{50}, patient);
  EXPECT_EQ(purses_.due_in(), std::chrono::milliseconds{20});
  now_ += std::chrono::milliseconds{20};
  purses_.on_due();
  EXPECT_EQ(hasty.times, 1);
  EXPECT_EQ(patient.times, 0);
  EXPECT_EQ(purses_.due_in(), kForever);
  store_.waiting.front()();
  EXPECT_EQ(hasty.times, 1);
  EXPECT_EQ(patient.times, 1);
}

TEST_F(PursesTest, ADeadlineOfAWaiterThatHasBeenToldIsForgotten) {
  store_.mode = FakeStore::Mode::waits;
  Told waiter;
  purses_.ask(limit_, key_of(1), "1", 1, now_.time_since_epoch(), waiter);
  store_.waiting.front()();
  EXPECT_EQ(waiter.times, 1);
  purses_.on_due();
  EXPECT_EQ(waiter.times, 1);
}

// ---- How long ago something was spent

// The wall clock is set forward by an hour between the spending and the report.
TEST_F(PursesTest, AWallClockThatIsSetForwardIsNoAgeOfSpending) {
  Nanos passed{0};
  std::vector<LoanQuestion> asked;
  struct Recording final : SharedStore {
    explicit Recording(std::vector<LoanQuestion>& to) : asked(to) {}
    void ask(const SharedQuestion&, Asker&) override {}
    void borrow(const LoanQuestion& question, Borrower& borrower) override {
      asked.push_back(question);
      LoanAnswer told{.kind = SharedAnswer::Kind::decided, .lent = question.wanted, .lasts = kTerm};
      borrower.on_loan(told);
    }
    Nanos timeout() const override { return std::chrono::milliseconds{50}; }
    std::vector<LoanQuestion>& asked;
  } store(asked);
  Purses purses(store, fleet_, {.now = [this] { return now_; }, .passed = [&] { return passed; }},
                "a", counts_);
  const auto pass = [&](Nanos time, Nanos set_forward) {
    passed += time;
    now_ += time + set_forward;
  };
  const auto spend_and_ask_again = [&](Nanos set_forward) {
    purses.ask(limit_, key_of(1), "1", 1, kForever, nobody_);
    pass(std::chrono::milliseconds{100}, Nanos{0});
    purses.spend(*purses.find(key_of(1)), limit_, 1, now_);
    pass(std::chrono::milliseconds{128}, set_forward);
    purses.ask(limit_, key_of(1), "1", 1, kForever, nobody_);
    return asked.back().spent_ago;
  };
  EXPECT_EQ(spend_and_ask_again(Nanos{0}), std::chrono::milliseconds{127});
  purses.spend(*purses.find(key_of(1)), limit_, 1, now_);
  EXPECT_EQ(spend_and_ask_again(std::chrono::hours{1}), std::chrono::milliseconds{127});
}

}  // namespace
}  // namespace weir::store::lease
