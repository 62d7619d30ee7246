#include "cli/bench/load_generator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

namespace weir::cli::bench {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A simulated daemon that replies after a microsecond, except during a stall. It serves one request
// at a time, as over a single connection.
class FakeServer {
 public:
  FakeServer(Nanos stall_start, Nanos stall_end) : start_(stall_start), end_(stall_end) {}

  Nanos answer_at(Nanos sent) const {
    const Nanos done = sent + microseconds{1};
    return done > start_ && sent < end_ ? end_ + microseconds{1} : done;
  }

 private:
  Nanos start_;
  Nanos end_;
};

// Runs a plan to its end with one connection and one in flight, as a worker does.
Tally run(const BenchPlan& plan, const FakeServer& server) {
  LoadGenerator load(plan, 0, nullptr);
  Nanos now{0};
  while (!load.over(now)) {
    if (const auto request = load.next(now)) {
      now = server.answer_at(now);
      load.answered(*request, {}, now);
    } else if (load.next_due() == kForever) {
      break;
    } else {
      now = load.next_due();
    }
  }
  load.count_unsent(now);
  return load.tally();
}

BenchPlan one_connection() {
  BenchPlan plan;
  plan.keys = 100;
  plan.connections = 1;
  plan.duration = seconds{10};
  return plan;
}

// A stall of one second in ten: every request that is due in it waits for the rest of it.
TEST(LoadGenerator, CountsTheWaitOfEveryRequestDueInAStallInAnOpenLoop) {
  BenchPlan plan = one_connection();
  plan.rate = 1000;
  const Tally tally = run(plan, {seconds{4}, seconds{5}});
  EXPECT_EQ(tally.answers, 10'000U);
  EXPECT_EQ(tally.unsent, 0U);
  EXPECT_LT(tally.latency.quantile(0.89), milliseconds{2});
  // 1000 of 10000 waited from 1 s down to nothing: 500 of them for more than half a second.
  EXPECT_NEAR(static_cast<double>(tally.latency.quantile(0.95).count()), 0.5e9, 0.01e9);
  EXPECT_NEAR(static_cast<double>(tally.latency.quantile(0.99).count()), 0.9e9, 0.01e9);
  EXPECT_NEAR(static_cast<double>(tally.latency.max().count()), 1e9, 0.002e9);
}

// The same stall shows in one sample only: no further request was sent meanwhile.
TEST(LoadGenerator, CountsAStallOnlyOnceInAClosedLoop) {
  const Tally tally = run(one_connection(), {seconds{4}, seconds{5}});
  EXPECT_GT(tally.answers, 8'000'000U);
  EXPECT_EQ(tally.latency.quantile(0.999), microseconds{1});
  EXPECT_GE(tally.latency.max(), milliseconds{999});
}

TEST(LoadGenerator, CountsTheWaitOfUnsentRequestsUntilTheEnd) {
  BenchPlan plan = one_connection();
  plan.rate = 1000;
  const Tally tally = run(plan, {seconds{9}, seconds{20}});
  EXPECT_EQ(tally.answers + tally.unsent, 10'000U);
  // All requests that were due in the last second, except the one that was sent.
  EXPECT_NEAR(static_cast<double>(tally.unsent), 999, 1);
  // The run ends with the reply at 20 s: the unsent requests have waited for 10 to 11 s.
  EXPECT_GE(tally.latency.quantile(0.95), seconds{10});
}

TEST(LoadGenerator, SchedulesRequestsAtAFixedRateInAnOpenLoop) {
  BenchPlan plan = one_connection();
  plan.rate = 4;
  plan.requests = 5;
  LoadGenerator load(plan, 0, nullptr);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(load.next_due(), milliseconds{250} * i);
    EXPECT_FALSE(load.next(milliseconds{250} * i - Nanos{1}));
    EXPECT_EQ(load.next(milliseconds{250} * i + microseconds{3})->start, milliseconds{250} * i);
  }
  EXPECT_TRUE(load.over(seconds{1}));
  EXPECT_EQ(load.next_due(), kForever);
}

TEST(LoadGenerator, CountsTheLatencyOfALateRequestFromWhenItWasDue) {
  BenchPlan plan = one_connection();
  plan.rate = 1000;
  LoadGenerator load(plan, 0, nullptr);
  for (int i = 0; i <= 500; ++i) {
    const auto request = load.next(milliseconds{500});
    ASSERT_TRUE(request);
    EXPECT_EQ(request->start, milliseconds{i});
    EXPECT_EQ(request->sent, milliseconds{500});
  }
  EXPECT_FALSE(load.next(milliseconds{500}));
}

TEST(LoadGenerator, DividesTheRateAmongThreads) {
  BenchPlan plan = one_connection();
  plan.rate = 1000;
  plan.threads = 3;
  plan.requests = 10;
  std::vector<Nanos> starts;
  for (std::size_t thread = 0; thread < 3; ++thread) {
    LoadGenerator load(plan, thread, nullptr);
    while (const auto request = load.next(seconds{1})) starts.push_back(request->start);
  }
  std::sort(starts.begin(), starts.end());
  ASSERT_EQ(starts.size(), 10U);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(starts[i], milliseconds{i});
}

// A thread that sleeps through the end sends the requests that were due before it, once.
TEST(LoadGenerator, SendsRequestsThatWereDueJustBeforeTheEnd) {
  BenchPlan plan = one_connection();
  plan.rate = 1000;
  plan.duration = milliseconds{10};
  LoadGenerator load(plan, 0, nullptr);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(load.next(milliseconds{i}));
  EXPECT_TRUE(load.next(milliseconds{11}));
  EXPECT_FALSE(load.next(milliseconds{12}));
  load.count_unsent(milliseconds{12});
  EXPECT_EQ(load.tally().unsent, 1U);
}

TEST(LoadGenerator, DoesNotMeasureTheWarmUpButCountsItsTakes) {
  BenchPlan plan = one_connection();
  plan.rate = 1000;
  plan.warmup = milliseconds{100};
  plan.requests = 50;
  TakesPerKey takes_per_key(plan.keys);
  LoadGenerator load(plan, 0, &takes_per_key);
  for (int i = 0; i < 150; ++i) {
    const Nanos now = milliseconds{i};
    const auto request = load.next(now);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->measured, i >= 100);
    load.answered(*request, {}, now);
  }
  EXPECT_FALSE(load.next(milliseconds{150}));
  EXPECT_EQ(load.tally().answers, 50U);
  EXPECT_EQ(load.tally().latency.count(), 50U);
  EXPECT_EQ(load.tally().admitted_ever, 150U);
  std::uint64_t times = 0;
  for (const auto& each : takes_per_key) times += each;
  EXPECT_EQ(times, 150U);
}

TEST(LoadGenerator, CountsRefusalsAsAnswersAndErrorsWithoutLatency) {
  BenchPlan plan = one_connection();
  LoadGenerator load(plan, 0, nullptr);
  const BenchRequest request = *load.next(Nanos{0});
  load.answered(request, {.kind = ReplyKind::refused}, Nanos{5});
  EXPECT_TRUE(load.tally().errors.empty());
  EXPECT_EQ(load.tally().decided[0].refused, 1U);
  load.answered(request, {.kind = ReplyKind::error, .error_kind = "ERR", .text = "ERR no"},
                Nanos{5});
  EXPECT_EQ(load.tally().errors.kinds().at("ERR").example, "ERR no");
  EXPECT_EQ(load.tally().latency.count(), 1U);
}

TEST(LoadGenerator, CountsTheWaitOfTimedOutAndAbandonedRequests) {
  BenchPlan plan = one_connection();
  LoadGenerator load(plan, 0, nullptr);
  const BenchRequest request = *load.next(Nanos{0});
  load.timed_out(request, seconds{10});
  EXPECT_EQ(load.tally().errors.kinds().at("timeout").count, 1U);
  load.abandoned(request, seconds{12});
  EXPECT_EQ(load.tally().unanswered, 1U);
  EXPECT_EQ(load.tally().latency.max(), seconds{12});
  EXPECT_EQ(load.tally().latency.count(), 2U);
}

TEST(LoadGenerator, HasNoFurtherRequestAfterStop) {
  const BenchPlan plan = one_connection();
  LoadGenerator load(plan, 0, nullptr);
  EXPECT_TRUE(load.next(milliseconds{5}));
  load.stop(milliseconds{6});
  EXPECT_FALSE(load.next(milliseconds{6}));
  EXPECT_TRUE(load.over(milliseconds{6}));
}

TEST(LoadGenerator, ChoosesVerbsByTheMixAndKeysUniformly) {
  BenchPlan plan = one_connection();
  plan.mix.parts = {70, 20, 10};
  LoadGenerator load(plan, 0, nullptr);
  std::array<double, 3> verbs{};
  std::vector<double> keys(plan.keys);
  constexpr int count = 100'000;
  for (int i = 0; i < count; ++i) {
    const BenchRequest request = *load.next(Nanos{i});
    ++verbs[static_cast<std::size_t>(request.verb)];
    ++keys.at(request.key);
  }
  EXPECT_NEAR(verbs[0] / count, 0.7, 0.01);
  EXPECT_NEAR(verbs[1] / count, 0.2, 0.01);
  for (const double key : keys) EXPECT_NEAR(key, 1000, 5 * std::sqrt(1000));
}

}  // namespace
}  // namespace weir::cli::bench
