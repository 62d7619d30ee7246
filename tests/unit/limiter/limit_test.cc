#include "weir/limit.h"

#include <gtest/gtest.h>

#include <string>

#include "limiter/limit_access.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

TEST(Limit, IsMadeFromAQuota) {
  EXPECT_EQ(Limit{per_second(50)}.capacity(), 50);
  EXPECT_EQ(Limit{per_second(50).burst(100)}.capacity(), 100);
  const Limit implied = per_minute(6);
  EXPECT_EQ(std::get<core::Bucket>(core_limit_of(implied)).rate, (core::Rate{6, 1, 60s}));
}

TEST(Limit, IsMadeByAnyAlgorithm) {
  EXPECT_EQ(std::get<core::Window>(core_limit_of(Limit::window(5, 1min))).period, 60s);
  EXPECT_EQ(std::get<core::SlidingCounter>(core_limit_of(Limit::sliding(5, 1min))).count, 5);
  EXPECT_EQ(std::get<core::SlidingLog>(core_limit_of(Limit::sliding_exact(5, 1min))).count, 5);
  EXPECT_EQ(Limit::queue(per_second(1), 5).capacity(), 6);
  EXPECT_EQ(std::get<core::Bucket>(core_limit_of(Limit::queue(per_second(1), 5))).at_once, 1);
  EXPECT_EQ(std::get<core::Bucket>(core_limit_of(Limit::queue(per_second(1), 5, 3))).at_once, 4);
  EXPECT_EQ(Limit::queue(per_second(1), 0).capacity(), 1);
}

TEST(Limit, IsSharedByItsCopies) {
  const Limit limit = Limit::window(5, 1min);
  const Limit copy = limit;
  EXPECT_EQ(&core_limit_of(copy), &core_limit_of(limit));
}

TEST(Limit, IsMadeFromACoreLimit) {
  const Limit limit = limit_of(*core::Concurrency::make(7, 30s));
  EXPECT_EQ(limit.capacity(), 7);
}

template <typename F>
std::string complaint(F f) {
  try {
    (void)f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "none";
}

TEST(Limit, ReportsInvalidNumbers) {
  const auto says = [](const std::string& complaint, const char* text) {
    EXPECT_NE(complaint.find(text), std::string::npos) << complaint;
  };
  says(complaint([] { return Limit{per_second(2'000'000'000'000)}; }), "10^12");
  says(complaint([] { return Limit{per(1, Nanos::max())}; }), "73 years");
  says(complaint([] { return Limit{per_second(1).burst(Permits{1} << 62)}; }), "2^61");
  says(complaint([] { return Limit::window(0, 1s); }), "at least one permit");
  says(complaint([] { return Limit::window(1, 0s); }), "above zero");
  says(complaint([] { return Limit::sliding(5'000'000'000, 1s); }), "4*10^9");
  says(complaint([] { return Limit::sliding_exact(4097, 1s); }), "4096");
  says(complaint([] { return Limit::queue(per_second(1), -1); }), "0 places");
}

}  // namespace
}  // namespace weir
