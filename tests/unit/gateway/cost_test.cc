#include "gateway/cost.h"

#include <gtest/gtest.h>

#include "fields.h"

namespace weir::gateway {
namespace {

const RequestCost kHeader{
    .kind = RequestCost::CostKind::header, .fixed = 2, .header = "x-cost", .most = 100};
const RequestCost kBytes{.kind = RequestCost::CostKind::bytes, .most = INT64_MAX};

Permits by_header(const FieldList& fields) { return cost_of(kHeader, fields, std::nullopt); }

TEST(RequestCost, IsTheFixedNumber) {
  EXPECT_EQ(cost_of({}, {}, 500), 1);
  EXPECT_EQ(cost_of({.fixed = 7}, {}, {}), 7);
}

TEST(RequestCost, IsReadFromAHeader) {
  EXPECT_EQ(by_header({{"X-Cost", "5"}}), 5);
  EXPECT_EQ(by_header({{"X-COST", "100"}}), 100);
  EXPECT_EQ(by_header({}), 2);
}

// An invalid header costs as much as a missing one, and no client may ask for more than `most`.
TEST(RequestCost, IsBoundedWhateverTheClientSends) {
  for (const char* text : {"0", "-5", "+5", "", "5x", "1e3", "0x10", " "}) {
    EXPECT_EQ(by_header({{"X-Cost", text}}), 2) << text;
  }
  EXPECT_EQ(by_header({{"X-Cost", "101"}}), 100);
  EXPECT_EQ(by_header({{"X-Cost", "99999999999999999999999999"}}), 100);
  EXPECT_EQ(by_header({{"X-Cost", "1"}, {"X-Cost", "50"}}), 2);
}

TEST(RequestCost, IsTheAnnouncedLengthAndThenCorrectedToTheBytesThatPassed) {
  EXPECT_EQ(cost_of(kBytes, {}, 500), 500);
  EXPECT_EQ(cost_of(kBytes, {}, 0), 1);
  EXPECT_EQ(cost_of(kBytes, {}, std::nullopt), 1);
  EXPECT_EQ(cost_of(kBytes, {}, UINT64_MAX), INT64_MAX);
  EXPECT_EQ(cost_correction(kBytes, 500, 500, 2'000), 2'000);
  EXPECT_EQ(cost_correction(kBytes, 500, 100, 0), -400);
  EXPECT_EQ(cost_correction(kBytes, 1, 0, 0), 0);
  EXPECT_EQ(cost_correction(kBytes, 1, UINT64_MAX, UINT64_MAX), INT64_MAX - 1);
  EXPECT_EQ(cost_correction({}, 1, 500, 500), 0);
}

}  // namespace
}  // namespace weir::gateway
