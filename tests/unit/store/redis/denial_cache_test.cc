#include "store/redis/denial_cache.h"

#include <gtest/gtest.h>

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;

class DenialCacheTest : public testing::Test {
 protected:
  struct Take {
    std::vector<core::Limit> limits;
    std::vector<StoreItem> items;
    StoreRequest request;
  };

  // A take of one key of each limit.
  std::unique_ptr<Take> take(std::vector<core::Limit> limits, Permits cost = 3,
                             Nanos max_wait = milliseconds{20}) {
    auto made = std::make_unique<Take>();
    made->limits = std::move(limits);
    constexpr std::array<std::string_view, 3> keys{"one", "two", "three"};
    for (std::size_t i = 0; i < made->limits.size(); ++i) {
      made->items.push_back({.limit = &made->limits[i], .key = keys[i], .ask = {cost, max_wait}});
    }
    made->request.items = made->items;
    return made;
  }

  static StoreResponse denial(std::size_t count, Nanos retry_after) {
    const core::Decision refused{.outcome = Outcome::limited,
                                 .limit = 10,
                                 .remaining = 2,
                                 .retry_after = retry_after,
                                 .reset_after = std::chrono::seconds{5}};
    StoreResponse response{.kind = StoreResponse::Kind::decided, .now = instant(1'000'000)};
    response.decisions.assign(count, {.limit = 10, .remaining = 4});
    response.decisions.back() = refused;
    response.verdict = {.decision = refused, .tightest = count - 1, .refusing = 1u << (count - 1)};
    return response;
  }

  bool denies(const Take& take_of_one) { return cache.lookup(take_of_one.request, now, response); }

  const core::Limit ten = core::Window{.count = 10};
  const core::Limit twenty = core::Window{.count = 20};
  DenialCache cache{7};
  Nanos now = std::chrono::hours{1};
  StoreResponse response;
};

TEST_F(DenialCacheTest, RepeatsTheDenialWithDurationsReducedByTheElapsedTime) {
  const auto take_of_one = take({ten});
  EXPECT_FALSE(denies(*take_of_one));
  cache.insert(take_of_one->request, denial(1, milliseconds{80}), now);
  now += milliseconds{30};
  ASSERT_TRUE(denies(*take_of_one));
  EXPECT_EQ(response.kind, StoreResponse::Kind::decided);
  EXPECT_EQ(response.verdict.decision.outcome, Outcome::limited);
  EXPECT_EQ(response.verdict.decision.retry_after, milliseconds{50});
  EXPECT_EQ(response.verdict.decision.reset_after, milliseconds{4970});
  EXPECT_EQ(response.verdict.decision.remaining, 2);
  EXPECT_EQ(response.decisions, (std::vector{response.verdict.decision}));
  EXPECT_EQ(response.now, instant(31'000'000));
}

TEST_F(DenialCacheTest, ExpiresAtItsRetryTime) {
  const auto take_of_one = take({ten});
  cache.insert(take_of_one->request, denial(1, milliseconds{80}), now);
  now += milliseconds{80};
  EXPECT_FALSE(denies(*take_of_one));
}

TEST_F(DenialCacheTest, ExpiresAfter100Milliseconds) {
  const auto take_of_one = take({ten});
  cache.insert(take_of_one->request, denial(1, std::chrono::hours{1}), now);
  now += milliseconds{100} - Nanos{1};
  EXPECT_TRUE(denies(*take_of_one));
  now += Nanos{1};
  EXPECT_FALSE(denies(*take_of_one));
}

TEST_F(DenialCacheTest, DoesNotMatchAnotherCostOrMaxWait) {
  cache.insert(take({ten})->request, denial(1, milliseconds{80}), now);
  EXPECT_TRUE(denies(*take({ten}, 3, milliseconds{20})));
  for (const Permits cost : {2, 4, 11}) EXPECT_FALSE(denies(*take({ten}, cost)));
  for (const int max_wait : {0, 21}) {
    EXPECT_FALSE(denies(*take({ten}, 3, milliseconds{max_wait})));
  }
}

TEST_F(DenialCacheTest, CachesEachCostByItself) {
  for (const Permits cost : {1, 2, 3, 4}) {
    cache.insert(take({ten}, cost)->request, denial(1, cost * milliseconds{20}), now);
  }
  for (const Permits cost : {1, 2, 3, 4}) {
    ASSERT_TRUE(denies(*take({ten}, cost)));
    EXPECT_EQ(response.verdict.decision.retry_after, cost * milliseconds{20});
  }
}

TEST_F(DenialCacheTest, DoesNotCacheAnImpossibleCall) {
  const auto take_of_one = take({ten}, 11);
  StoreResponse never = denial(1, kNever);
  never.decisions[0].outcome = never.verdict.decision.outcome = Outcome::impossible;
  cache.insert(take_of_one->request, never, now);
  EXPECT_FALSE(denies(*take_of_one));
}

TEST_F(DenialCacheTest, ARaisedLimitTakesEffectAtOnce) {
  cache.insert(take({ten})->request, denial(1, milliseconds{80}), now);
  EXPECT_FALSE(denies(*take({twenty})));
  EXPECT_FALSE(denies(*take({core::SlidingCounter{.count = 10}})));
  EXPECT_FALSE(denies(*take({core::Window{.count = 10, .from_first = true}})));
}

TEST_F(DenialCacheTest, DoesNotMatchAQuotaOfAnotherCalendar) {
  struct Days final : core::Calendar {
    core::Span span_at(Instant) const override { return {}; }
  };
  const auto here = std::make_shared<Days>();
  const auto quota = [](std::shared_ptr<const core::Calendar> calendar) {
    return core::CalendarWindow{.count = 10, .calendar = std::move(calendar)};
  };
  cache.insert(take({quota(here)})->request, denial(1, milliseconds{80}), now);
  EXPECT_TRUE(denies(*take({quota(here)})));
  EXPECT_FALSE(denies(*take({quota(std::make_shared<Days>())})));
}

TEST_F(DenialCacheTest, CachesSeveralLimitsTogether) {
  cache.insert(take({ten, twenty})->request, denial(2, milliseconds{80}), now);
  ASSERT_TRUE(denies(*take({ten, twenty})));
  EXPECT_EQ(response.decisions.size(), 2u);
  EXPECT_EQ(response.verdict.tightest, 1u);
  EXPECT_EQ(response.verdict.refusing, 2u);
  EXPECT_FALSE(denies(*take({ten})));
  EXPECT_FALSE(denies(*take({ten, ten})));
  EXPECT_FALSE(denies(*take({ten, twenty, ten})));
}

TEST_F(DenialCacheTest, DoesNotCacheAdmissionsAndFailures) {
  const auto take_of_one = take({ten});
  StoreResponse passed = denial(1, milliseconds{80});
  passed.verdict.decision.outcome = passed.decisions[0].outcome = Outcome::allowed;
  cache.insert(take_of_one->request, passed, now);
  StoreResponse failed = denial(1, milliseconds{80});
  failed.kind = StoreResponse::Kind::unavailable;
  cache.insert(take_of_one->request, failed, now);
  EXPECT_FALSE(denies(*take_of_one));
}

TEST_F(DenialCacheTest, DoesNotCacheConcurrencyAndShadowLimits) {
  const auto concurrent = take({core::Concurrency{.count = 10}});
  cache.insert(concurrent->request, denial(1, milliseconds{80}), now);
  EXPECT_FALSE(denies(*concurrent));
  const auto with_shadow = take({ten, twenty});
  with_shadow->items[0].shadow = true;
  cache.insert(with_shadow->request, denial(2, milliseconds{80}), now);
  EXPECT_FALSE(denies(*with_shadow));
}

TEST_F(DenialCacheTest, DeniesTakesOnly) {
  const auto take_of_one = take({ten});
  cache.insert(take_of_one->request, denial(1, milliseconds{80}), now);
  for (const StoreVerb verb :
       {StoreVerb::peek, StoreVerb::settle, StoreVerb::reset, StoreVerb::enter, StoreVerb::leave}) {
    take_of_one->request.verb = verb;
    EXPECT_FALSE(denies(*take_of_one));
  }
}

TEST_F(DenialCacheTest, RequestsThatMayEndADenialInvalidateIt) {
  for (const StoreVerb verb : {StoreVerb::settle, StoreVerb::reset, StoreVerb::leave}) {
    cache.insert(take({ten, twenty})->request, denial(2, milliseconds{80}), now);
    EXPECT_TRUE(denies(*take({ten, twenty})));
    const auto other = take({ten});
    other->request.verb = verb;
    cache.invalidate(other->request);
    EXPECT_FALSE(denies(*take({ten, twenty})));
  }
}

TEST_F(DenialCacheTest, ManyKeysEvictOthersButNeverAnswerForThem) {
  for (int i = 0; i < 10'000; ++i) {
    const std::string key = "key " + std::to_string(i);
    const auto take_of_one = take({ten});
    take_of_one->items[0].key = key;
    EXPECT_FALSE(denies(*take_of_one)) << key;
    cache.insert(take_of_one->request, denial(1, milliseconds{80}), now);
    EXPECT_TRUE(denies(*take_of_one)) << key;
  }
}

}  // namespace
}  // namespace weir::store::redis
