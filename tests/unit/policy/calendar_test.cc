#include "policy/calendar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace weir::policy {
namespace {

using namespace std::chrono;
using testing::HasSubstr;

Instant utc(int y, unsigned m, unsigned d, hours h = hours{0}) {
  return sys_days{year{y} / month{m} / day{d}} + h;
}

core::Span span(CalendarUnit unit, const std::string& zone, int anchor, Instant t) {
  const auto calendar = ZoneCalendar::make(unit, zone, anchor);
  EXPECT_TRUE(calendar) << zone;
  return calendar ? (*calendar)->span_at(t) : core::Span{};
}

TEST(ZoneCalendar, LaysDaysEndToEnd) {
  const auto day = span(CalendarUnit::day, "UTC", 1, utc(2025, 6, 15, hours{13}));
  EXPECT_EQ(day.start, utc(2025, 6, 15));
  EXPECT_EQ(day.end, utc(2025, 6, 16));
}

TEST(ZoneCalendar, HasDaysOf23And25Hours) {
  const auto spring = span(CalendarUnit::day, "Europe/Berlin", 1, utc(2025, 3, 30, hours{12}));
  EXPECT_EQ(spring.end - spring.start, hours{23});
  const auto autumn = span(CalendarUnit::day, "Europe/Berlin", 1, utc(2025, 10, 26, hours{12}));
  EXPECT_EQ(autumn.end - autumn.start, hours{25});
}

// Beirut puts its clocks forward at midnight: the date begins at 1:00.
TEST(ZoneCalendar, StartsADayWithoutMidnightAtTheStepForward) {
  const auto day = span(CalendarUnit::day, "Asia/Beirut", 1, utc(2025, 3, 30, hours{9}));
  EXPECT_EQ(day.start, utc(2025, 3, 29, hours{22}));
  EXPECT_EQ(day.end - day.start, hours{23});
}

// Havana puts its clocks back from 1:00 to midnight: the date begins at the first of the two.
TEST(ZoneCalendar, StartsADayWithTwoMidnightsAtTheFirst) {
  const auto day = span(CalendarUnit::day, "America/Havana", 1, utc(2024, 11, 3, hours{12}));
  EXPECT_EQ(day.start, utc(2024, 11, 3, hours{4}));
  EXPECT_EQ(day.end - day.start, hours{25});
}

// St. John's put its clocks back at 0:01, to 23:01 of the day before: the new date had begun.
TEST(ZoneCalendar, KeepsADayThatHasBegun) {
  const Instant first_midnight = utc(2010, 11, 7, hours{2}) + minutes{30};
  const Instant old_date_again = first_midnight + minutes{31};
  const auto day = span(CalendarUnit::day, "America/St_Johns", 1, old_date_again);
  EXPECT_EQ(day.start, first_midnight);
  EXPECT_EQ(day.end - day.start, hours{25});
}

// Samoa crossed the date line and had no 30th of December 2011.
TEST(ZoneCalendar, SkipsADayThatNeverWas) {
  const auto before = span(CalendarUnit::day, "Pacific/Apia", 1, utc(2011, 12, 30, hours{9}));
  EXPECT_EQ(before.end, utc(2011, 12, 30, hours{10}));
  const auto after = span(CalendarUnit::day, "Pacific/Apia", 1, utc(2011, 12, 30, hours{11}));
  EXPECT_EQ(after.start, utc(2011, 12, 30, hours{10}));
  EXPECT_EQ(after.end - after.start, hours{24});
}

TEST(ZoneCalendar, StartsWeeksOnMonday) {
  for (const int d : {15, 16, 17, 18, 19, 20, 21}) {
    const auto week = span(CalendarUnit::week, "UTC", 1, utc(2025, 9, static_cast<unsigned>(d)));
    EXPECT_EQ(week.start, utc(2025, 9, 15));
    EXPECT_EQ(week.end, utc(2025, 9, 22));
  }
}

TEST(ZoneCalendar, BillsMonthsFromAnAnchorDay) {
  const auto month = [](int anchor, Instant t) {
    return span(CalendarUnit::month, "UTC", anchor, t);
  };
  EXPECT_EQ(month(1, utc(2025, 2, 14)).start, utc(2025, 2, 1));
  EXPECT_EQ(month(15, utc(2025, 2, 14)).start, utc(2025, 1, 15));
  EXPECT_EQ(month(31, utc(2025, 2, 27)).start, utc(2025, 1, 31));
  EXPECT_EQ(month(31, utc(2025, 2, 28)).start, utc(2025, 2, 28));
  EXPECT_EQ(month(31, utc(2025, 2, 28)).end, utc(2025, 3, 31));
  EXPECT_EQ(month(30, utc(2024, 2, 29)).start, utc(2024, 2, 29));
  EXPECT_EQ(month(31, utc(2025, 1, 1)).start, utc(2024, 12, 31));
}

TEST(ZoneCalendar, BillsYearsFromAnAnchorDayInJanuary) {
  EXPECT_EQ(span(CalendarUnit::year, "UTC", 1, utc(2025, 6, 1)).start, utc(2025, 1, 1));
  EXPECT_EQ(span(CalendarUnit::year, "UTC", 6, utc(2025, 1, 5)).start, utc(2024, 1, 6));
  EXPECT_EQ(span(CalendarUnit::year, "UTC", 6, utc(2025, 1, 6)).end, utc(2026, 1, 6));
}

// Every instant lies in its span, spans meet, and both ends agree on where the edge is.
TEST(ZoneCalendar, PartitionsTime) {
  for (const char* zone : {"UTC", "Europe/Berlin", "America/St_Johns", "Asia/Beirut",
                           "America/Havana", "Australia/Lord_Howe", "Pacific/Apia"}) {
    for (const auto unit : {CalendarUnit::day, CalendarUnit::week, CalendarUnit::month}) {
      const auto calendar = *ZoneCalendar::make(unit, zone, 30);
      Instant t = utc(2009, 12, 1);
      while (t < utc(2012, 2, 1)) {
        const auto here = calendar->span_at(t);
        ASSERT_LE(here.start, t) << zone;
        ASSERT_GT(here.end, t) << zone;
        ASSERT_EQ(calendar->span_at(here.end).start, here.end) << zone;
        ASSERT_EQ(calendar->span_at(here.end - Nanos{1}).start, here.start) << zone;
        t = std::max(here.end, t + hours{1});
      }
    }
  }
}

TEST(ZoneCalendar, AnswersAtTheEndsOfTime) {
  const auto calendar = *ZoneCalendar::make(CalendarUnit::year, "Europe/Berlin", 1);
  for (const Instant t : {kEarliest, kLatest}) {
    EXPECT_LE(calendar->span_at(t).start, t);
    EXPECT_GT(calendar->span_at(t).end, t);
  }
}

// Policies are shared by all threads; tsan watches.
TEST(ZoneCalendar, AnswersSeveralThreadsAtOnce) {
  const auto calendar = *ZoneCalendar::make(CalendarUnit::day, "Europe/Berlin", 1);
  const auto ask = [&](int first_day) {
    for (int i = 0; i < 200; ++i) {
      const Instant t = utc(2025, 1, 1) + hours{24 * (first_day + i) + 12};
      EXPECT_LE(calendar->span_at(t).end - calendar->span_at(t).start, hours{25});
    }
  };
  std::thread other(ask, 0);
  ask(100);
  other.join();
}

TEST(ZoneCalendar, RefusesWhatIsNoZone) {
  const auto error = [](const std::string& zone) {
    const auto calendar = ZoneCalendar::make(CalendarUnit::day, zone, 1);
    return calendar ? std::string{"nothing"} : calendar.error();
  };
  EXPECT_THAT(error("Europe/Berln"), HasSubstr("did you mean \"Europe/Berlin\"?"));
  EXPECT_THAT(error("Nowhere"), HasSubstr("no time zone \"Nowhere\""));
  EXPECT_THAT(error(""), HasSubstr("no time zone"));
  EXPECT_THAT(error("/etc/passwd"), HasSubstr("no time zone"));
  EXPECT_THAT(error("../../../etc/passwd"), HasSubstr("no time zone"));
  EXPECT_THAT(error("file:/etc/localtime"), HasSubstr("no time zone"));
  EXPECT_THAT(error("Europe"), HasSubstr("no time zone"));
  EXPECT_THAT(error(std::string(100000, 'A')), HasSubstr("no time zone"));
}

}  // namespace
}  // namespace weir::policy
