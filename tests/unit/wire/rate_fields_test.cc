#include "wire/rate_fields.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace weir::wire {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::string_view_literals::operator""sv;

constexpr Decision kPassed{
    .outcome = Outcome::allowed, .limit = 100, .remaining = 50, .reset_after = 29'001ms};
constexpr Decision kRefused{
    .outcome = Outcome::limited, .limit = 100, .retry_after = 1'200ms, .reset_after = 60s};
constexpr Decision kImpossible{
    .outcome = Outcome::impossible, .limit = 100, .remaining = 7, .retry_after = kNever};

std::string fields(HeaderStyle style, const std::vector<QuotaPolicy>& policies,
                   std::string_view name, const Decision& decision) {
  std::string policy_field, out;
  append_policy_field(policy_field, policies);
  append_rate_fields(out, style, policy_field, name, decision, LegacyHeaders{}, Instant{});
  return out;
}

std::string retry_after(const Decision& decision) {
  std::string out;
  append_retry_after(out, decision);
  return out;
}

TEST(RateFields, FollowTheIetfDraft) {
  EXPECT_EQ(fields(HeaderStyle::ietf,
                   {{"burst", 100, Nanos{1min}}, {"daily", 1000, Nanos{24h}}, {"slots", 8, {}}},
                   "burst", kPassed),
            "RateLimit-Policy: \"burst\";q=100;w=60, \"daily\";q=1000;w=86400, \"slots\";q=8\r\n"
            "RateLimit: \"burst\";r=50;t=30\r\n");
}

// The quota is a number of concurrent calls, not of calls per window.
TEST(RateFields, HaveAQuotaUnitForConcurrencyLimits) {
  EXPECT_EQ(fields(HeaderStyle::ietf,
                   {{.name = "rate", .quota = 100, .window = Nanos{1s}},
                    {.name = "slots", .quota = 8, .concurrent = true}},
                   "slots", kPassed),
            "RateLimit-Policy: \"rate\";q=100;w=1, \"slots\";q=8;qu=\"concurrent-requests\"\r\n"
            "RateLimit: \"slots\";r=50;t=30\r\n");
}

// Services differ in these fields: the names are configurable, and the reset may be a date.
TEST(RateFields, HaveConfigurableLegacyNames) {
  std::string out;
  append_rate_fields(out, HeaderStyle::legacy, "", "burst", kPassed,
                     {.names = {"RateLimit-Limit", "Left", "X-Reset"}}, Instant{});
  EXPECT_EQ(out, "RateLimit-Limit: 100\r\nLeft: 50\r\nX-Reset: 30\r\n");
  out.clear();
  const Instant now = instant(1'767'225'600'999'000'000);
  append_rate_fields(out, HeaderStyle::legacy, "", "burst", kPassed, {.reset_is_date = true}, now);
  EXPECT_EQ(out,
            "X-RateLimit-Limit: 100\r\nX-RateLimit-Remaining: 50\r\n"
            "X-RateLimit-Reset: 1767225630\r\n");
}

// All four or none, as decimal integers; -1 without a decision.
TEST(RateFields, FollowSpringCloudGateway) {
  std::string out;
  append_scg_fields(out, {.remaining = 29, .requested = 1, .burst = 30, .rate = 20});
  EXPECT_EQ(out,
            "X-RateLimit-Remaining: 29\r\nX-RateLimit-Requested-Tokens: 1\r\n"
            "X-RateLimit-Burst-Capacity: 30\r\nX-RateLimit-Replenish-Rate: 20\r\n");
  out.clear();
  append_scg_fields(out, {.remaining = -1, .requested = 3, .burst = (1LL << 53) - 1, .rate = 1});
  EXPECT_EQ(out,
            "X-RateLimit-Remaining: -1\r\nX-RateLimit-Requested-Tokens: 3\r\n"
            "X-RateLimit-Burst-Capacity: 9007199254740991\r\nX-RateLimit-Replenish-Rate: 1\r\n");
}

TEST(RateFields, FollowTheLegacyStyle) {
  EXPECT_EQ(fields(HeaderStyle::legacy, {{"burst", 100, Nanos{1min}}}, "burst", kPassed),
            "X-RateLimit-Limit: 100\r\nX-RateLimit-Remaining: 50\r\nX-RateLimit-Reset: 30\r\n");
}

TEST(RateFields, FollowTheStylesBothAndOff) {
  EXPECT_EQ(fields(HeaderStyle::both, {}, "a", kPassed),
            "RateLimit: \"a\";r=50;t=30\r\n"
            "X-RateLimit-Limit: 100\r\nX-RateLimit-Remaining: 50\r\nX-RateLimit-Reset: 30\r\n");
  EXPECT_EQ(fields(HeaderStyle::off, {{"a", 1, {}}}, "a", kPassed), "");
}

// Retry-After must not be earlier than t.
TEST(RateFields, AgreeWithRetryAfter) {
  EXPECT_EQ(fields(HeaderStyle::ietf, {}, "a", kRefused), "RateLimit: \"a\";r=0;t=2\r\n");
  EXPECT_EQ(retry_after(kRefused), "Retry-After: 2\r\n");
}

TEST(RateFields, HaveNoRetryAfterForCallsThatNeverPass) {
  EXPECT_EQ(retry_after(kImpossible), "");
  EXPECT_EQ(retry_after(kPassed), "");
  EXPECT_EQ(fields(HeaderStyle::ietf, {}, "a", kImpossible), "RateLimit: \"a\";r=7;t=0\r\n");
}

TEST(RateFields, RoundUpAndWaitAtLeastASecond) {
  Decision decision = kRefused;
  decision.retry_after = Nanos{1};
  EXPECT_EQ(retry_after(decision), "Retry-After: 1\r\n");
  decision.retry_after = Nanos{0};
  EXPECT_EQ(retry_after(decision), "Retry-After: 1\r\n");
  decision.retry_after = Nanos{1s} + Nanos{1};
  EXPECT_EQ(retry_after(decision), "Retry-After: 2\r\n");
  EXPECT_EQ(fields(HeaderStyle::ietf, {{"a", 1, Nanos{5ms}}}, "a", kRefused),
            "RateLimit-Policy: \"a\";q=1;w=1\r\nRateLimit: \"a\";r=0;t=2\r\n");
}

TEST(RateFields, HaveAWaitOnlyForAdmittedCallsThatWait) {
  const auto wait = [](const Decision& decision) {
    std::string out;
    append_wait(out, decision);
    return out;
  };
  Decision decision = kPassed;
  EXPECT_EQ(wait(decision), "");
  decision.wait = Nanos{1500ms} + Nanos{1};
  EXPECT_EQ(wait(decision), "Weir-Wait-Ms: 1501\r\n");
  decision.outcome = Outcome::limited;
  EXPECT_EQ(wait(decision), "");
}

// Names come from files and, through ad-hoc limits, from clients.
TEST(RateFields, QuoteNames) {
  EXPECT_EQ(fields(HeaderStyle::ietf, {}, "a\"b\\c\r\nX: é\0"sv, kRefused),
            "RateLimit: \"a\\\"b\\\\c%0d%0aX: %c3%a9%00\";r=0;t=2\r\n");
}

// A Structured Field integer has 15 digits, and no sign here.
TEST(RateFields, KeepIntegersInTheirRange) {
  Decision decision = kPassed;
  decision.remaining = INT64_MAX;
  decision.reset_after = kForever;
  EXPECT_EQ(fields(HeaderStyle::ietf, {{"a", INT64_MAX, kForever}}, "a", decision),
            "RateLimit-Policy: \"a\";q=999999999999999;w=9223372037\r\n"
            "RateLimit: \"a\";r=999999999999999;t=9223372037\r\n");
  decision.remaining = -5;
  EXPECT_EQ(fields(HeaderStyle::ietf, {}, "a", decision), "RateLimit: \"a\";r=0;t=9223372037\r\n");
}

}  // namespace
}  // namespace weir::wire
