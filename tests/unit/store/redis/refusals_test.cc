#include "store/redis/refusals.h"

#include <gtest/gtest.h>

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;

class RefusalsTest : public testing::Test {
 protected:
  struct Take {
    std::vector<core::Limit> limits;
    std::vector<SharedItem> items;
    SharedQuestion question;
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
    made->question.items = made->items;
    return made;
  }

  static SharedAnswer refusal(std::size_t count, Nanos retry_after) {
    const core::Decision refused{.outcome = Outcome::limited,
                                 .limit = 10,
                                 .remaining = 2,
                                 .retry_after = retry_after,
                                 .reset_after = std::chrono::seconds{5}};
    SharedAnswer answer{.kind = SharedAnswer::Kind::decided, .now = instant(1'000'000)};
    answer.decisions.assign(count, {.limit = 10, .remaining = 4});
    answer.decisions.back() = refused;
    answer.verdict = {.decision = refused, .tightest = count - 1, .refusing = 1u << (count - 1)};
    return answer;
  }

  bool refuses(const Take& asked) { return refusals.refuses(asked.question, now, answer); }

  const core::Limit ten = core::Window{.count = 10};
  const core::Limit twenty = core::Window{.count = 20};
  Refusals refusals{7};
  Nanos now = std::chrono::hours{1};
  SharedAnswer answer;
};

TEST_F(RefusalsTest, TheSameTakeIsRefusedWithTheTimeThatHasPassedTakenOff) {
  const auto asked = take({ten});
  EXPECT_FALSE(refuses(*asked));
  refusals.remember(asked->question, refusal(1, milliseconds{80}), now);
  now += milliseconds{30};
  ASSERT_TRUE(refuses(*asked));
  EXPECT_EQ(answer.kind, SharedAnswer::Kind::decided);
  EXPECT_EQ(answer.verdict.decision.outcome, Outcome::limited);
  EXPECT_EQ(answer.verdict.decision.retry_after, milliseconds{50});
  EXPECT_EQ(answer.verdict.decision.reset_after, milliseconds{4970});
  EXPECT_EQ(answer.verdict.decision.remaining, 2);
  EXPECT_EQ(answer.decisions, (std::vector{answer.verdict.decision}));
  EXPECT_EQ(answer.now, instant(31'000'000));
}

TEST_F(RefusalsTest, ItIsForgottenWhenItMayPass) {
  const auto asked = take({ten});
  refusals.remember(asked->question, refusal(1, milliseconds{80}), now);
  now += milliseconds{80};
  EXPECT_FALSE(refuses(*asked));
}

TEST_F(RefusalsTest, ItIsForgottenAfterATenthOfASecond) {
  const auto asked = take({ten});
  refusals.remember(asked->question, refusal(1, std::chrono::hours{1}), now);
  now += milliseconds{100} - Nanos{1};
  EXPECT_TRUE(refuses(*asked));
  now += Nanos{1};
  EXPECT_FALSE(refuses(*asked));
}

TEST_F(RefusalsTest, AnotherCostOrAnotherPatienceIsAnotherQuestion) {
  refusals.remember(take({ten})->question, refusal(1, milliseconds{80}), now);
  EXPECT_TRUE(refuses(*take({ten}, 3, milliseconds{20})));
  for (const Permits cost : {2, 4, 11}) EXPECT_FALSE(refuses(*take({ten}, cost)));
  for (const int patience : {0, 21}) {
    EXPECT_FALSE(refuses(*take({ten}, 3, milliseconds{patience})));
  }
}

TEST_F(RefusalsTest, EachCostIsRememberedByItself) {
  for (const Permits cost : {1, 2, 3, 4}) {
    refusals.remember(take({ten}, cost)->question, refusal(1, cost * milliseconds{20}), now);
  }
  for (const Permits cost : {1, 2, 3, 4}) {
    ASSERT_TRUE(refuses(*take({ten}, cost)));
    EXPECT_EQ(answer.verdict.decision.retry_after, cost * milliseconds{20});
  }
}

TEST_F(RefusalsTest, AnImpossibleCallIsNotRemembered) {
  const auto asked = take({ten}, 11);
  SharedAnswer never = refusal(1, kNever);
  never.decisions[0].outcome = never.verdict.decision.outcome = Outcome::impossible;
  refusals.remember(asked->question, never, now);
  EXPECT_FALSE(refuses(*asked));
}

TEST_F(RefusalsTest, ARaisedLimitIsSeenAtOnce) {
  refusals.remember(take({ten})->question, refusal(1, milliseconds{80}), now);
  EXPECT_FALSE(refuses(*take({twenty})));
  EXPECT_FALSE(refuses(*take({core::Sliding{.count = 10}})));
  EXPECT_FALSE(refuses(*take({core::Window{.count = 10, .from_first = true}})));
}

TEST_F(RefusalsTest, AQuotaOfAnotherCalendarIsAnother) {
  struct Days final : core::Calendar {
    core::Span span_at(Instant) const override { return {}; }
  };
  const auto here = std::make_shared<Days>();
  const auto quota = [](std::shared_ptr<const core::Calendar> calendar) {
    return core::Quota{.count = 10, .calendar = std::move(calendar)};
  };
  refusals.remember(take({quota(here)})->question, refusal(1, milliseconds{80}), now);
  EXPECT_TRUE(refuses(*take({quota(here)})));
  EXPECT_FALSE(refuses(*take({quota(std::make_shared<Days>())})));
}

TEST_F(RefusalsTest, SeveralLimitsAreRememberedTogether) {
  refusals.remember(take({ten, twenty})->question, refusal(2, milliseconds{80}), now);
  ASSERT_TRUE(refuses(*take({ten, twenty})));
  EXPECT_EQ(answer.decisions.size(), 2u);
  EXPECT_EQ(answer.verdict.tightest, 1u);
  EXPECT_EQ(answer.verdict.refusing, 2u);
  EXPECT_FALSE(refuses(*take({ten})));
  EXPECT_FALSE(refuses(*take({ten, ten})));
  EXPECT_FALSE(refuses(*take({ten, twenty, ten})));
}

TEST_F(RefusalsTest, AdmissionsAndFailuresAreNotRemembered) {
  const auto asked = take({ten});
  SharedAnswer passed = refusal(1, milliseconds{80});
  passed.verdict.decision.outcome = passed.decisions[0].outcome = Outcome::allowed;
  refusals.remember(asked->question, passed, now);
  SharedAnswer failed = refusal(1, milliseconds{80});
  failed.kind = SharedAnswer::Kind::unavailable;
  refusals.remember(asked->question, failed, now);
  EXPECT_FALSE(refuses(*asked));
}

TEST_F(RefusalsTest, ConcurrentAndShadowLimitsAreAlwaysAsked) {
  const auto concurrent = take({core::Concurrency{.count = 10}});
  refusals.remember(concurrent->question, refusal(1, milliseconds{80}), now);
  EXPECT_FALSE(refuses(*concurrent));
  const auto with_shadow = take({ten, twenty});
  with_shadow->items[0].shadow = true;
  refusals.remember(with_shadow->question, refusal(2, milliseconds{80}), now);
  EXPECT_FALSE(refuses(*with_shadow));
}

TEST_F(RefusalsTest, OnlyTakesAreRefused) {
  const auto asked = take({ten});
  refusals.remember(asked->question, refusal(1, milliseconds{80}), now);
  for (const SharedVerb verb : {SharedVerb::peek, SharedVerb::settle, SharedVerb::reset,
                                SharedVerb::enter, SharedVerb::leave}) {
    asked->question.verb = verb;
    EXPECT_FALSE(refuses(*asked));
  }
}

TEST_F(RefusalsTest, WhatMayEndARefusalForgetsIt) {
  for (const SharedVerb verb : {SharedVerb::settle, SharedVerb::reset, SharedVerb::leave}) {
    refusals.remember(take({ten, twenty})->question, refusal(2, milliseconds{80}), now);
    EXPECT_TRUE(refuses(*take({ten, twenty})));
    const auto other = take({ten});
    other->question.verb = verb;
    refusals.forget(other->question);
    EXPECT_FALSE(refuses(*take({ten, twenty})));
  }
}

TEST_F(RefusalsTest, ManyKeysPushOutOthersAndNeverAnswerForThem) {
  for (int i = 0; i < 10'000; ++i) {
    const std::string key = "key " + std::to_string(i);
    const auto asked = take({ten});
    asked->items[0].key = key;
    EXPECT_FALSE(refuses(*asked)) << key;
    refusals.remember(asked->question, refusal(1, milliseconds{80}), now);
    EXPECT_TRUE(refuses(*asked)) << key;
  }
}

}  // namespace
}  // namespace weir::store::redis
