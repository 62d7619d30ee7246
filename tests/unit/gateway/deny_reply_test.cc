#include "gateway/deny_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/config.h"

namespace weir::gateway {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

policy::PolicySet policies_of(const std::string& text) {
  policy::Problems problems;
  auto set = policy::read_policies({"weir.yaml", text}, problems);
  EXPECT_TRUE(problems.empty()) << problems.front().message;
  return set;
}

const policy::PolicySet kPolicies = policies_of(R"(
policies:
  api: { limits: [ { limit: 20/s burst 30, name: rate }, { limit: 100 concurrent, cost: 1 } ] }
  open: { limits: [ 10/s burst 20 ], on_store_failure: open }
  slow: { limits: [ { limit: 60/min, cost: permits, name: calls } ] }
  other: { limits: [ 1/s ], overrides: { vip: 5/s } }
  seats:
    limits: [ { limit: 9 concurrent, name: at once } ]
    overrides: { vip: { limit: 30 concurrent, name: at once } }
)");

RouteConfig route(std::string policy, wire::HeaderStyle style = wire::HeaderStyle::ietf) {
  RouteConfig made;
  made.policy = std::move(policy);
  made.headers = style;
  return made;
}

Verdict refused(std::string_view by = "rate") {
  return {.decision = {.outcome = Outcome::limited,
                       .limit = 30,
                       .retry_after = 50ms,
                       .reset_after = 1500ms},
          .limited_by = by,
          .refusing = 1};
}
Verdict passed(Permits remaining) {
  return {.decision = {.limit = 30, .remaining = remaining, .reset_after = 50ms},
          .limited_by = "rate"};
}

std::string lines(wire::HeaderStyle style, std::string_view policy, const Verdict& verdict,
                  Permits asked = 1) {
  std::string out;
  RateLimitHeaders(kPolicies).append(out, style, policy, verdict, asked);
  return out;
}

LocalReply answer(const RouteConfig& route, const Verdict& verdict) {
  return deny_reply(route, RateLimitHeaders(kPolicies), verdict, 1);
}

TEST(RateLimitHeaders, FollowsTheStyleOfTheRoute) {
  EXPECT_EQ(lines(wire::HeaderStyle::ietf, "api", passed(29)),
            "RateLimit-Policy: \"rate\";q=30;w=2, \"1\";q=100;qu=\"concurrent-requests\"\r\n"
            "RateLimit: \"rate\";r=29;t=1\r\n");
  EXPECT_EQ(lines(wire::HeaderStyle::legacy, "api", passed(29)),
            "X-RateLimit-Limit: 30\r\nX-RateLimit-Remaining: 29\r\nX-RateLimit-Reset: 1\r\n");
  EXPECT_THAT(lines(wire::HeaderStyle::both, "api", passed(29)),
              AllOf(HasSubstr("RateLimit: "), HasSubstr("X-RateLimit-Limit: 30\r\n")));
  EXPECT_EQ(lines(wire::HeaderStyle::off, "api", passed(29)), "");
  EXPECT_EQ(lines(wire::HeaderStyle::ietf, "gone", passed(29)), "");
  // Where limits depend on the key, the policy field has the limit that decided.
  EXPECT_THAT(lines(wire::HeaderStyle::ietf, "other", passed(29)),
              HasSubstr("RateLimit-Policy: \"rate\";q=30\r\n"));
  EXPECT_THAT(lines(wire::HeaderStyle::ietf, "seats", refused("at once")),
              HasSubstr("RateLimit-Policy: \"at once\";q=30;qu=\"concurrent-requests\"\r\n"));
}

TEST(RateLimitHeaders, UsesTheConfiguredLegacyNames) {
  const wire::LegacyHeaders legacy{.names = {"Limit", "Left", "Reset"}, .reset_is_date = true};
  const RateLimitHeaders lines(kPolicies, legacy);
  std::string out;
  const auto before = std::chrono::system_clock::now();
  lines.append(out, wire::HeaderStyle::legacy, "api", passed(29), 1);
  const std::string start = "Limit: 30\r\nLeft: 29\r\nReset: ";
  ASSERT_TRUE(out.starts_with(start)) << out;
  const std::chrono::sys_seconds told{std::chrono::seconds{std::stoll(out.substr(start.size()))}};
  EXPECT_GE(told, before);
  EXPECT_LE(told, std::chrono::system_clock::now() + 1050ms);
}

TEST(RateLimitHeaders, UsesTheFourNamesOfSpring) {
  EXPECT_EQ(lines(wire::HeaderStyle::scg, "api", passed(29)),
            "X-RateLimit-Remaining: 29\r\nX-RateLimit-Requested-Tokens: 1\r\n"
            "X-RateLimit-Burst-Capacity: 30\r\nX-RateLimit-Replenish-Rate: 20\r\n");
  EXPECT_THAT(lines(wire::HeaderStyle::scg, "api", refused()),
              HasSubstr("X-RateLimit-Remaining: 0\r\n"));
  // The tokens of the deciding limit, not of others.
  EXPECT_THAT(lines(wire::HeaderStyle::scg, "api", refused("1"), 7),
              HasSubstr("Requested-Tokens: 1\r\n"));
  EXPECT_THAT(lines(wire::HeaderStyle::scg, "slow", refused("calls"), 60),
              AllOf(HasSubstr("Requested-Tokens: 60\r\n"), HasSubstr("Replenish-Rate: 1\r\n")));
}

// Allowed while the store is down: remaining is -1, the others as usual.
TEST(RateLimitHeaders, HasMinusOneRemainingIfNothingIsCounted) {
  Verdict degraded{.decision = {.limit = 20}, .limited_by = "0"};
  degraded.degraded = true;
  EXPECT_EQ(lines(wire::HeaderStyle::scg, "open", degraded),
            "Weir-Degraded: 1\r\n"
            "X-RateLimit-Remaining: -1\r\nX-RateLimit-Requested-Tokens: 1\r\n"
            "X-RateLimit-Burst-Capacity: 20\r\nX-RateLimit-Replenish-Rate: 10\r\n");
  // This node counts on its own, and knows the rest.
  degraded.decision.remaining = 5;
  EXPECT_THAT(lines(wire::HeaderStyle::scg, "api", degraded),
              HasSubstr("X-RateLimit-Remaining: 5\r\n"));
}

TEST(DenyReply, IsProblemJsonByDefault) {
  const LocalReply made = answer(route("api"), refused());
  EXPECT_EQ(made.status, 429);
  EXPECT_EQ(made.fields,
            "Content-Type: application/problem+json\r\nCache-Control: no-store\r\n"
            "RateLimit-Policy: \"rate\";q=30;w=2, \"1\";q=100;qu=\"concurrent-requests\"\r\n"
            "RateLimit: \"rate\";r=0;t=1\r\n"
            "Retry-After: 1\r\n");
  EXPECT_EQ(
      made.body,
      R"({"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",)"
      R"("title":"Quota exceeded","status":429,)"
      R"("detail":"the limit rate admits this call in 1 second","violated-policies":["rate"]})");
}

TEST(DenyReply, HasTheStatusHeadersAndBodyOfTheRoute) {
  RouteConfig own = route("api", wire::HeaderStyle::off);
  own.refused = {.status = 503,
                 .headers = {{"X-Sorry", "yes"}},
                 .body = "{\"error\":\"sold out\"}",
                 .content_type = "application/json"};
  const LocalReply made = answer(own, refused());
  EXPECT_EQ(made.status, 503);
  EXPECT_EQ(made.body, "{\"error\":\"sold out\"}");
  // Without Retry-After clients would retry at once.
  EXPECT_EQ(made.fields,
            "Content-Type: application/json\r\nCache-Control: no-store\r\nX-Sorry: yes\r\n"
            "Retry-After: 1\r\n");
  own.refused.headers = {{"retry-after", "9"}, {"cache-control", "private"}};
  EXPECT_EQ(answer(own, refused()).fields,
            "Content-Type: application/json\r\nretry-after: 9\r\ncache-control: private\r\n");
  own.refused.body = "";
  EXPECT_THAT(answer(own, refused()).fields, Not(HasSubstr("Content-Type")));
}

// The body names the limit as RateLimit-Policy does; an operator's block is not in that field.
TEST(DenyReply, NamesTheLimitThatRefuses) {
  EXPECT_THAT(answer(route("api"), refused("1")).body, HasSubstr(R"("violated-policies":["1"])"));
  Verdict blocked = refused("block");
  blocked.blocked = true;
  EXPECT_THAT(answer(route("api"), blocked).body, Not(HasSubstr("violated-policies")));
}

TEST(DenyReply, FillsThePlaceholdersOfItsBody) {
  RouteConfig made = route("a\"<b>&'");
  made.refused.body =
      R"({"limit":"{limited_by}","policy":"{policy}","again":{retry_after},"{x}":{}})";
  made.refused.content_type = "application/json";
  EXPECT_EQ(answer(made, refused("r\"s")).body,
            R"({"limit":"r\"s","policy":"a\"<b>&'","again":1,"{x}":{}})");
  made.refused.body = "<p title='{policy}'>{limited_by}: {retry_after} s</p>{";
  made.refused.content_type = "text/html; charset=utf-8";
  EXPECT_EQ(answer(made, refused("<r>")).body,
            "<p title='a&quot;&lt;b&gt;&amp;&#39;'>&lt;r&gt;: 1 s</p>{");
  made.refused.body = "{limited_by} {retry_after}{retry_after";
  made.refused.content_type = "text/plain";
  Verdict never = refused("<r>");
  never.decision.outcome = Outcome::impossible;
  EXPECT_EQ(answer(made, never).body, "<r> -1{retry_after");
}

TEST(DenyReply, IsTheOneOfTheLimitThatRefuses) {
  RouteConfig made = route("api");
  made.refused.body = "slow down";
  RefusalConfig own{.status = 200, .body = "sold out"};
  made.refused.by_limit["1"] = std::make_shared<const RefusalConfig>(own);
  EXPECT_EQ(answer(made, refused("rate")).body, "slow down");
  const LocalReply sold_out = answer(made, refused("1"));
  EXPECT_EQ(sold_out.status, 200);
  EXPECT_EQ(sold_out.body, "sold out");
  EXPECT_THAT(sold_out.fields, HasSubstr("Cache-Control: no-store\r\n"));
  // A limit that could not be asked has not refused.
  Verdict unasked = refused("1");
  unasked.refusing = 0;
  unasked.degraded = true;
  EXPECT_EQ(answer(made, unasked).body, "slow down");
  EXPECT_THAT(answer(made, unasked).fields, HasSubstr("Weir-Degraded: 1\r\n"));
}

TEST(DenyReply, IsARedirectIfConfigured) {
  RouteConfig away = route("api", wire::HeaderStyle::off);
  away.refused = {.status = 302, .redirect = "https://example.com/queue"};
  const LocalReply made = answer(away, refused());
  EXPECT_EQ(made.status, 302);
  EXPECT_EQ(made.body, "");
  EXPECT_THAT(made.fields, HasSubstr("Location: https://example.com/queue\r\n"));
}

TEST(DenyReply, SaysWhyTheRequestIsRefused) {
  Verdict never = refused();
  never.decision.outcome = Outcome::impossible;
  never.decision.retry_after = kNever;
  const LocalReply impossible = answer(route("api"), never);
  EXPECT_EQ(impossible.status, 429);
  EXPECT_THAT(impossible.body, HasSubstr("costs more than the limit rate ever admits"));
  EXPECT_THAT(impossible.fields, Not(HasSubstr("Retry-After")));
  Verdict blocked = refused();
  blocked.blocked = true;
  EXPECT_THAT(answer(route("api"), blocked).body, HasSubstr("an operator has blocked"));
}

// The client is not at fault.
TEST(DenyReply, Is503IfTheStoreIsUnreachable) {
  Verdict closed{.decision = {.outcome = Outcome::limited, .limit = 20, .retry_after = 1s},
                 .limited_by = "0"};
  closed.degraded = true;
  const LocalReply made = answer(route("open", wire::HeaderStyle::scg), closed);
  EXPECT_EQ(made.status, 503);
  EXPECT_THAT(made.body, HasSubstr("temporary-reduced-capacity"));
  EXPECT_THAT(made.fields,
              AllOf(HasSubstr("X-RateLimit-Remaining: -1\r\n"), HasSubstr("Retry-After: 1\r\n")));
}

// As in Spring: the status, and no rate limit headers.
TEST(EmptyKeyReply, HasItsOwnStatusAndNoRateLimitHeaders) {
  RouteConfig nameless = route("api", wire::HeaderStyle::scg);
  EXPECT_EQ(empty_key_reply(nameless, "header x-user-id").status, 403);
  EXPECT_EQ(empty_key_reply(nameless, "header x-user-id").fields,
            "Content-Type: application/problem+json\r\n");
  EXPECT_THAT(empty_key_reply(nameless, "header x-user-id").body,
              HasSubstr("the header x-user-id is missing or empty"));
  nameless.empty_key.deny = 401;
  EXPECT_EQ(empty_key_reply(nameless, "header x-user-id").status, 401);
  EXPECT_EQ(problem_reply(404, "no route").body,
            R"({"type":"about:blank","title":"Not Found","status":404,"detail":"no route"})");
}

}  // namespace
}  // namespace weir::gateway
