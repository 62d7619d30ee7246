#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "weir/parse_limit.h"

namespace weir::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class MetricsTest : public testing::Test {
 protected:
  static PolicySet some_policies() {
    PolicySet set;
    const Limit both[] = {Limit::window(2, std::chrono::hours{1}),
                          Limit::window(5, std::chrono::hours{2})};
    set.add("two", both);
    set.add("a\"b\\c\n", Limit::window(1, std::chrono::hours{1}));
    return set;
  }
  std::string text() const {
    Exposition exposition;
    metrics.append_to(exposition);
    return exposition.text();
  }

  Metrics metrics;
  ManualClock clock;
  Engine engine{some_policies(), {.clock = &clock, .sink = &metrics}};
};

TEST_F(MetricsTest, CountsDecisionsByPolicyAndOutcome) {
  for (int i = 0; i < 3; ++i) (void)engine.take({.policy = "two", .key = "k"});
  (void)engine.take({.policy = "two", .key = "k", .permits = 100});
  EXPECT_THAT(text(),
              AllOf(HasSubstr("weir_decisions_total{policy=\"two\",outcome=\"allowed\"} 2\n"),
                    HasSubstr("weir_decisions_total{policy=\"two\",outcome=\"limited\"} 1\n"),
                    HasSubstr("weir_decisions_total{policy=\"two\",outcome=\"impossible\"} 1\n")));
}

TEST_F(MetricsTest, CountsRefusalsByLimit) {
  for (int i = 0; i < 5; ++i) (void)engine.take({.policy = "two", .key = "k"});
  const std::string all = text();
  EXPECT_THAT(all, HasSubstr("{policy=\"two\",limit=\"0\",shadow=\"false\"} 3\n"));
  EXPECT_THAT(all, Not(HasSubstr("limit=\"1\"")));
}

// A shadow limit that would have refused lets the call pass.
TEST_F(MetricsTest, CountsShadowLimitsSeparately) {
  engine.replace(*PolicySet::parse("policies: { s: { shadow: true, limits: [ 1/h window ] } }"));
  for (int i = 0; i < 3; ++i) (void)engine.take({.policy = "s", .key = "k"});
  EXPECT_THAT(text(),
              AllOf(HasSubstr("{policy=\"s\",limit=\"0\",shadow=\"true\"} 2\n"),
                    HasSubstr("{policy=\"s\",limit=\"0\",shadow=\"false\"} 0\n"),
                    HasSubstr("weir_decisions_total{policy=\"s\",outcome=\"allowed\"} 3\n")));
}

TEST_F(MetricsTest, EscapesLabelValues) {
  (void)engine.take({.policy = "a\"b\\c\n", .key = "k"});
  EXPECT_THAT(text(), HasSubstr("{policy=\"a\\\"b\\\\c\\n\",outcome=\"allowed\"} 1\n"));
}

TEST_F(MetricsTest, CountsLimitsThatComeWithTheCall) {
  (void)engine.throttle(*parse_limit("1/h window"), "k");
  (void)engine.throttle(*parse_limit("1/h window"), "k");
  EXPECT_THAT(text(), AllOf(HasSubstr("{policy=\"\",outcome=\"allowed\"} 1\n"),
                            HasSubstr("{policy=\"\",limit=\"0\",shadow=\"false\"} 1\n")));
}

// Clients choose keys and names of policies, and must not be able to create series.
TEST_F(MetricsTest, HasNoSeriesForKeysOrUnknownPolicies) {
  for (int i = 0; i < 100; ++i) {
    const std::string name = "stranger " + std::to_string(i);
    (void)engine.take({.policy = "two", .key = name});
    (void)engine.take({.policy = name, .key = "k"});
  }
  EXPECT_THAT(text(), Not(HasSubstr("stranger")));
}

TEST_F(MetricsTest, AddsUpTheCountsOfThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 1000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kEach; ++j) {
        (void)engine.take({.policy = "two", .key = "k"});
        metrics.on_requests(ListenerKind::resp, 2, std::chrono::microseconds{3});
      }
    });
  }
  for (int i = 0; i < 100; ++i) (void)text();  // while they count
  for (std::thread& thread : threads) thread.join();
  const std::string all = text();
  EXPECT_THAT(all, HasSubstr("{policy=\"two\",outcome=\"allowed\"} 2\n"));
  EXPECT_THAT(all, HasSubstr("{policy=\"two\",outcome=\"limited\"} 3998\n"));
  EXPECT_THAT(all, HasSubstr("_count{listener=\"resp\"} 8000\n"));
}

TEST_F(MetricsTest, CountsRequestsByDuration) {
  metrics.on_requests(ListenerKind::http, 1, std::chrono::nanoseconds{1000});
  metrics.on_requests(ListenerKind::http, 16, std::chrono::nanoseconds{1001});
  metrics.on_requests(ListenerKind::http, 1, std::chrono::seconds{5});
  EXPECT_THAT(text(), AllOf(HasSubstr("_bucket{listener=\"http\",le=\"1e-06\"} 1\n"),
                            HasSubstr("_bucket{listener=\"http\",le=\"2.5e-06\"} 17\n"),
                            HasSubstr("_bucket{listener=\"http\",le=\"0.1\"} 17\n"),
                            HasSubstr("_bucket{listener=\"http\",le=\"+Inf\"} 18\n"),
                            HasSubstr("_count{listener=\"http\"} 18\n")));
}

}  // namespace
}  // namespace weir::server
