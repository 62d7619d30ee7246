// take_all decides a batch like single calls in the same order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "world.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

void expect_same(const Verdict& a, const Verdict& b) {
  EXPECT_EQ(a.decision, b.decision);
  EXPECT_EQ(a.limited_by, b.limited_by);
  EXPECT_EQ(a.refusing, b.refusing);
  EXPECT_EQ(a.degraded, b.degraded);
  EXPECT_EQ(a.error, b.error);
}

constexpr std::string_view kPolicies =
    "bucket: { limits: [ 5/s ] }, several: { limits: [ 7/s, { limit: 20/min, name: minute }, "
    "{ limit: 2/s, shadow: true } ] }, exact: { limits: [ 4/s sliding exact ] }, "
    "queue: { limits: [ 2/s queue 3 ] }, user: { limits: [ { by: user, limit: 3/s } ] }, "
    "report: { limits: [ 2 concurrent ] }";

// A mix of requests: few keys, many policies, and invalid ones.
Request random_request(std::minstd_rand& random) {
  static constexpr std::string_view policies[] = {"bucket", "several", "exact", "queue",
                                                  "user",   "report",  "none",  "bucket"};
  static constexpr std::string_view keys[] = {"a", "b", "c", ""};
  Request request{.policy = policies[random() % 8]};
  if (random() % 4 == 0) {
    request.parts = {{"user", keys[random() % 4]}};
  } else {
    request.key = keys[random() % 4];
  }
  request.permits = static_cast<Permits>(random() % 4);
  if (random() % 4 == 0) request.max_wait = Nanos{random() % 3 * 500'000'000};
  return request;
}

// In order, with repeated keys, and each error at its position.
TEST(EngineBatch, GivesTheVerdictsOfSingleCalls) {
  std::minstd_rand random(20260101);
  World together{kPolicies};
  World one_by_one{kPolicies};
  int passed = 0;
  int errors = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Request> requests(random() % 50);
    for (Request& request : requests) request = random_request(random);
    std::vector<Verdict> verdicts(requests.size());
    together.engine.take_all(requests, verdicts);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Verdict alone = one_by_one.engine.take(requests[i]);
      expect_same(verdicts[i], alone);
      passed += alone ? 1 : 0;
      errors += alone.error.empty() ? 0 : 1;
    }
    const Nanos later{random() % 3 * 200'000'000};
    together.clock.advance(later);
    one_by_one.clock.advance(later);
  }
  EXPECT_GT(passed, 500);
  EXPECT_GT(errors, 500);
}

TEST(EngineBatch, AcceptsAnySize) {
  for (const std::size_t size : {0u, 1u, 15u, 16u, 17u, 32u, 33u, 1000u}) {
    World world{"api: { limits: [ 20/h, 1000/h ] }"};
    const std::vector<Request> requests(size, Request{.policy = "api", .key = "k"});
    std::vector<Verdict> verdicts(size);
    world.engine.take_all(requests, verdicts);
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_EQ(static_cast<bool>(verdicts[i]), i < 20) << size;
      EXPECT_EQ(verdicts[i].decision.remaining, i < 20 ? 19 - static_cast<Permits>(i) : 0);
    }
  }
}

// The verdicts of an earlier batch must not remain.
TEST(EngineBatch, OverwritesEarlierVerdicts) {
  World world{"api: { limits: [ 20/h ] }"};
  const std::vector<Request> requests{{.policy = "nope", .key = "k"},
                                      {.policy = "api", .key = "k"}};
  std::vector<Verdict> verdicts(2);
  world.engine.take_all(requests, verdicts);
  std::ranges::swap(verdicts[0], verdicts[1]);
  world.engine.take_all(requests, verdicts);
  EXPECT_EQ(verdicts[0].error, "there is no policy \"nope\"");
  EXPECT_FALSE(verdicts[0]);
  EXPECT_EQ(verdicts[1].error, "");
  EXPECT_EQ(verdicts[1].decision.remaining, 18);
}

}  // namespace
}  // namespace weir
