#include "store/redis/state_text.h"

#include <gtest/gtest.h>

namespace weir::store::redis {
namespace {

using core::Limit;
using std::chrono::seconds;

constexpr Instant kNow = instant(1'767'225'600'000'000'000);

std::string written(const Limit& limit, const StoredState& remembered) {
  std::string text;
  append_text(text, limit, remembered);
  return text;
}

// Converts the state after a take to its text and back.
template <typename L>
void expect_round_trip(const L& limit, Permits cost, const std::string& expected) {
  const StoredState given{core::take(limit, {}, kNow, {.cost = cost}).next, 17, kNow};
  const std::string text = written(limit, given);
  EXPECT_EQ(text, expected);
  StoredState read{};
  ASSERT_TRUE(read_text(Limit{limit}, text, read)) << text;
  EXPECT_EQ(read.state, given.state) << text;
  EXPECT_EQ(read.birth, 17u);
}

TEST(StateTextTest, RoundTripsTheState) {
  expect_round_trip(*core::Bucket::make({3, 1, seconds{1}}, 7), 2,
                    "1b 333333333 1 3 17 0 1767225600 2000000000 1767225600000000");
  expect_round_trip(*core::NginxQueue::make({5, 1, seconds{1}}, 3, 1), 1,
                    "1n 17 1767225600000 1000");
  expect_round_trip(*core::Smooth::make({3, 1, seconds{1}}), 2,
                    "1s 17 1767225600 0 0 0 333333333 1");
  expect_round_trip(*core::Window::make({5, 1, seconds{1}}, false), 2, "1w 17 1767225600000000 2");
  expect_round_trip(*core::SlidingCounter::make({5, 1, seconds{1}}), 2,
                    "1v 17 1767225600000000 0 2");
  expect_round_trip(*core::RedisCell::make(4, 1, 1), 2, "1c 17 1767225602 0");
}

TEST(StateTextTest, RejectsAnotherVersionOrAlgorithm) {
  const Limit bucket = *core::Bucket::make({3, 1, seconds{1}}, 7);
  StoredState read{};
  for (const char* text : {"", "1", "1b", "1b ", "2b 371443919530 3 17 0 1767225600 2000000000",
                           "1w 17 1767225600000000 2", "1b 371443919530 3 17 0 1767225600",
                           "1b 371443919530 3 17 0 1767225600 2000000000 ",
                           "1b 371443919530 3 17 0 1767225600 2000000000 9",
                           "1b 371443919530 0 17 0 1767225600 2000000000",
                           "1b 371443919530 3 17 16 1767225600 2000000000",
                           "1b -371443919530 3 17 0 1767225600 2000000000"}) {
    EXPECT_FALSE(read_text(bucket, text, read)) << text;
  }
}

TEST(SecondsAndPartsTest, IsExactBeyondSixtyFourBits) {
  const std::int64_t parts = std::int64_t{1} << 20;
  const Int128 longest = (Int128{1} << 81) + 5;
  const SecondsAndParts pair = in_seconds_and_parts(longest, parts);
  EXPECT_EQ(Int128{pair.seconds} * 1'000'000'000 * parts + pair.sub, longest);
  EXPECT_LT(pair.sub, 1'000'000'000 * parts);
  const SecondsAndParts below = in_seconds_and_parts(-1, 1);
  EXPECT_EQ(below.seconds, -1);
  EXPECT_EQ(below.sub, 999'999'999);
}

TEST(FactsTest, HaveAFixedNumberOfFields) {
  LogFacts log;
  EXPECT_TRUE(read_text("1 2 3 4 5 6", log));
  EXPECT_EQ(log.used, 2);
  EXPECT_EQ(log.given_back, 6);
  EXPECT_FALSE(read_text("1 2 3 4 5", log));
  HolderFacts holders;
  EXPECT_TRUE(read_text("1 2 3 4 5", holders));
  EXPECT_FALSE(read_text("1 2 x 4 5", holders));
}

}  // namespace
}  // namespace weir::store::redis
