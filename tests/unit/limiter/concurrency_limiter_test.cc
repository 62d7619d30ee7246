#include "weir/concurrency_limiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "threads.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

static_assert(!std::is_copy_constructible_v<Permit>);

TEST(ConcurrencyLimiter, AdmitsCallsUpToItsLimit) {
  ConcurrencyLimiter slots{2};
  const Permit first = slots.try_enter();
  {
    const Permit second = slots.try_enter();
    EXPECT_TRUE(first);
    EXPECT_TRUE(second);
    const Permit third = slots.try_enter();
    EXPECT_FALSE(third);
    EXPECT_EQ(third.decision().outcome, Outcome::limited);
    EXPECT_EQ(third.decision().limit, 2);
    EXPECT_EQ(third.decision().remaining, 0);
    EXPECT_EQ(slots.in_flight_approx(), 2);
  }
  EXPECT_EQ(slots.in_flight_approx(), 1);
  EXPECT_TRUE(slots.try_enter());
}

TEST(ConcurrencyLimiter, CountsSeveralPermitsOfOneCall) {
  ConcurrencyLimiter slots{5};
  const Permit three = slots.try_enter(3);
  EXPECT_EQ(three.decision().remaining, 2);
  EXPECT_FALSE(slots.try_enter(3));
  EXPECT_TRUE(slots.try_enter(2));
}

TEST(ConcurrencyLimiter, ReportsMoreThanItsLimitAsImpossible) {
  ConcurrencyLimiter slots{5};
  for (const Permits permits : {Permits{6}, Permits{-1}}) {
    EXPECT_EQ(slots.try_enter(permits).decision().outcome, Outcome::impossible);
    EXPECT_EQ(slots.try_enter(permits).decision().retry_after, kNever);
    EXPECT_EQ(slots.enter(Deadline::never(), permits).decision().outcome, Outcome::impossible);
  }
  EXPECT_EQ(slots.in_flight_approx(), 0);
}

TEST(ConcurrencyLimiter, AlwaysAdmitsZeroPermits) {
  ConcurrencyLimiter slots{1};
  const Permit all = slots.try_enter();
  EXPECT_TRUE(slots.try_enter(0));
  EXPECT_EQ(slots.in_flight_approx(), 1);
}

TEST(ConcurrencyLimiter, RequiresALimitOfAtLeastOne) {
  EXPECT_THROW(ConcurrencyLimiter{0}, std::invalid_argument);
  ConcurrencyLimiter slots{1};
  EXPECT_THROW(slots.set_limit(0), std::invalid_argument);
  EXPECT_EQ(slots.limit(), 1);
}

TEST(Permit, IsReleasedExactlyOnceByItsOwner) {
  ConcurrencyLimiter slots{2};
  Permit first = slots.try_enter();
  Permit second = slots.try_enter();
  Permit moved = std::move(first);
  first.release();  // NOLINT: moved from
  EXPECT_EQ(slots.in_flight_approx(), 2);
  moved.release();
  moved.release();
  EXPECT_FALSE(moved);
  EXPECT_EQ(slots.in_flight_approx(), 1);
  second = slots.try_enter();  // releases the old permit
  EXPECT_EQ(slots.in_flight_approx(), 1);
  std::jthread elsewhere([taken = std::move(second)] { EXPECT_TRUE(taken); });
  elsewhere.join();
  EXPECT_EQ(slots.in_flight_approx(), 0);
}

TEST(ConcurrencyLimiter, RevokesNoPermitsWhenItsLimitIsLowered) {
  ConcurrencyLimiter slots{3};
  Permit first = slots.try_enter();
  Permit second = slots.try_enter();
  slots.set_limit(1);
  EXPECT_EQ(slots.limit(), 1);
  EXPECT_EQ(slots.try_enter().decision().remaining, 0);
  first.release();
  EXPECT_FALSE(slots.try_enter());
  second.release();
  EXPECT_TRUE(slots.try_enter());
}

// ---- Waiting

TEST(ConcurrencyLimiter, DoesNotWaitWhenAPermitIsFree) {
  ManualClock clock;
  ConcurrencyLimiter slots{1, clock};
  EXPECT_TRUE(slots.enter(Deadline::never()));
  EXPECT_TRUE(slots.enter(Deadline::at(Instant::min())));
}

TEST(ConcurrencyLimiter, WaitsUntilTheDeadline) {
  ManualClock clock;
  ConcurrencyLimiter slots{1, clock};
  const Permit holder = slots.try_enter();
  EXPECT_FALSE(slots.enter(Deadline::at(ManualClock::kStart - 1s)));
  EXPECT_FALSE(slots.enter(Deadline::after(0s)));
  EXPECT_EQ(clock.now(), ManualClock::kStart);
  const Permit waited = slots.enter(Deadline::after(5s));
  EXPECT_EQ(waited.decision().outcome, Outcome::limited);
  EXPECT_EQ(waited.decision().wait, 5s);
  EXPECT_EQ(clock.now(), ManualClock::kStart + 5s);
}

// Threads that queue for a limiter in a known order.
class Queue {
 public:
  explicit Queue(Permits limit) : slots(limit, clock) {}

  // Starts a thread that enters, and returns once it waits.
  void join(int name, Deadline deadline = Deadline::never(), Permits permits = 1) {
    threads_.emplace_back([=, this](const std::stop_token& stop) {
      const Permit permit = slots.enter(deadline, permits, stop);
      const std::lock_guard lock(mutex_);
      (permit ? admitted_ : refused_).push_back(name);
    });
    clock.await_sleepers(threads_.size() - gone_);
  }
  void stop(std::size_t thread) {
    threads_[thread].request_stop();
    threads_[thread].join();
    ++gone_;
  }
  void all_done() { threads_.clear(); }

  // Valid after all_done().
  const std::vector<int>& admitted() const { return admitted_; }
  const std::vector<int>& refused() const { return refused_; }

  ManualClock clock{ManualClock::Sleepers::wait_for_others};
  ConcurrencyLimiter slots;

 private:
  std::mutex mutex_;
  std::vector<int> admitted_;
  std::vector<int> refused_;
  std::size_t gone_ = 0;
  std::vector<std::jthread> threads_;
};

TEST(ConcurrencyLimiter, AdmitsWaitingCallersInFifoOrder) {
  Queue queue{1};
  Permit holder = queue.slots.try_enter();
  for (int name = 0; name < 5; ++name) queue.join(name);
  holder.release();
  queue.all_done();
  EXPECT_THAT(queue.admitted(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(queue.slots.in_flight_approx(), 0);
}

// While a caller waits for all permits, a free permit is not given to later callers.
TEST(ConcurrencyLimiter, DoesNotLetLaterCallersOvertake) {
  Queue queue{3};
  Permit holder = queue.slots.try_enter(2);
  queue.join(0, Deadline::never(), 3);
  EXPECT_FALSE(queue.slots.try_enter());
  EXPECT_EQ(queue.slots.try_enter().decision().remaining, 0);
  EXPECT_TRUE(queue.slots.try_enter(0));
  queue.join(1);
  EXPECT_EQ(queue.slots.in_flight_approx(), 2);
  holder.release();
  queue.all_done();
  EXPECT_THAT(queue.admitted(), ElementsAre(0, 1));
}

TEST(ConcurrencyLimiter, AdmitsCallersBehindOneThatGivesUp) {
  Queue queue{3};
  const Permit holder = queue.slots.try_enter(2);
  queue.join(0, Deadline::after(1s), 3);
  queue.join(1);
  queue.clock.advance(1s);
  queue.all_done();
  EXPECT_THAT(queue.refused(), ElementsAre(0));
  EXPECT_THAT(queue.admitted(), ElementsAre(1));
}

TEST(ConcurrencyLimiter, AdmitsCallersBehindOneThatIsStopped) {
  Queue queue{3};
  const Permit holder = queue.slots.try_enter(2);
  queue.join(0, Deadline::never(), 3);
  queue.join(1, Deadline::never(), 2);
  queue.stop(1);
  queue.join(2);
  queue.stop(0);
  queue.all_done();
  EXPECT_THAT(queue.refused(), ElementsAre(1, 0));
  EXPECT_THAT(queue.admitted(), ElementsAre(2));
}

TEST(ConcurrencyLimiter, RefusesACallerThatWasAlreadyStopped) {
  ConcurrencyLimiter slots{1};
  std::stop_source stopped;
  stopped.request_stop();
  const Permit none = slots.enter(Deadline::never(), 1, stopped.get_token());
  EXPECT_EQ(none.decision().outcome, Outcome::limited);
  EXPECT_EQ(slots.in_flight_approx(), 0);
}

TEST(ConcurrencyLimiter, AdmitsWaitingCallersWhenItsLimitIsRaised) {
  Queue queue{1};
  const Permit holder = queue.slots.try_enter();
  queue.join(0);
  queue.join(1);
  queue.slots.set_limit(3);
  queue.all_done();
  EXPECT_EQ(queue.admitted().size(), 2u);
}

// Otherwise the callers behind would wait for one that can never be admitted.
TEST(ConcurrencyLimiter, RefusesWaitingCallersThatNeedMoreThanALoweredLimit) {
  Queue queue{4};
  const Permit holder = queue.slots.try_enter();
  queue.join(0, Deadline::never(), 4);
  queue.join(1);
  queue.slots.set_limit(2);
  queue.all_done();
  EXPECT_THAT(queue.refused(), ElementsAre(0));
  EXPECT_THAT(queue.admitted(), ElementsAre(1));
}

TEST(ConcurrencyLimiter, ReportsTheTimeWaited) {
  ManualClock clock{ManualClock::Sleepers::wait_for_others};
  ConcurrencyLimiter slots{1, clock};
  Permit holder = slots.try_enter();
  Nanos waited{0};
  {
    std::jthread waiter([&] { waited = slots.enter(Deadline::after(5s)).decision().wait; });
    clock.await_sleepers(1);
    clock.advance(3s);
    holder.release();
  }
  EXPECT_EQ(waited, 3s);
}

// If a user's clock throws, the caller leaves the queue and no permit is lost.
TEST(ConcurrencyLimiter, SurvivesAClockThatThrows) {
  struct Broken final : Clock {
    Instant now() const noexcept override { return ManualClock::kStart; }
    bool sleep_until(Instant, std::stop_token) const override {
      if (holder != nullptr) holder->release();
      throw std::runtime_error("broken");
    }
    Permit* holder = nullptr;
  } clock;
  ConcurrencyLimiter slots{1, clock};
  Permit holder = slots.try_enter();
  EXPECT_THROW((void)slots.enter(Deadline::after(1s)), std::runtime_error);
  clock.holder = &holder;  // the waiter is admitted, and then its clock fails
  EXPECT_THROW((void)slots.enter(Deadline::after(1s)), std::runtime_error);
  EXPECT_EQ(slots.in_flight_approx(), 0);
  EXPECT_TRUE(slots.try_enter());
}

// ---- Under any interleaving of threads

TEST(ConcurrencyLimiter, NeverExceedsItsLimit) {
  constexpr Permits limit = 3;
  ConcurrencyLimiter slots{limit};
  std::atomic<Permits> inside{0};
  std::atomic<Permits> most{0};
  std::atomic<int> entered{0};
  together(6, [&](int thread) {
    for (int i = 0; i < 300; ++i) {
      const Permits permits = 1 + (thread + i) % 2;
      const Permit permit =
          thread == 0 ? slots.try_enter(permits) : slots.enter(Deadline::never(), permits);
      if (!permit) continue;
      ++entered;
      const Permits now = inside += permits;
      Permits seen = most;
      while (seen < now && !most.compare_exchange_weak(seen, now)) {
      }
      inside -= permits;
    }
  });
  EXPECT_LE(most, limit);
  EXPECT_GE(entered, 5 * 300);
  EXPECT_EQ(slots.in_flight_approx(), 0);
}

// Deadlines and stops race with permits that are released.
TEST(ConcurrencyLimiter, LosesNoPermitToCallersThatGiveUp) {
  ManualClock clock{ManualClock::Sleepers::wait_for_others};
  ConcurrencyLimiter slots{2, clock};
  together(5, [&](int thread) {
    for (int i = 0; i < 200; ++i) {
      if (thread == 0) {
        clock.advance(1ms);
        continue;
      }
      std::stop_source source;
      const auto enter = [&] {
        const Permit permit = slots.enter(Deadline::after(1ms * (i % 3)), 1, source.get_token());
        std::this_thread::yield();
      };
      std::jthread waiter(enter);
      source.request_stop();
    }
  });
  EXPECT_EQ(slots.in_flight_approx(), 0);
  EXPECT_TRUE(slots.try_enter(2));
}

}  // namespace
}  // namespace weir
