#include "cli/bench/load.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

namespace weir::cli::bench {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A daemon on a clock of its own that needs a microsecond for an answer, but stands still for a
// while: nobody is answered then. One at a time, as a single connection has it.
class FakeServer {
 public:
  FakeServer(Nanos stall_start, Nanos stall_end) : start_(stall_start), end_(stall_end) {}

  Nanos answer_at(Nanos asked) const {
    const Nanos done = asked + microseconds{1};
    return done > start_ && asked < end_ ? end_ + microseconds{1} : done;
  }

 private:
  Nanos start_;
  Nanos end_;
};

// Runs a plan to its end with one connection and one in flight, as a worker does.
Tally run(const Plan& plan, const FakeServer& server) {
  Load load(plan, 0, nullptr);
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

Plan one_connection() {
  Plan plan;
  plan.keys = 100;
  plan.connections = 1;
  plan.duration = seconds{10};
  return plan;
}

// A second of ten: everybody who was due in it waited for the rest of it.
TEST(Load, InAnOpenLoopAStallShowsWithAllWhomItKeptWaiting) {
  Plan plan = one_connection();
  plan.rate = 1000;
  const Tally tally = run(plan, {seconds{4}, seconds{5}});
  EXPECT_EQ(tally.answers, 10'000U);
  EXPECT_EQ(tally.unsent, 0U);
  EXPECT_LT(tally.latency.at(0.89), milliseconds{2});
  // 1000 of 10000 waited from 1 s down to nothing: 500 of them for more than half a second.
  EXPECT_NEAR(static_cast<double>(tally.latency.at(0.95).count()), 0.5e9, 0.01e9);
  EXPECT_NEAR(static_cast<double>(tally.latency.at(0.99).count()), 0.9e9, 0.01e9);
  EXPECT_NEAR(static_cast<double>(tally.latency.max().count()), 1e9, 0.002e9);
}

// The same stall: only one request was there to see it.
TEST(Load, InAClosedLoopAStallHidesBehindThoseWhoAreNotAsked) {
  const Tally tally = run(one_connection(), {seconds{4}, seconds{5}});
  EXPECT_GT(tally.answers, 8'000'000U);
  EXPECT_EQ(tally.latency.at(0.999), microseconds{1});
  EXPECT_GE(tally.latency.max(), milliseconds{999});
}

TEST(Load, WhatIsStillWaitingAtTheEndHasWaitedThatLong) {
  Plan plan = one_connection();
  plan.rate = 1000;
  const Tally tally = run(plan, {seconds{9}, seconds{20}});
  EXPECT_EQ(tally.answers + tally.unsent, 10'000U);
  // All that were due in the last second but the one that was sent.
  EXPECT_NEAR(static_cast<double>(tally.unsent), 999, 1);
  // The end was when the answer came: they are known to have waited from ten to eleven seconds.
  EXPECT_GE(tally.latency.at(0.95), seconds{10});
}

TEST(Load, InAnOpenLoopRequestsAreDueAtAFixedPace) {
  Plan plan = one_connection();
  plan.rate = 4;
  plan.requests = 5;
  Load load(plan, 0, nullptr);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(load.next_due(), milliseconds{250} * i);
    EXPECT_FALSE(load.next(milliseconds{250} * i - Nanos{1}));
    EXPECT_EQ(load.next(milliseconds{250} * i + microseconds{3})->start, milliseconds{250} * i);
  }
  EXPECT_TRUE(load.over(seconds{1}));
  EXPECT_EQ(load.next_due(), kForever);
}

TEST(Load, WhatIsLateIsSentLateAndCountsFromWhenItWasDue) {
  Plan plan = one_connection();
  plan.rate = 1000;
  Load load(plan, 0, nullptr);
  for (int i = 0; i <= 500; ++i) {
    const auto request = load.next(milliseconds{500});
    ASSERT_TRUE(request);
    EXPECT_EQ(request->start, milliseconds{i});
    EXPECT_EQ(request->sent, milliseconds{500});
  }
  EXPECT_FALSE(load.next(milliseconds{500}));
}

TEST(Load, OfSeveralThreadsTakeTurnsAndTogetherKeepTheRate) {
  Plan plan = one_connection();
  plan.rate = 1000;
  plan.threads = 3;
  plan.requests = 10;
  std::vector<Nanos> starts;
  for (std::size_t thread = 0; thread < 3; ++thread) {
    Load load(plan, thread, nullptr);
    while (const auto request = load.next(seconds{1})) starts.push_back(request->start);
  }
  std::sort(starts.begin(), starts.end());
  ASSERT_EQ(starts.size(), 10U);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(starts[i], milliseconds{i});
}

// A thread that sleeps through the end sends what fell due before it, once.
TEST(Load, WhatFellDueJustBeforeTheEndIsSent) {
  Plan plan = one_connection();
  plan.rate = 1000;
  plan.duration = milliseconds{10};
  Load load(plan, 0, nullptr);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(load.next(milliseconds{i}));
  EXPECT_TRUE(load.next(milliseconds{11}));
  EXPECT_FALSE(load.next(milliseconds{12}));
  load.count_unsent(milliseconds{12});
  EXPECT_EQ(load.tally().unsent, 1U);
}

TEST(Load, TheWarmUpIsNotMeasuredButItsTakesAreRemembered) {
  Plan plan = one_connection();
  plan.rate = 1000;
  plan.warmup = milliseconds{100};
  plan.requests = 50;
  Asked asked(plan.keys);
  Load load(plan, 0, &asked);
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
  for (const auto& each : asked) times += each;
  EXPECT_EQ(times, 150U);
}

TEST(Load, RefusalsAreNoErrorsAndErrorsHaveNoLatency) {
  Plan plan = one_connection();
  Load load(plan, 0, nullptr);
  const Request request = *load.next(Nanos{0});
  load.answered(request, {.kind = Answer::Kind::refused}, Nanos{5});
  EXPECT_TRUE(load.tally().errors.empty());
  EXPECT_EQ(load.tally().decided[0].refused, 1U);
  load.answered(request, {.kind = Answer::Kind::error, .error_kind = "ERR", .text = "ERR no"},
                Nanos{5});
  EXPECT_EQ(load.tally().errors.kinds().at("ERR").example, "ERR no");
  EXPECT_EQ(load.tally().latency.count(), 1U);
}

TEST(Load, WhoWaitedInVainHasWaitedAtLeastThatLong) {
  Plan plan = one_connection();
  Load load(plan, 0, nullptr);
  const Request request = *load.next(Nanos{0});
  load.timed_out(request, seconds{10});
  EXPECT_EQ(load.tally().errors.kinds().at("timeout").count, 1U);
  load.abandoned(request, seconds{12});
  EXPECT_EQ(load.tally().unanswered, 1U);
  EXPECT_EQ(load.tally().latency.max(), seconds{12});
  EXPECT_EQ(load.tally().latency.count(), 2U);
}

TEST(Load, StoppedThereIsNothingMore) {
  const Plan plan = one_connection();
  Load load(plan, 0, nullptr);
  EXPECT_TRUE(load.next(milliseconds{5}));
  load.stop(milliseconds{6});
  EXPECT_FALSE(load.next(milliseconds{6}));
  EXPECT_TRUE(load.over(milliseconds{6}));
}

TEST(Load, AMixHasItsPartsAndKeysAreSpread) {
  Plan plan = one_connection();
  plan.mix.parts = {70, 20, 10};
  Load load(plan, 0, nullptr);
  std::array<double, 3> verbs{};
  std::vector<double> keys(plan.keys);
  constexpr int count = 100'000;
  for (int i = 0; i < count; ++i) {
    const Request request = *load.next(Nanos{i});
    ++verbs[static_cast<std::size_t>(request.verb)];
    ++keys.at(request.key);
  }
  EXPECT_NEAR(verbs[0] / count, 0.7, 0.01);
  EXPECT_NEAR(verbs[1] / count, 0.2, 0.01);
  for (const double key : keys) EXPECT_NEAR(key, 1000, 5 * std::sqrt(1000));
}

}  // namespace
}  // namespace weir::cli::bench
