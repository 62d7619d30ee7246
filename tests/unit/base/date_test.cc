#include "base/date.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using namespace std::chrono;

constexpr Instant utc(int y, unsigned m, unsigned d) {
  return sys_days{year{y} / month{m} / day{d}};
}

TEST(Date, ReadsRfc3339) {
  EXPECT_EQ(parse_date("2026-01-01T00:00:00Z"), utc(2026, 1, 1));
  EXPECT_EQ(parse_date("2026-01-01t00:00:00z"), utc(2026, 1, 1));
  EXPECT_EQ(parse_date("2026-01-01 01:30:00+01:30"), utc(2026, 1, 1));
  EXPECT_EQ(parse_date("2025-12-31T19:00:00-05:00"), utc(2026, 1, 1));
  EXPECT_EQ(parse_date("2026-01-01T00:00:00.000000001Z"), utc(2026, 1, 1) + Nanos{1});
  EXPECT_EQ(parse_date("2026-01-01T00:00:00.5Z"), utc(2026, 1, 1) + milliseconds{500});
}

TEST(Date, RefusesInvalidDates) {
  for (const char* text :
       {"", "2026", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:61Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00+0100",
        "2026-01-01T00:00:00Zx", "-026-01-01T00:00:00Z", "1969-12-31T23:59:59Z",
        "2116-01-01T00:00:00Z", "2026-1-1T0:0:0Z", "2026-01-01T00:00:00+99:00"}) {
    EXPECT_FALSE(parse_date(text)) << text;
  }
}

TEST(Date, IsWrittenAsItIsRead) {
  for (const char* text : {"1970-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z",
                           "2026-12-31T23:59:59.000000001Z", "2115-02-28T10:20:30Z"}) {
    EXPECT_EQ(to_date(*parse_date(text)), text);
  }
}

}  // namespace
}  // namespace weir
