#include "server/format.h"

#include <gtest/gtest.h>

namespace weir::server {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(Format, RoundsMillisecondsUp) {
  EXPECT_EQ(millis_or_never(milliseconds{5} + Nanos{1}), 6);
  EXPECT_EQ(millis_or_never(kNever), -1);
}

TEST(Format, ReadsWholeNumbersStrictly) {
  EXPECT_EQ(whole_number("42"), 42);
  EXPECT_EQ(whole_number("-1"), -1);
  EXPECT_EQ(whole_number("9223372036854775807"), INT64_MAX);
  for (const char* wrong : {"", " 1", "1 ", "+1", "1.0", "0x1", "9223372036854775808", "one"}) {
    EXPECT_FALSE(whole_number(wrong)) << wrong;
  }
}

// Rounded up: a client must not retry too early.
TEST(Format, WritesDurationsInAtMostTwoUnits) {
  const std::pair<Nanos, const char*> times[] = {{Nanos{0}, "0ms"},
                                                 {Nanos{1}, "1ms"},
                                                 {milliseconds{999}, "999ms"},
                                                 {milliseconds{4200}, "4.2s"},
                                                 {milliseconds{59'999}, "59.999s"},
                                                 {milliseconds{60'000}, "1min"},
                                                 {milliseconds{93'001}, "1min 34s"},
                                                 {milliseconds{3'598'001}, "59min 59s"},
                                                 {milliseconds{3'599'001}, "1h"},
                                                 {hours{1}, "1h"},
                                                 {hours{1} + milliseconds{1}, "1h 1min"},
                                                 {hours{48}, "48h"},
                                                 {hours{24 * 13} + milliseconds{1}, "13 days 1h"}};
  for (const auto& [time, text] : times) EXPECT_EQ(duration_text(time), text);
}

TEST(Format, DescribesTheStateOfALimit) {
  LimitState limit{.name = "rate", .limit = "10/s burst 20", .cost = 5};
  limit.decision = {.limit = 20, .remaining = 12, .reset_after = milliseconds{800}};
  EXPECT_EQ(limit_state_text(limit),
            "rate: 10/s burst 20: 12 of 20 left, full again in 800ms; a cost of 5 passes");
  limit.decision = {.outcome = Outcome::limited,
                    .limit = 20,
                    .remaining = 2,
                    .retry_after = milliseconds{4200},
                    .reset_after = hours{3}};
  limit.shadow = true;
  EXPECT_EQ(limit_state_text(limit),
            "rate: 10/s burst 20: 2 of 20 left, full again in 3h; a cost of 5 is refused, would "
            "pass in 4.2s (a shadow: never refuses)");
  limit.share = {.part = 4, .whole = 20};
  limit.decision = {.limit = 4, .remaining = 4};
  EXPECT_EQ(limit_state_text(limit),
            "rate: 10/s burst 20, this node's part 4 of 20: 4 of 4 left; a cost of 5 passes (a "
            "shadow: never refuses)");
  limit.share.reset();
  limit.decision = {.outcome = Outcome::impossible, .limit = 4, .retry_after = kNever};
  limit.shadow = false;
  EXPECT_EQ(limit_state_text(limit),
            "rate: 10/s burst 20: 0 of 4 left; a cost of 5 can never pass: 5 are more than it ever "
            "holds");
}

TEST(Format, NamesTheOriginOfALimit) {
  using Kind = LimitOrigin::Kind;
  LimitState limit{.name = "0", .limit = "10/s", .cost = 1};
  limit.decision = {.limit = 10, .remaining = 10};
  limit.origin = {.kind = Kind::override_of_key, .text = "big\n*"};
  EXPECT_EQ(limit_state_text(limit),
            "0: 10/s, override of \"big\\n*\": 10 of 10 left; a cost of 1 passes");
  limit.origin = {.kind = Kind::schedule, .text = "mon-fri"};
  EXPECT_EQ(limit_state_text(limit),
            "0: 10/s, schedule of mon-fri: 10 of 10 left; a cost of 1 passes");
}

}  // namespace
}  // namespace weir::server
