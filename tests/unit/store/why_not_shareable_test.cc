#include "store/why_not_shareable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::store {
namespace {

using ::testing::HasSubstr;

TEST(WhyNotShareable, RejectsPeriodsOfFractionsOfAMicrosecond) {
  EXPECT_EQ(why_not_shareable(*core::Window::make({5, 1, Nanos{1000}}, false)), std::nullopt);
  EXPECT_THAT(why_not_shareable(*core::Window::make({5, 1, Nanos{1001}}, false)).value_or(""),
              HasSubstr("1001ns is not a whole number of microseconds"));
  EXPECT_TRUE(why_not_shareable(*core::SlidingCounter::make({5, 1, Nanos{1}})));
  EXPECT_TRUE(why_not_shareable(*core::SlidingLog::make({5, 1, Nanos{1}})));
  EXPECT_THAT(why_not_shareable(*core::Concurrency::make(5, Nanos{10})).value_or(""),
              HasSubstr("a lease"));
}

TEST(WhyNotShareable, RejectsCountsThatDoublesCannotHoldExactly) {
  EXPECT_EQ(
      why_not_shareable(*core::Window::make({kMaxSharedCount, 1, std::chrono::seconds{1}}, true)),
      std::nullopt);
  EXPECT_THAT(why_not_shareable(
                  *core::Window::make({kMaxSharedCount + 1, 1, std::chrono::seconds{1}}, true))
                  .value_or(""),
              HasSubstr("at most 9007199254740991"));
}

// Scripts count the times of buckets in parts of a nanosecond.
TEST(WhyNotShareable, AcceptsAnyBucket) {
  EXPECT_EQ(why_not_shareable(*core::Bucket::make({999'999'937, 1, std::chrono::seconds{1}}, 7)),
            std::nullopt);
}

TEST(WhyNotLeasable, AcceptsBucketsWindowsAndQuotas) {
  const core::Rate rate{5, 1, std::chrono::seconds{1}};
  EXPECT_EQ(why_not_leasable(*core::Bucket::make(rate, 7)), std::nullopt);
  EXPECT_EQ(why_not_leasable(*core::Window::make(rate, false)), std::nullopt);
  EXPECT_EQ(why_not_leasable(*core::Window::make(rate, true)), std::nullopt);
  EXPECT_EQ(why_not_leasable(*core::SlidingCounter::make(rate)), std::nullopt);
  EXPECT_EQ(why_not_leasable(*core::CalendarWindow::make(5, nullptr)), std::nullopt);
}

TEST(WhyNotLeasable, RejectsLimitsWithAnOrderOrARecordOfEachCall) {
  const core::Rate rate{5, 1, std::chrono::seconds{1}};
  const auto why = [](const core::Limit& limit) { return why_not_leasable(limit).value_or(""); };
  EXPECT_THAT(why(*core::Bucket::make_queue(rate, 7, 0)), HasSubstr("the order of waiting calls"));
  EXPECT_THAT(why(*core::NginxQueue::make(rate, 7, 0)), HasSubstr("as nginx does"));
  EXPECT_THAT(why(*core::Smooth::make(rate)), HasSubstr("a smooth limit"));
  EXPECT_THAT(why(*core::Smooth::make_warming(rate, std::chrono::seconds{3})),
              HasSubstr("warms up"));
  EXPECT_THAT(why(*core::SlidingLog::make(rate)), HasSubstr("an exact sliding window"));
  EXPECT_THAT(why(*core::Concurrency::make(5, std::chrono::seconds{1})),
              HasSubstr("a concurrent limit"));
  EXPECT_THAT(why(*core::RedisCell::make(5, 1, 60)), HasSubstr("comes with the call"));
}

// Half of the maximum debt is 26 days, in nanoseconds.
TEST(WhyNotLeasable, RejectsABucketThatTakesTooLongToFill) {
  const auto days = [](int count) {
    return *core::Bucket::make({1, 1, std::chrono::hours{24}}, count);
  };
  EXPECT_EQ(why_not_leasable(days(26)), std::nullopt);
  EXPECT_THAT(why_not_leasable(days(27)).value_or(""), HasSubstr("make its burst smaller"));
  EXPECT_THAT(why_not_leasable(*core::Window::make({5, 1, Nanos{1}}, false)).value_or(""),
              HasSubstr("not a whole number of microseconds"));
}

}  // namespace
}  // namespace weir::store
