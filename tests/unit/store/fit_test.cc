#include "store/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::store {
namespace {

using ::testing::HasSubstr;

TEST(SharedStoreLimits, AcceptsPeriodsOfWholeMicroseconds) {
  EXPECT_EQ(unfit(*core::Window::make({5, 1, Nanos{1000}}, false)), std::nullopt);
  EXPECT_THAT(unfit(*core::Window::make({5, 1, Nanos{1001}}, false)).value_or(""),
              HasSubstr("1001ns is no whole number of microseconds"));
  EXPECT_TRUE(unfit(*core::Sliding::make({5, 1, Nanos{1}})));
  EXPECT_TRUE(unfit(*core::ExactLog::make({5, 1, Nanos{1}})));
  EXPECT_THAT(unfit(*core::Concurrency::make(5, Nanos{10})).value_or(""), HasSubstr("a lease"));
}

TEST(SharedStoreLimits, AcceptsCountsThatDoublesRepresentExactly) {
  EXPECT_EQ(unfit(*core::Window::make({kMostCount, 1, std::chrono::seconds{1}}, true)),
            std::nullopt);
  EXPECT_THAT(
      unfit(*core::Window::make({kMostCount + 1, 1, std::chrono::seconds{1}}, true)).value_or(""),
      HasSubstr("at most 9007199254740991"));
}

// The store keeps their times to parts of a nanosecond.
TEST(SharedStoreLimits, AcceptsAnyBucket) {
  EXPECT_EQ(unfit(*core::Bucket::make({999'999'937, 1, std::chrono::seconds{1}}, 7)), std::nullopt);
}

TEST(Leasing, AcceptsBucketsWindowsAndQuotas) {
  const core::Rate rate{5, 1, std::chrono::seconds{1}};
  EXPECT_EQ(unfit_for_loans(*core::Bucket::make(rate, 7)), std::nullopt);
  EXPECT_EQ(unfit_for_loans(*core::Window::make(rate, false)), std::nullopt);
  EXPECT_EQ(unfit_for_loans(*core::Window::make(rate, true)), std::nullopt);
  EXPECT_EQ(unfit_for_loans(*core::Sliding::make(rate)), std::nullopt);
  EXPECT_EQ(unfit_for_loans(*core::Quota::make(5, nullptr)), std::nullopt);
}

TEST(Leasing, RefusesLimitsThatOrderCallsOrTrackEachOne) {
  const core::Rate rate{5, 1, std::chrono::seconds{1}};
  const auto why = [](const core::Limit& limit) { return unfit_for_loans(limit).value_or(""); };
  EXPECT_THAT(why(*core::Bucket::make_queue(rate, 7, 0)), HasSubstr("waiting has an order"));
  EXPECT_THAT(why(*core::NginxQueue::make(rate, 7, 0)), HasSubstr("as nginx does"));
  EXPECT_THAT(why(*core::Smooth::make(rate)), HasSubstr("a smooth limit"));
  EXPECT_THAT(why(*core::Smooth::make_warming(rate, std::chrono::seconds{3})),
              HasSubstr("warms up"));
  EXPECT_THAT(why(*core::ExactLog::make(rate)), HasSubstr("an exact sliding window"));
  EXPECT_THAT(why(*core::Concurrency::make(5, std::chrono::seconds{1})),
              HasSubstr("a concurrent limit"));
  EXPECT_THAT(why(*core::Cell::make(5, 1, 60)), HasSubstr("comes with the call"));
}

// Half of the longest debt, in nanoseconds, is 26 days.
TEST(Leasing, RefusesBucketsThatTakeTooLongToFill) {
  const auto days = [](int count) {
    return *core::Bucket::make({1, 1, std::chrono::hours{24}}, count);
  };
  EXPECT_EQ(unfit_for_loans(days(26)), std::nullopt);
  EXPECT_THAT(unfit_for_loans(days(27)).value_or(""), HasSubstr("make its burst smaller"));
  EXPECT_THAT(unfit_for_loans(*core::Window::make({5, 1, Nanos{1}}, false)).value_or(""),
              HasSubstr("no whole number of microseconds"));
}

}  // namespace
}  // namespace weir::store
