// The service without its store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_fleet.h"
#include "world.h"

namespace weir::envoy {
namespace {

using policy::OnStoreFailure;
using ::testing::HasSubstr;

constexpr std::string_view kRules = R"(
domain: d
descriptors:
  - { key: k, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - { key: all, rate_limit: { unlimited: true } }
)";

class StoreOutage : public ::testing::Test {
 protected:
  void serve(OnStoreFailure mode, bool as_envoyproxy = false) {
    engine_.emplace(PolicySet{}, EngineOptions{.memory = {.bytes = std::size_t{1} << 20},
                                               .clock = &clock_,
                                               .fleet = &fleet_});
    service_.emplace(*engine_);
    service_->use(rules(kRules), {.as_envoyproxy = as_envoyproxy, .on_store_failure = mode});
  }
  void ask(std::vector<RateLimitDescriptor> descriptors, std::uint32_t hits = 1) {
    const std::string domain = "d";
    RateLimitRequest call{.domain = domain, .descriptors = std::move(descriptors), .hits = hits};
    answer_.reset();
    service_->should_rate_limit(call, *link_, [&](Result<RateLimitResponse, ServiceError> given) {
      EXPECT_FALSE(answer_.has_value());
      answer_ = std::move(given);
    });
    // The request may go out of scope here.
  }
  Code overall() const { return answer_ && *answer_ ? (*answer_)->overall : Code::unknown; }

  ManualClock clock_;
  FakeFleet fleet_;
  std::unique_ptr<Link> link_ = fleet_.connect();
  std::optional<Engine> engine_;
  std::optional<RateLimitService> service_;
  std::optional<Result<RateLimitResponse, ServiceError>> answer_;
};

TEST_F(StoreOutage, IsAnErrorByDefault) {
  for (const bool as_envoyproxy : {false, true}) {
    serve(OnStoreFailure::error, as_envoyproxy);
    fleet_.mode = FakeFleet::Mode::unavailable;
    ask({of({{"k", "v"}})});
    ASSERT_TRUE(answer_ && !*answer_);
    EXPECT_TRUE(answer_->error().store);
    EXPECT_EQ(answer_->error().text, "the store could not be asked: it is not there");
    EXPECT_EQ(service_->counts().store_errors, 1U);
    // Descriptors without a limit need no store.
    ask({of({{"all", "v"}}), of({{"other", "v"}})});
    EXPECT_EQ(overall(), Code::ok);
    fleet_.mode = FakeFleet::Mode::answers;
    ask({of({{"k", "v"}})});
    EXPECT_EQ(overall(), Code::ok);
  }
}

TEST_F(StoreOutage, UsesThisNodesPartUnderLocal) {
  serve(OnStoreFailure::local);
  fleet_.node_count = 5;
  fleet_.mode = FakeFleet::Mode::unavailable;
  std::vector<Code> codes;
  for (int i = 0; i < 3; ++i) {
    ask({of({{"k", "v"}})});
    codes.push_back(overall());
  }
  EXPECT_THAT(codes, ::testing::ElementsAre(Code::ok, Code::ok, Code::over_limit));
  EXPECT_EQ(service_->counts().degraded, 3U);
  EXPECT_EQ(service_->counts().store_errors, 0U);
}

TEST_F(StoreOutage, AllowsUnderOpenAndRefusesUnderClosed) {
  serve(OnStoreFailure::open);
  fleet_.mode = FakeFleet::Mode::unavailable;
  ask({of({{"k", "v"}}), of({{"all", "v"}})}, 100);
  EXPECT_EQ(overall(), Code::ok);
  serve(OnStoreFailure::closed);
  ask({of({{"k", "v"}}), of({{"all", "v"}})});
  EXPECT_EQ(overall(), Code::over_limit);
  EXPECT_EQ((*answer_)->statuses[0].code, Code::over_limit);
  EXPECT_EQ((*answer_)->statuses[1].code, Code::ok);
}

// A configuration error must be noticed: it never allows requests.
TEST_F(StoreOutage, NeverAllowsOnAConfigurationError) {
  serve(OnStoreFailure::open);
  fleet_.mode = FakeFleet::Mode::misconfigured;
  ask({of({{"k", "v"}})});
  EXPECT_EQ(overall(), Code::over_limit);
  fleet_.mode = FakeFleet::Mode::unavailable;
  ask({of({{"k", "v"}})});
  EXPECT_EQ(overall(), Code::ok);
}

// The request is out of scope when the response comes.
TEST_F(StoreOutage, DelaysTheResponse) {
  serve(OnStoreFailure::error);
  fleet_.mode = FakeFleet::Mode::waits;
  {
    const std::string value(100, 'v');
    std::vector<RateLimitDescriptor> many;
    for (int i = 0; i < 20; ++i) many.push_back(of({{"k", value}}));
    many.resize(3);
    ask(std::move(many));
  }
  EXPECT_FALSE(answer_.has_value());
  while (fleet_.waiting() > 0) fleet_.deliver();
  EXPECT_EQ(overall(), Code::ok);
  EXPECT_EQ((*answer_)->statuses.size(), 3U);
}

// Charges before the outage are refunded once the store answers.
TEST_F(StoreOutage, IsAnErrorBetweenTwoBatches) {
  serve(OnStoreFailure::error);
  fleet_.mode = FakeFleet::Mode::waits;
  ask({of({{"k", "v"}}), of({{"k", "v"}})});  // the same counter: two batches
  fleet_.mode = FakeFleet::Mode::unavailable;
  // The first answer was in flight.
  fleet_.deliver();
  ASSERT_TRUE(answer_.has_value());
  EXPECT_FALSE(*answer_);
}

}  // namespace
}  // namespace weir::envoy
