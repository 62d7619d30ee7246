#include "core/nginx.h"

#include <gtest/gtest.h>

#include "at.h"

namespace weir::core {
namespace {

// The waits of the admitted ones of `n` requests at one instant.
std::vector<double> waits(Key<NginxQueue>& queue, int n, Nanos at = Nanos{0}) {
  std::vector<double> all;
  for (int i = 0; i < n; ++i) {
    const Decision passed = queue.take(at, {.max_wait = kForever});
    if (passed) all.push_back(static_cast<double>(passed.wait.count()) / 1e9);
  }
  return all;
}

using Waits = std::vector<double>;

TEST(NginxQueue, AdmitsOneRequestWithoutBurst) {
  auto queue = key(NginxQueue::make(per(6, minutes{1}), 0, 0));
  EXPECT_EQ(waits(queue, 10), (Waits{0}));
}

TEST(NginxQueue, DelaysItsBurst) {
  auto queue = key(NginxQueue::make(per(6, minutes{1}), 5, 0));
  EXPECT_EQ(waits(queue, 10), (Waits{0, 10, 20, 30, 40, 50}));
}

// 10/min is 166 thousandths a second: one request in 6.024 s.
TEST(NginxQueue, KeepsItsTruncatedRate) {
  auto queue = key(NginxQueue::make(per(10, minutes{1}), 5, 0));
  EXPECT_EQ(waits(queue, 10), (Waits{0, 6.024, 12.048, 18.072, 24.096, 30.120}));
}

TEST(NginxQueue, DelaysNoRequestWithNodelay) {
  auto queue = key(NginxQueue::make(per(6, minutes{1}), 5, 5));
  EXPECT_EQ(waits(queue, 10), (Waits{0, 0, 0, 0, 0, 0}));
}

TEST(NginxQueue, DelaysRequestsBeyondItsDelay) {
  auto queue = key(NginxQueue::make(per(60, minutes{1}), 5, 3));
  EXPECT_EQ(waits(queue, 10), (Waits{0, 0, 0, 0, 1, 2}));
  auto slow = key(NginxQueue::make(per(30, minutes{1}), 2, 1));
  EXPECT_EQ(waits(slow, 4), (Waits{0, 0, 2}));
}

TEST(NginxQueue, DoesNotCountRejectedRequests) {
  auto queue = key(NginxQueue::make(per_second(2), 1, 1));
  EXPECT_EQ(queue.admits(Nanos{0}, 3), 2);
  EXPECT_EQ(queue.admits(milliseconds{499}, 1), 0);
  EXPECT_EQ(queue.admits(milliseconds{500}, 1), 1);
}

// 1/min is 16 thousandths a second: the second request passes after 62.5 s, not 60.
TEST(NginxQueue, DrainsInWholeThousandths) {
  auto queue = key(NginxQueue::make(per(1, minutes{1}), 0, 0));
  (void)queue.take(Nanos{0});
  EXPECT_EQ(queue.peek(Nanos{0}).retry_after, milliseconds{62'500});
  EXPECT_FALSE(queue.peek(milliseconds{62'499}));
  EXPECT_TRUE(queue.peek(milliseconds{62'500}));
}

// nginx assumes that a clock which went back by more than a minute has wrapped around.
TEST(NginxQueue, CountsAMillisecondForAWrappedClock) {
  auto queue = key(NginxQueue::make(per_second(1000), 0, 0));
  (void)queue.take(seconds{100});
  EXPECT_FALSE(queue.peek(seconds{40}));
  EXPECT_TRUE(queue.peek(seconds{40} - milliseconds{1}));
}

TEST(NginxQueue, GivesBackOnlyIfTheKeyHasNotChanged) {
  auto queue = key(NginxQueue::make(per_second(1), 9, 9));
  Receipt receipt = queue.taken(Nanos{0}, {.cost = 5});
  queue.refund(Nanos{0}, receipt, 2);
  EXPECT_EQ(queue.peek(Nanos{0}).remaining, 7);
  (void)queue.take(Nanos{0});
  queue.refund(Nanos{0}, receipt, 3);
  EXPECT_EQ(queue.peek(Nanos{0}).remaining, 6);
}

// The backlog before the call drained at the old rate, whatever the rate is now.
TEST(NginxQueue, DoesNotDrainThePastAtTheNewRate) {
  auto queue = key(NginxQueue::make(per(6, minutes{1}), 9, 9));
  (void)queue.take(Nanos{0}, {.cost = 6});
  Receipt receipt = queue.taken(seconds{1}, {.cost = 2});
  queue.limit = *NginxQueue::make(per_second(100), 9, 9);
  EXPECT_EQ(queue.peek(seconds{1}).remaining, 2);
  queue.refund(seconds{1}, receipt, 1);
  EXPECT_LE(queue.peek(seconds{1}).remaining, 3);
}

TEST(NginxQueue, RejectsRatesThatNginxDoesNotSupport) {
  EXPECT_EQ(NginxQueue::make(per(1, hours{1}), 0, 0).error(), Flaw::nginx_period);
  EXPECT_EQ(NginxQueue::make({5, 10, seconds{1}}, 0, 0).error(), Flaw::not_whole);
  EXPECT_EQ(NginxQueue::make(per_second(0), 0, 0).error(), Flaw::rate_not_positive);
  EXPECT_EQ(NginxQueue::make(per_second(kMaxRate), 0, 0).error(), Flaw::rate_too_high);
  EXPECT_EQ(NginxQueue::make(per_second(1), -1, 0).error(), Flaw::capacity_too_small);
  EXPECT_EQ(NginxQueue::make(per_second(1), kMaxPermits, 0).error(), Flaw::capacity_too_large);
}

}  // namespace
}  // namespace weir::core
