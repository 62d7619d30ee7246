#include "wire/json_write.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace weir::wire {
namespace {

using std::string_view_literals::operator""sv;

std::string json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string written(const Verdict& verdict, const VerdictExtras& extras = {}) {
  std::string out;
  append_verdict(out, verdict, extras);
  return out;
}

std::string written(const ProblemDetails& problem) {
  std::string out;
  append_problem(out, problem);
  return out;
}

TEST(JsonWrite, EscapesStrings) {
  EXPECT_EQ(json(""), R"("")");
  EXPECT_EQ(json("plain"), R"("plain")");
  EXPECT_EQ(json("a\"b\\c/"), R"("a\"b\\c/")");
  EXPECT_EQ(json("\n\r\t\b\x1f\0"sv), R"("\n\r\t\u0008\u001f\u0000")");
  EXPECT_EQ(json("é€😀\x7f"), "\"é€😀\x7f\"");
}

TEST(JsonWrite, ReplacesInvalidUtf8) {
  const std::string mark = "\xef\xbf\xbd";
  EXPECT_EQ(json("a\xff"
                 "b"),
            "\"a" + mark + "b\"");
  EXPECT_EQ(json("\x80"), "\"" + mark + "\"");
  EXPECT_EQ(json("\xe2\x82"), "\"" + mark + "\"");                    // cut short
  EXPECT_EQ(json("\xe2\x82z"), "\"" + mark + "z\"");                  // cut short by a letter
  EXPECT_EQ(json("\xc0\xaf"), "\"" + mark + mark + "\"");             // longer than needed
  EXPECT_EQ(json("\xed\xa0\x80"), "\"" + mark + mark + mark + "\"");  // a surrogate
  EXPECT_EQ(json("\xf4\x90\x80\x80"), "\"" + mark + mark + mark + mark + "\"");  // beyond Unicode
}

TEST(JsonWrite, WritesAVerdict) {
  const Verdict verdict{.decision = {.outcome = Outcome::allowed,
                                     .limit = 100,
                                     .remaining = 99,
                                     .reset_after = Nanos{10'000'000},
                                     .wait = Nanos{5'000'001}},
                        .limited_by = "0"};
  EXPECT_EQ(written(verdict),
            R"({"allowed":true,"limit":100,"remaining":99,"retry_after_ms":0,)"
            R"("reset_after_ms":10,"wait_ms":6,"limited_by":"0","degraded":false})");
}

TEST(JsonWrite, WritesARefusal) {
  const Verdict verdict{.decision = {.outcome = Outcome::limited,
                                     .limit = 5,
                                     .retry_after = Nanos{1},
                                     .reset_after = kForever},
                        .limited_by = "to\"kens",
                        .degraded = true};
  EXPECT_EQ(
      written(verdict),
      R"({"allowed":false,"limit":5,"remaining":0,"retry_after_ms":1,)"
      R"("reset_after_ms":9223372036855,"wait_ms":0,"limited_by":"to\"kens","degraded":true})");
}

TEST(JsonWrite, WritesNullForARetryThatNeverPasses) {
  const Verdict verdict{.decision = {.outcome = Outcome::impossible, .retry_after = kNever}};
  EXPECT_EQ(written(verdict),
            R"({"allowed":false,"limit":0,"remaining":0,"retry_after_ms":null,)"
            R"("reset_after_ms":0,"wait_ms":0,"limited_by":"","degraded":false})");
}

TEST(JsonWrite, AddsAReceiptAndAHolder) {
  const std::string text = written(Verdict{}, {.receipt = "r", .holder = "h\n"});
  EXPECT_TRUE(text.ends_with(R"("degraded":false,"receipt":"r","holder":"h\n"})")) << text;
}

TEST(JsonWrite, RoundsMillisecondsUp) {
  EXPECT_EQ(millis_up(Nanos{0}), 0);
  EXPECT_EQ(millis_up(Nanos{1}), 1);
  EXPECT_EQ(millis_up(Nanos{1'000'000}), 1);
  EXPECT_EQ(millis_up(Nanos{1'000'001}), 2);
}

TEST(JsonWrite, WritesProblems) {
  EXPECT_EQ(written(ProblemDetails{.status = 404, .detail = "there is no policy \"x\""}),
            R"({"type":"about:blank","title":"Not Found","status":404,)"
            R"("detail":"there is no policy \"x\""})");
  EXPECT_EQ(written(ProblemDetails{.detail = "\"key\" is missing", .field = "key"}),
            R"({"type":"about:blank","title":"Bad Request","status":400,)"
            R"("detail":"\"key\" is missing","field":"key"})");
  constexpr std::array<std::string_view, 2> names{"burst", "daily"};
  EXPECT_EQ(written(ProblemDetails{.status = 429,
                                   .detail = "wait",
                                   .type = kQuotaExceeded,
                                   .title = "Quota exceeded",
                                   .violated_policies = names}),
            R"({"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",)"
            R"("title":"Quota exceeded","status":429,"detail":"wait",)"
            R"("violated-policies":["burst","daily"]})");
}

TEST(JsonWrite, WritesTheErrorOfAnItem) {
  std::string out;
  append_item_error(out, "\"key\" is missing");
  EXPECT_EQ(out, R"({"error":"\"key\" is missing"})");
}

}  // namespace
}  // namespace weir::wire
