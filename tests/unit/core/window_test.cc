#include "core/window.h"

#include <gtest/gtest.h>

#include "at.h"

namespace weir::core {
namespace {

TEST(Window, IsAlignedToMultiplesOfItsPeriod) {
  auto window = key(Window::make(per(3, seconds{10}), false));
  EXPECT_EQ(window.admits(seconds{9}, 5), 3);
  const Decision refused = window.take(seconds{9});
  EXPECT_EQ(refused.retry_after, seconds{1});
  EXPECT_EQ(refused.reset_after, seconds{1});
  // The known flaw: the same number passes again a moment later.
  EXPECT_EQ(window.admits(seconds{10}, 5), 3);
}

TEST(Window, OpensWithItsFirstCall) {
  auto window = key(Window::make(per(3, seconds{10}), true));
  EXPECT_EQ(window.admits(seconds{9}, 2), 2);
  EXPECT_EQ(window.admits(seconds{18}, 2), 1);
  EXPECT_EQ(window.take(seconds{18}).retry_after, seconds{1});
  EXPECT_EQ(window.admits(seconds{19}, 5), 3);
  EXPECT_EQ(window.take(seconds{19}).retry_after, seconds{10});
}

TEST(Window, StaysTheSameWhenTheClockStepsBack) {
  auto window = key(Window::make(per(3, seconds{10}), false));
  EXPECT_EQ(window.admits(seconds{10}, 2), 2);
  EXPECT_EQ(window.admits(seconds{5}, 5), 1);
  EXPECT_EQ(window.take(seconds{5}).retry_after, seconds{15});
}

TEST(Window, KeepsItsUsageWhenThePeriodChanges) {
  auto window = key(Window::make(per(3, seconds{10}), false));
  EXPECT_EQ(window.admits(seconds{61}, 2), 2);
  window.limit = *Window::make(per(5, minutes{1}), false);
  EXPECT_EQ(window.peek(seconds{62}).remaining, 3);
  EXPECT_EQ(window.peek(seconds{120}).remaining, 5);
}

TEST(WindowRefund, GivesBackOnlyInTheSameWindow) {
  auto window = key(Window::make(per(5, seconds{10}), false));
  Receipt first = window.taken(seconds{1}, {.cost = 2});
  (void)window.take(seconds{2}, {.cost = 3});
  window.refund(seconds{3}, first, 1);
  EXPECT_EQ(window.peek(seconds{3}).remaining, 1);
  (void)window.take(seconds{11}, {.cost = 3});
  window.refund(seconds{12}, first, 1);
  EXPECT_EQ(window.peek(seconds{12}).remaining, 2);
}

TEST(WindowRefund, LeavesTheKeyAtRestWhenEverythingIsGivenBack) {
  auto window = key(Window::make(per(5, seconds{10}), true));
  Receipt receipt = window.taken(seconds{1}, {.cost = 5});
  window.refund(seconds{2}, receipt, 5);
  EXPECT_EQ(window.peek(seconds{2}).remaining, 5);
  EXPECT_EQ(window.peek(seconds{2}).reset_after, Nanos{0});
  // The next call opens a new window.
  EXPECT_EQ(window.take(seconds{3}).reset_after, seconds{10});
}

// Otherwise a caller whose clock is behind would get the old window's permits again.
TEST(WindowRefund, KeepsTheInstantWhenEverythingIsGivenBack) {
  auto window = key(Window::make(per(5, seconds{10}), false));
  EXPECT_EQ(window.admits(seconds{9}, 5), 5);
  Receipt receipt = window.taken(seconds{10}, {.cost = 2});
  window.refund(seconds{10}, receipt, 2);
  EXPECT_EQ(window.admits(seconds{9}, 9), 5) << "those of the new window";
  EXPECT_EQ(window.admits(seconds{10}, 9), 0);
}

TEST(Window, RejectsInvalidNumbers) {
  EXPECT_EQ(Window::make({5, 10, seconds{1}}, false).error(), Flaw::not_whole);
  EXPECT_EQ(Window::make(per_second(0), false).error(), Flaw::rate_not_positive);
  EXPECT_EQ(Window::make(per(1, Nanos{0}), false).error(), Flaw::period_not_positive);
  EXPECT_EQ(Window::make(per(1, kLongestDebt + Nanos{1}), false).error(), Flaw::period_too_long);
  EXPECT_EQ(Window::make(per_second(kMaxPermits + 1), false).error(), Flaw::capacity_too_large);
}

TEST(Window, HasContiguousSpansFromTheEpoch) {
  const Span span = aligned_span(seconds{10}, instant(25'000'000'000));
  EXPECT_EQ(span.start, instant(20'000'000'000));
  EXPECT_EQ(span.end, instant(30'000'000'000));
  EXPECT_EQ(aligned_span(seconds{10}, span.end).start, span.end);
}

// A calendar in which one day of the week is an hour shorter.
class ShortSunday : public Calendar {
 public:
  Span span_at(Instant t) const override {
    if (t < kStart + hours{24}) return {kStart, kStart + hours{24}};
    if (t < kStart + hours{47}) return {kStart + hours{24}, kStart + hours{47}};
    return {kStart + hours{47}, kStart + hours{71}};
  }
};

TEST(CalendarWindow, ResetsAtTheBoundariesOfItsCalendar) {
  auto quota = key(CalendarWindow::make(2, std::make_shared<ShortSunday>()));
  EXPECT_EQ(quota.admits(hours{25}, 3), 2);
  EXPECT_EQ(quota.peek(hours{25}).retry_after, hours{22});
  EXPECT_EQ(quota.admits(hours{47} - Nanos{1}, 3), 0);
  EXPECT_EQ(quota.admits(hours{47}, 3), 2);
  EXPECT_EQ(quota.peek(hours{47}).reset_after, hours{24});
}

TEST(CalendarWindow, RejectsInvalidNumbers) {
  const auto calendar = std::make_shared<ShortSunday>();
  EXPECT_EQ(CalendarWindow::make(0, calendar).error(), Flaw::rate_not_positive);
  EXPECT_EQ(CalendarWindow::make(kMaxPermits + 1, calendar).error(), Flaw::capacity_too_large);
}

}  // namespace
}  // namespace weir::core
