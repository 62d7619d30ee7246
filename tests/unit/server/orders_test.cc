#include "server/orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../../support/folder.h"
#include "base/date.h"
#include "server/policies.h"
#include "weir/quota.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Verb = policy::Order::Verb;

const Instant kNow = *parse_date("2026-01-01T00:00:00Z");

GivenOrder order(Verb verb, const char* text) {
  auto given = read_order(verb, json::parse(text), kNow);
  EXPECT_TRUE(given) << given.error().detail;
  return *std::move(given);
}

std::string wrong_field(Verb verb, const char* text) {
  const auto given = read_order(verb, json::parse(text), kNow);
  return given ? "nothing" : given.error().field;
}

TEST(OrderReader, ReadsEveryVerb) {
  const GivenOrder boost =
      order(Verb::boost, R"({"policy":"p","key":"alice","times":1.5,"for":"10min"})");
  EXPECT_EQ(boost.policy, "p");
  EXPECT_EQ(boost.order.who, "alice");
  EXPECT_EQ(boost.order.change.millionths, 1'500'000);
  EXPECT_EQ(boost.order.until, kNow + 10min);
  EXPECT_EQ(order(Verb::boost, R"({"policy":"p","add":7,"for":"1s"})").order.change.more, 7);
  EXPECT_EQ(order(Verb::block, R"({"policy":"p","key":"*","for":"1s"})").order.who, "*");
  EXPECT_EQ(order(Verb::squeeze, R"({"times":0.25,"until":"2026-01-01T01:00:00Z"})").order.until,
            kNow + 1h);
}

// The key "*" of a boost means the same as no key.
TEST(OrderReader, ReadsABoostOfAStarAsABoostOfAllKeys) {
  EXPECT_EQ(order(Verb::boost, R"({"policy":"p","key":"*","times":2,"for":"1s"})").order.who, "");
}

TEST(OrderReader, NamesTheInvalidField) {
  const auto boost = [](const char* text) { return wrong_field(Verb::boost, text); };
  EXPECT_EQ(boost(R"({"times":2,"for":"1s"})"), "policy");
  EXPECT_EQ(boost(R"({"policy":"","times":2,"for":"1s"})"), "policy");
  EXPECT_EQ(boost(R"({"policy":7,"times":2,"for":"1s"})"), "policy");
  EXPECT_EQ(boost(R"({"policy":"p","for":"1s"})"), "times");
  EXPECT_EQ(boost(R"({"policy":"p","times":2,"add":1,"for":"1s"})"), "add");
  EXPECT_EQ(boost(R"({"policy":"p","key":"","times":2,"for":"1s"})"), "key");
  EXPECT_EQ(boost(R"({"policy":"p","keys":"a","times":2,"for":"1s"})"), "keys");
  for (const char* times : {"1", "0", "-2", "0.5", "1001", "1e300", "\"2\"", "null", "1.0000001"}) {
    EXPECT_EQ(
        boost(("{\"policy\":\"p\",\"for\":\"1s\",\"times\":" + std::string{times} + "}").c_str()),
        "times")
        << times;
  }
  for (const char* add :
       {"0", "-1", "1.5", "9223372036854775808", "18446744073709551615", "\"1\""}) {
    EXPECT_EQ(boost(("{\"policy\":\"p\",\"for\":\"1s\",\"add\":" + std::string{add} + "}").c_str()),
              "add")
        << add;
  }
  EXPECT_EQ(boost(R"({"policy":"p","times":2})"), "for");
  EXPECT_EQ(boost(R"({"policy":"p","times":2,"for":"1s","until":"2027-01-01T00:00:00Z"})"), "for");
  EXPECT_EQ(boost(R"({"policy":"p","times":2,"for":"soon"})"), "for");
  EXPECT_EQ(boost(R"({"policy":"p","times":2,"for":"0s"})"), "for");
  EXPECT_EQ(boost(R"({"policy":"p","times":2,"for":"9000h"})"), "for");
  EXPECT_EQ(boost(R"({"policy":"p","times":2,"until":"2026-01-01T00:00:00Z"})"), "until");
  EXPECT_EQ(boost(R"({"policy":"p","times":2,"until":"tomorrow"})"), "until");
  EXPECT_EQ(boost("[]"), "");

  EXPECT_EQ(wrong_field(Verb::block, R"({"policy":"p","for":"1s"})"), "key");
  EXPECT_EQ(wrong_field(Verb::block, R"({"policy":"p","key":"k","times":2,"for":"1s"})"), "times");
  EXPECT_EQ(wrong_field(Verb::pause, R"({"policy":"p","key":"k","for":"1s"})"), "key");
  EXPECT_EQ(wrong_field(Verb::pause, R"({"for":"1s"})"), "policy");
  EXPECT_EQ(wrong_field(Verb::squeeze, R"({"for":"1s"})"), "times");
  EXPECT_EQ(wrong_field(Verb::squeeze, R"({"times":1,"for":"1s"})"), "times");
  EXPECT_EQ(wrong_field(Verb::squeeze, R"({"times":0.0000001,"for":"1s"})"), "times");
  EXPECT_EQ(wrong_field(Verb::squeeze, R"({"add":1,"times":0.5,"for":"1s"})"), "add");
}

TEST(OrderReader, RestoresASavedOrder) {
  for (const GivenOrder& given :
       {order(Verb::boost, R"({"policy":"p","key":"a\n\"b","times":1.25,"for":"10min"})"),
        order(Verb::boost, R"({"policy":"p","add":12,"for":"10min"})"),
        order(Verb::block, R"({"policy":"p","key":"*","for":"1s"})"),
        order(Verb::pause, R"({"policy":"p","for":"1s"})"),
        order(Verb::squeeze, R"({"times":0.333333,"for":"366h"})")}) {
    const auto again = read_saved_order(to_json(given));
    ASSERT_TRUE(again) << again.error().detail;
    EXPECT_EQ(to_json(*again), to_json(given));
  }
}

TEST(OrderReader, RefusesAnInvalidSavedOrder) {
  for (const char* text :
       {"7", "{}", R"({"id":1})",
        R"({"id":-1,"verb":"pause","policy":"p","until":"2026-01-01T00:00:00Z"})",
        R"({"id":1,"verb":"sing","policy":"p","until":"2026-01-01T00:00:00Z"})",
        R"({"id":1,"verb":"pause","policy":"p"})",
        R"({"id":1,"verb":"pause","policy":"p","until":7})",
        R"({"id":1,"verb":"pause","until":"2026-01-01T00:00:00Z"})"}) {
    EXPECT_FALSE(read_saved_order(json::parse(text))) << text;
  }
}

TEST(OrderReader, EscapesLineEndsInTheTextOfAnOrder) {
  EXPECT_EQ(to_text(order(Verb::boost, R"({"policy":"p","key":"a\nb","times":1.5,"for":"1h"})")),
            "boost ×1.5 of \"a\\nb\" under \"p\" until 2026-01-01T01:00:00Z");
  EXPECT_EQ(to_text(order(Verb::squeeze, R"({"times":0.5,"for":"1h"})")),
            "squeeze ×0.5 everywhere until 2026-01-01T01:00:00Z");
}

// Policies with an engine on a manual clock, and a state file.
class GivenOrderTest : public testing::Test {
 protected:
  GivenOrderTest() : engine(PolicySet{}, {.memory = {.bytes = 1 << 20}, .clock = &clock}) {
    policies.emplace(state());
    EXPECT_FALSE(policies->put(engine, "p", "limits: [ 10/min ]"));
  }
  std::string state() const { return folder / "state"; }
  std::string path(const std::string& what) const { return state() + "." + what; }

  GivenOrder give(Verb verb, const char* text) {
    auto read = read_order(verb, json::parse(text), engine.now());
    EXPECT_TRUE(read) << read.error().detail;
    auto given = policies->give(engine, *std::move(read));
    EXPECT_TRUE(given) << given.error().message;
    return *std::move(given);
  }
  std::vector<std::uint64_t> ids() const {
    std::vector<std::uint64_t> all;
    for (const GivenOrder& given : policies->orders(engine.now())) all.push_back(given.id);
    return all;
  }
  Permits limit(std::string_view key = "k") {
    return engine.peek({.policy = "p", .key = key}).decision.limit;
  }

  const support::Folder folder;
  ManualClock clock;
  Engine engine;
  std::optional<Policies> policies;
};

TEST_F(GivenOrderTest, EndsAtItsTimeAndIsReportedOnce) {
  give(Verb::boost, R"({"policy":"p","times":2,"for":"1min"})");
  EXPECT_THAT(ids(), ElementsAre(1));
  EXPECT_EQ(limit(), 20);
  EXPECT_THAT(policies->ended_orders(engine), IsEmpty());
  clock.advance(1min);
  EXPECT_THAT(ids(), IsEmpty());
  EXPECT_EQ(limit(), 10);
  EXPECT_EQ(policies->ended_orders(engine).size(), 1u);
  EXPECT_THAT(policies->ended_orders(engine), IsEmpty());
}

TEST_F(GivenOrderTest, ReplacesAnEarlierOneAboutTheSame) {
  give(Verb::boost, R"({"policy":"p","times":2,"for":"1min"})");
  give(Verb::boost, R"({"policy":"p","times":3,"for":"1min"})");
  give(Verb::boost, R"({"policy":"p","key":"k","times":4,"for":"1min"})");
  EXPECT_THAT(ids(), ElementsAre(2, 3));
  EXPECT_EQ(limit("other"), 30);
  EXPECT_EQ(limit("k"), 120) << "of what it would have";
}

TEST_F(GivenOrderTest, IsLiftedOnlyOnce) {
  give(Verb::squeeze, R"({"times":0.5,"for":"1min"})");
  EXPECT_EQ(limit(), 5);
  EXPECT_TRUE(*policies->lift(engine, 1));
  EXPECT_EQ(limit(), 10);
  EXPECT_FALSE(*policies->lift(engine, 1));
  EXPECT_FALSE(*policies->lift(engine, 2));
}

TEST_F(GivenOrderTest, SurvivesARestartWithItsId) {
  give(Verb::boost, R"({"policy":"p","times":2,"for":"1min"})");
  give(Verb::block, R"({"policy":"p","key":"k","for":"1h"})");
  policies.emplace(state());
  EXPECT_FALSE(policies->restore());
  policies->use_file({}, &engine);
  EXPECT_THAT(ids(), ElementsAre(1, 2));
  EXPECT_EQ(limit("other"), 20);
  EXPECT_TRUE(engine.take({.policy = "p", .key = "k"}).blocked);
  EXPECT_EQ(give(Verb::pause, R"({"policy":"p","for":"1s"})").id, 3u);
}

TEST_F(GivenOrderTest, SurvivesAChangeOfThePolicy) {
  give(Verb::boost, R"({"policy":"p","times":2,"for":"1min"})");
  EXPECT_FALSE(policies->put(engine, "p", "limits: [ 50/min ]"));
  EXPECT_EQ(limit(), 100);
}

TEST_F(GivenOrderTest, IsRefusedIfALimitCannotFollow) {
  EXPECT_FALSE(policies->put(engine, "p", "limits: [ 4000/min sliding exact ]"));
  const auto read = read_order(Verb::boost, json::parse(R"({"policy":"p","times":2,"for":"1min"})"),
                               engine.now());
  const auto given = policies->give(engine, *read);
  ASSERT_FALSE(given);
  EXPECT_THAT(given.error().message, HasSubstr("4000/min sliding exact cannot be changed"));
  EXPECT_THAT(ids(), IsEmpty());
}

// The error names the limit, also one that is not in force at the moment.
TEST_F(GivenOrderTest, IsRefusedIfAnOverrideOrAScheduleCannotFollow) {
  const auto refusal = [&](const char* text) {
    const auto read = read_order(Verb::boost, json::parse(text), engine.now());
    const auto given = policies->give(engine, *read);
    return given ? "given" : given.error().message;
  };
  EXPECT_FALSE(policies->put(engine, "p", R"(
limits: [ 10/min ]
overrides: { 'vip-7': { limits: [ 4000/min sliding exact ] } }
schedule: [ { hours: '01:00-02:00', limits: [ 3000/h sliding exact ] } ])"));
  for (const char* all : {R"({"policy":"p","times":1.1,"for":"1min"})",
                          R"({"policy":"p","key":"vip*","times":1.1,"for":"1min"})",
                          R"({"policy":"p","key":"vip-7","times":1.1,"for":"1min"})"}) {
    EXPECT_THAT(refusal(all), AllOf(HasSubstr("4000/min sliding exact of the override \"vip-7\""),
                                    HasSubstr("more than the algorithm can count")))
        << all;
  }
  EXPECT_THAT(refusal(R"({"policy":"p","key":"k","times":2,"for":"1min"})"),
              HasSubstr("3000/h sliding exact of the hours 01:00-02:00"));
  EXPECT_THAT(ids(), IsEmpty());
  // Each of these two orders is possible, but not both together.
  give(Verb::boost, R"({"policy":"p","key":"k","times":1.3,"for":"1min"})");
  EXPECT_THAT(refusal(R"({"policy":"p","key":"vip-7","times":1.02,"for":"1min"})"), "given");
  EXPECT_THAT(refusal(R"({"policy":"p","times":1.02,"for":"1min"})"),
              HasSubstr("of the override \"vip-7\""));
}

TEST_F(GivenOrderTest, IsFoundByTheRequestsItConcerns) {
  give(Verb::block, R"({"policy":"p","key":"bad*","for":"1h"})");
  give(Verb::boost, R"({"policy":"p","key":"user=7","times":2,"for":"1h"})");
  give(Verb::squeeze, R"({"times":0.5,"for":"1h"})");
  const auto concerning = [&](const Request& request) {
    std::vector<std::uint64_t> all;
    for (const GivenOrder& given : policies->orders_for(request, engine.now()))
      all.push_back(given.id);
    return all;
  };
  EXPECT_THAT(concerning({.policy = "p", .key = "badger"}), ElementsAre(1, 3));
  EXPECT_THAT(concerning({.policy = "p", .key = "good"}), ElementsAre(3));
  EXPECT_THAT(concerning({.policy = "p", .parts = {{"user", "7"}}}), ElementsAre(2, 3));
  EXPECT_THAT(concerning({.policy = "q", .key = "badger"}), ElementsAre(3));
}

TEST_F(GivenOrderTest, IsDeletedADayAfterItsEnd) {
  give(Verb::boost, R"({"policy":"p","times":2,"for":"1min"})");
  clock.advance(24h + 1min);
  (void)policies->ended_orders(engine);
  std::ifstream kept(path("orders"));
  EXPECT_TRUE(json::parse(kept).empty());
}

TEST_F(GivenOrderTest, ADamagedFileFailsTheStart) {
  for (const char* text : {"", "{}", "[{}]", "[", "null"}) {
    std::ofstream(path("orders")) << text;
    policies.emplace(state());
    const auto error = policies->restore();
    ASSERT_TRUE(error) << text;
    EXPECT_THAT(error->message, HasSubstr("is damaged: move it away"));
  }
}

TEST_F(GivenOrderTest, IsRefusedIfItCannotBeSaved) {
  policies.emplace("/nowhere/at/all");
  EXPECT_FALSE(policies->give(engine, order(Verb::squeeze, R"({"times":0.5,"for":"1h"})")));
  EXPECT_THAT(ids(), IsEmpty());
}

}  // namespace
}  // namespace weir::server
