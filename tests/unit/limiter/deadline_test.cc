#include "weir/deadline.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Instant kNow{std::chrono::hours{490'000}};

TEST(Deadline, StartsWhenItIsResolved) {
  constexpr Deadline soon = Deadline::after(200ms);
  static_assert(soon.resolve(kNow) == kNow + 200ms);
  EXPECT_EQ(soon.resolve(kNow + 1h), kNow + 1h + 200ms);
  EXPECT_EQ(soon.left(kNow), 200ms);
}

TEST(Deadline, IsTheGivenInstantWheneverItIsResolved) {
  const Deadline fixed = Deadline::at(kNow);
  EXPECT_EQ(fixed.resolve(kNow - 1s), kNow);
  EXPECT_EQ(fixed.resolve(kNow + 1s), kNow);
  EXPECT_EQ(fixed.left(kNow - 1s), 1s);
}

TEST(Deadline, HasNoTimeLeftOncePassed) {
  EXPECT_EQ(Deadline::at(kNow).left(kNow), 0s);
  EXPECT_EQ(Deadline::at(kNow).left(kNow + 1s), 0s);
  EXPECT_EQ(Deadline::after(-1s).left(kNow), 0s);
  EXPECT_EQ(Deadline::after(Nanos::min()).left(kNow), 0s);
}

TEST(Deadline, DoesNotOverflow) {
  EXPECT_EQ(Deadline::never().resolve(kNow), Instant::max());
  EXPECT_EQ(Deadline::after(kForever).resolve(kNow), Instant::max());
  EXPECT_EQ(Deadline::after(kForever).resolve(Instant::max()), Instant::max());
  EXPECT_EQ(Deadline::after(kForever).resolve(Instant::min()), Instant{} - 1ns);
  EXPECT_EQ(Deadline::never().left(Instant::min()), kForever);
  EXPECT_EQ(Deadline::at(Instant::min()).left(Instant::max()), 0s);
}

}  // namespace
}  // namespace weir
