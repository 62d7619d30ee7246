// The lease cache without an engine: eviction, deadlines and ages.

#include "store/lease/lease_cache.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace weir::store::lease {
namespace {

constexpr std::uint64_t kMaxIdle = std::uint64_t{1} << 16;  // leases, before idle ones are evicted

Fingerprint key_of(std::uint64_t number) {
  return fingerprint({}, 1, KeyKind::whole, std::to_string(number), false);
}

// Lends all that is wanted, lends nothing, or answers when the test says so.
class FakeStore final : public SharedStore {
 public:
  enum class Mode { lends, refuses, waits };

  void ask(const StoreRequest&, StoreCallback&) override {}
  void request_lease(const LeaseRequest& question, LeaseCallback& borrower) override {
    limit = *question.limit;
    const auto answer = [wanted = question.wanted, &borrower, this] {
      LeaseResponse reply{.kind = StoreResponse::Kind::decided,
                          .lent = mode == Mode::lends ? wanted : 0,
                          .lasts = kTerm};
      borrower.on_lease(reply);
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

struct CountingWaiter final : LeaseWaiter {
  void on_lease_update(const LeaseResponse*) override {
    ++times;
    if (then) then();
  }
  int times = 0;
  std::function<void()> then{};
};

class LeaseCacheTest : public ::testing::Test {
 protected:
  void ask(std::uint64_t key, LeaseWaiter& waiter) {
    leases_.ask(limit_, key_of(key), std::to_string(key), 1, kForever, waiter);
  }
  std::uint64_t count() const { return counts_->keys.get(); }

  FakeStore store_;
  OneNode fleet_;
  Instant now_ = instant(1'700'000'000'000'000'000);
  const core::Limit limit_ = *core::Bucket::make({.count = 10}, 20);
  std::shared_ptr<LeaseCacheCounts> counts_ = std::make_shared<LeaseCacheCounts>();
  std::shared_ptr<RulesInForce> rules_ = std::make_shared<RulesInForce>();
  LeaseCache leases_{
      store_,
      fleet_,
      {.now = [this] { return now_; }, .monotonic = [this] { return now_.time_since_epoch(); }},
      "a",
      counts_,
      rules_};
  CountingWaiter ignored_;
};

TEST_F(LeaseCacheTest, EvictsIdleLeases) {
  store_.mode = FakeStore::Mode::refuses;
  for (std::uint64_t key = 0; key < 3 * kMaxIdle; ++key) ask(key, ignored_);
  EXPECT_LE(count(), kMaxIdle);
}

// If each new key scanned all leases, this test would take far too long.
TEST_F(LeaseCacheTest, KeepsLeasesWithPermits) {
  for (std::uint64_t key = 0; key < 2 * kMaxIdle; ++key) ask(key, ignored_);
  EXPECT_EQ(count(), 2 * kMaxIdle);
  EXPECT_EQ(counts_->held.get(), 2 * kMaxIdle);
}

// The first waiter of a lease requests many others, for which this lease would be evicted: it holds
// no permits and has no pending request.
TEST_F(LeaseCacheTest, KeepsALeaseWhileItsWaitersAreNotified) {
  store_.mode = FakeStore::Mode::refuses;
  for (std::uint64_t key = 1; key < kMaxIdle; ++key) ask(key, ignored_);
  store_.mode = FakeStore::Mode::waits;
  CountingWaiter first;
  CountingWaiter second;
  first.then = [this] {
    store_.mode = FakeStore::Mode::refuses;
    for (std::uint64_t key = kMaxIdle; key < 2 * kMaxIdle; ++key) ask(key, ignored_);
  };
  ask(0, first);
  ask(0, second);
  ASSERT_EQ(store_.waiting.size(), 1u);
  store_.mode = FakeStore::Mode::refuses;
  std::exchange(store_.waiting, {}).front()();
  EXPECT_EQ(first.times, 1);
  EXPECT_EQ(second.times, 1);
}

// A call may wait for another lease while the limit is lowered. If it told the store of the old
// limit, what was spent would drain at the old price.
TEST_F(LeaseCacheTest, BorrowsAheadAtThePresentPriceForACallWithAnOldLimit) {
  rules_->edition = 2;
  const core::Limit lowered = *core::Bucket::make({.count = 1}, 20);
  const auto price = [](const core::Limit& limit) {
    return std::get<core::Bucket>(limit).interval.price;
  };
  for (int i = 0; i < 20; ++i) {
    now_ += std::chrono::milliseconds{10};
    leases_.ask({lowered, nullptr, 2}, key_of(1), "1", 1, kForever, ignored_);
    leases_.spend(*leases_.find(key_of(1)), lowered, 1, now_);
  }
  ASSERT_EQ(price(store_.limit), price(lowered));
  const std::uint64_t asked = counts_->asked.get();
  for (int i = 0; i < 10 && counts_->asked.get() == asked; ++i) {
    now_ += std::chrono::milliseconds{30};
    leases_.spend(*leases_.find(key_of(1)), limit_, 1, now_);
  }
  ASSERT_GT(counts_->asked.get(), asked);
  EXPECT_EQ(price(store_.limit), price(lowered));
}

// ---- Deadlines

TEST_F(LeaseCacheTest, NotifiesAWaiterOnceAtItsDeadline) {
  store_.mode = FakeStore::Mode::waits;
  const Nanos start = now_.time_since_epoch();
  CountingWaiter early;
  CountingWaiter late;
  leases_.ask(limit_, key_of(1), "1", 1, start + std::chrono::milliseconds{20}, early);
  leases_.ask(limit_, key_of(1), "1", 1, start + std::chrono::milliseconds{50}, late);
  EXPECT_EQ(leases_.due_in(), std::chrono::milliseconds{20});
  now_ += std::chrono::milliseconds{20};
  leases_.on_due();
  EXPECT_EQ(early.times, 1);
  EXPECT_EQ(late.times, 0);
  EXPECT_EQ(leases_.due_in(), kForever);
  store_.waiting.front()();
  EXPECT_EQ(early.times, 1);
  EXPECT_EQ(late.times, 1);
}

TEST_F(LeaseCacheTest, IgnoresTheDeadlineOfANotifiedWaiter) {
  store_.mode = FakeStore::Mode::waits;
  CountingWaiter waiter;
  leases_.ask(limit_, key_of(1), "1", 1, now_.time_since_epoch(), waiter);
  store_.waiting.front()();
  EXPECT_EQ(waiter.times, 1);
  leases_.on_due();
  EXPECT_EQ(waiter.times, 1);
}

// ---- Age of spending

// The wall clock is set forward by an hour between the spending and the report.
TEST_F(LeaseCacheTest, DoesNotCountAJumpOfTheWallClockAsAge) {
  Nanos passed{0};
  std::vector<LeaseRequest> asked;
  struct Recording final : SharedStore {
    explicit Recording(std::vector<LeaseRequest>& to) : asked(to) {}
    void ask(const StoreRequest&, StoreCallback&) override {}
    void request_lease(const LeaseRequest& question, LeaseCallback& borrower) override {
      asked.push_back(question);
      LeaseResponse reply{
          .kind = StoreResponse::Kind::decided, .lent = question.wanted, .lasts = kTerm};
      borrower.on_lease(reply);
    }
    Nanos timeout() const override { return std::chrono::milliseconds{50}; }
    std::vector<LeaseRequest>& asked;
  } store(asked);
  LeaseCache cache(store, fleet_,
                   {.now = [this] { return now_; }, .monotonic = [&] { return passed; }}, "a",
                   counts_);
  const auto pass = [&](Nanos time, Nanos set_forward) {
    passed += time;
    now_ += time + set_forward;
  };
  const auto spend_and_ask_again = [&](Nanos set_forward) {
    cache.ask(limit_, key_of(1), "1", 1, kForever, ignored_);
    pass(std::chrono::milliseconds{100}, Nanos{0});
    cache.spend(*cache.find(key_of(1)), limit_, 1, now_);
    pass(std::chrono::milliseconds{128}, set_forward);
    cache.ask(limit_, key_of(1), "1", 1, kForever, ignored_);
    return asked.back().spent_ago;
  };
  EXPECT_EQ(spend_and_ask_again(Nanos{0}), std::chrono::milliseconds{127});
  cache.spend(*cache.find(key_of(1)), limit_, 1, now_);
  EXPECT_EQ(spend_and_ask_again(std::chrono::hours{1}), std::chrono::milliseconds{127});
}

}  // namespace
}  // namespace weir::store::lease
