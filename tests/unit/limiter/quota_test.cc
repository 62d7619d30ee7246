#include "weir/quota.h"

#include <gtest/gtest.h>

#include <string>

namespace weir {
namespace {

using namespace std::chrono_literals;

// Constants are checked by the compiler.
constexpr auto kApi = per_second(50).burst(100);
static_assert(kApi.rate() == per(50, 1s) && kApi.burst() == 100);

TEST(Quota, HasTheCountOfItsRateAsBurst) {
  EXPECT_EQ(Quota{per_second(50)}.burst(), 50);
  EXPECT_EQ(Quota{per(1, 5s)}, per(1, 5s).burst(1));
}

TEST(Quota, KnowsItsPeriods) {
  EXPECT_EQ(per_second(3).period(), 1s);
  EXPECT_EQ(per_minute(3).period(), 60s);
  EXPECT_EQ(per_hour(3).period(), 3600s);
  EXPECT_EQ(per(3, 90s).period(), 90s);
  EXPECT_EQ(per_hour(3).count(), 3);
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

// The message says what to write instead.
TEST(Quota, RefusesNumbersThatAdmitNothing) {
  EXPECT_NE(complaint([] { return per_second(0); }).find("per(1, 2s)"), std::string::npos);
  EXPECT_NE(complaint([] { return per_hour(-1); }).find("at least one permit"), std::string::npos);
  EXPECT_NE(complaint([] { return per(1, 0s); }).find("period above zero"), std::string::npos);
  EXPECT_NE(complaint([] { return per(1, -1s); }).find("period above zero"), std::string::npos);
  EXPECT_NE(complaint([] { return per_second(1).burst(0); }).find("at least 1"), std::string::npos);
  EXPECT_NE(complaint([] { return per_second(1).burst(-5); }).find("at least 1"),
            std::string::npos);
}

// Whether `F` can be evaluated by the compiler.
template <auto F>
concept Constant = requires {
  typename std::bool_constant<(F(), true)>;
};

TEST(Quota, DoesNotCompileAsAnInvalidConstant) {
  EXPECT_TRUE(Constant<[] { return per_second(1); }>);
  EXPECT_FALSE(Constant<[] { return per_second(0); }>);
  EXPECT_FALSE(Constant<[] { return per(1, Nanos{0}); }>);
  EXPECT_FALSE(Constant<[] { return per_second(1).burst(0); }>);
}

}  // namespace
}  // namespace weir
