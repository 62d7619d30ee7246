#include "policy/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/time.h"
#include "policy/policy_file.h"

namespace weir::policy {
namespace {

using namespace std::chrono;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Instant utc(int y, unsigned m, unsigned d, int h = 0, int min = 0) {
  return sys_days{year{y} / month{m} / day{d}} + hours{h} + minutes{min};
}

// The first week of June 2026 begins on Monday, the 1st.
Instant june(unsigned d, int h = 0, int min = 0) { return utc(2026, 6, d, h, min); }

Problems problems_of(const std::string& schedule, Schedule* read = nullptr) {
  Problems problems;
  auto set = read_policies(
      {"weir.yaml", "policies:\n  p:\n    limits: [ 5/s ]\n    schedule: " + schedule}, problems);
  if (read != nullptr) *read = set.at("p").schedule;
  return problems;
}

// Entries without their limits: "{ days: mon-fri }".
Schedule schedule(const std::vector<std::string>& entries) {
  std::string text;
  for (const std::string& entry : entries) {
    text += "\n      - { limits: [ 9/s ], " + entry + " }";
  }
  Schedule read;
  for (const Problem& problem : problems_of(text, &read)) ADD_FAILURE() << problem.message;
  return read;
}

// The position of the shift that applies, -1 for none.
int held(const Schedule& schedule, Instant t) {
  const auto shift = active_shift_at(schedule, t).shift;
  return shift ? static_cast<int>(*shift) : -1;
}

void expect_span(const Schedule& schedule, Instant t, Instant start, Instant end) {
  const core::Span span = active_shift_at(schedule, t).span;
  EXPECT_EQ(span.start, start) << ns(span.start);
  EXPECT_EQ(span.end, end) << ns(span.end);
}

// ---- Shifts by time

TEST(Schedule, HoldsOnSomeDays) {
  const Schedule weekdays = schedule({"days: mon-fri"});
  EXPECT_EQ(held(weekdays, june(1)), 0);
  EXPECT_EQ(held(weekdays, june(5, 23, 59)), 0);
  EXPECT_EQ(held(weekdays, june(6)), -1);
  EXPECT_EQ(held(weekdays, june(8) - Nanos{1}), -1);
  EXPECT_EQ(held(weekdays, june(8)), 0);
  expect_span(weekdays, june(3, 12), june(1), june(6));
  expect_span(weekdays, june(7, 12), june(6), june(8));

  const Schedule some = schedule({"days: [ tue, sat-sun ]"});
  EXPECT_EQ(held(some, june(1)), -1);
  EXPECT_EQ(held(some, june(2)), 0);
  EXPECT_EQ(held(some, june(6)), 0);
  EXPECT_EQ(held(some, june(7)), 0);

  // A range may wrap around the end of the week.
  const Schedule around = schedule({"days: sat-mon"});
  EXPECT_EQ(held(around, june(1)), 0);
  EXPECT_EQ(held(around, june(2)), -1);
  EXPECT_EQ(held(around, june(6)), 0);
  expect_span(around, june(7), june(6), june(9));
}

TEST(Schedule, HoldsAtSomeHours) {
  const Schedule office = schedule({"hours: 09:00-18:00"});
  EXPECT_EQ(held(office, june(7, 8, 59)), -1);
  EXPECT_EQ(held(office, june(7, 9)), 0);
  EXPECT_EQ(held(office, june(7, 18) - Nanos{1}), 0);
  EXPECT_EQ(held(office, june(7, 18)), -1);
  expect_span(office, june(7, 12), june(7, 9), june(7, 18));
  expect_span(office, june(7, 20), june(7, 18), june(8, 9));

  const Schedule evening = schedule({"hours: 18:30-24:00"});
  expect_span(evening, june(2, 20), june(2, 18, 30), june(3));
  const Schedule same = schedule({"hours: 18:30-00:00"});
  expect_span(same, june(2, 20), june(2, 18, 30), june(3));
  const Schedule odd = schedule({"hours: 9:07-9:08"});
  expect_span(odd, june(2, 9, 7), june(2, 9, 7), june(2, 9, 8));
}

TEST(Schedule, HoldsAtSomeHoursOfSomeDays) {
  const Schedule office = schedule({"days: mon-fri, hours: 09:00-18:00"});
  EXPECT_EQ(held(office, june(5, 12)), 0);
  EXPECT_EQ(held(office, june(6, 12)), -1);
  expect_span(office, june(6, 12), june(5, 18), june(8, 9));
}

// Hours that begin on Friday evening continue into Saturday; hours of Thursday evening, which is
// not listed, do not continue into Friday.
TEST(Schedule, BelongsToTheDayItStartsOn) {
  const Schedule night = schedule({"days: fri, hours: 22:00-06:00"});
  EXPECT_EQ(held(night, june(5, 5)), -1);
  EXPECT_EQ(held(night, june(5, 22)), 0);
  EXPECT_EQ(held(night, june(6, 5, 59)), 0);
  EXPECT_EQ(held(night, june(6, 6)), -1);
  EXPECT_EQ(held(night, june(6, 22)), -1);
  expect_span(night, june(6, 1), june(5, 22), june(6, 6));
}

TEST(Schedule, HasATextForItsHours) {
  const auto text = [](const std::string& entry) { return to_text(schedule({entry})[0].hours); };
  EXPECT_EQ(text("days: mon-fri"), "mon-fri");
  EXPECT_EQ(text("days: [ sun, mon, wed-fri ]"), "mon, wed-fri, sun");
  EXPECT_EQ(text("hours: '9:05-18:00'"), "09:05-18:00");
  EXPECT_EQ(text("days: sat, hours: '22:00-24:00', in: Europe/Berlin"),
            "sat 22:00-24:00 in Europe/Berlin");
  EXPECT_EQ(text("days: mon-sun"), "every day");
}

TEST(Schedule, PrefersTheFirstMatchingShift) {
  const Schedule both =
      schedule({"days: wed, hours: 12:00-13:00", "days: mon-fri", "hours: 00:00-12:00"});
  EXPECT_EQ(held(both, june(3, 12)), 0);
  EXPECT_EQ(held(both, june(3, 13)), 1);
  EXPECT_EQ(held(both, june(6, 11)), 2);
  EXPECT_EQ(held(both, june(6, 12)), -1);
  expect_span(both, june(3, 12, 30), june(3, 12), june(3, 13));
  expect_span(both, june(4), june(3, 13), june(6));
}

// A shift that always applies has no edges, however far the search goes.
TEST(Schedule, MayHoldAlways) {
  for (const char* entry : {"days: mon-sun", "hours: 00:00-24:00"}) {
    const Schedule always = schedule({entry});
    const ActiveShift now = active_shift_at(always, june(3, 12));
    EXPECT_EQ(now.shift, 0u);
    EXPECT_LE(now.span.start, june(1));
    EXPECT_GE(now.span.end, june(8));
  }
}

// ---- Zones

TEST(Schedule, FollowsTheClocksOfAPlace) {
  const Schedule office = schedule({"hours: 09:00-18:00, in: Europe/Berlin"});
  expect_span(office, utc(2025, 1, 15, 12), utc(2025, 1, 15, 8), utc(2025, 1, 15, 17));
  expect_span(office, utc(2025, 7, 15, 12), utc(2025, 7, 15, 7), utc(2025, 7, 15, 16));
  const Schedule sunday = schedule({"days: sun, in: Asia/Shanghai"});
  expect_span(sunday, june(7), june(6, 16), june(7, 16));
}

// On 30 March 2025 local time in Berlin skips from 2:00 to 3:00.
TEST(Schedule, LosesAnHourThatIsSkipped) {
  const Instant change = utc(2025, 3, 30, 1);
  const Schedule night = schedule({"hours: 00:00-06:00, in: Europe/Berlin"});
  expect_span(night, change, change - hours{2}, change + hours{3});
  // Hours that begin in the gap begin after it; hours within it are empty.
  const Schedule late = schedule({"hours: 02:30-06:00, in: Europe/Berlin"});
  expect_span(late, change + hours{1}, change, change + hours{3});
  const Schedule lost = schedule({"hours: 02:10-02:50, in: Europe/Berlin"});
  EXPECT_EQ(held(lost, change), -1);
  EXPECT_EQ(held(lost, change - Nanos{1}), -1);
  EXPECT_EQ(held(lost, change + days{1} - minutes{50}), 0);
}

// On 26 October 2025 local time in Berlin repeats the hour from 2:00 to 3:00.
TEST(Schedule, GainsAnHourThatIsRepeated) {
  const Instant change = utc(2025, 10, 26, 1);  // 3:00 becomes 2:00
  const Schedule night = schedule({"hours: 00:00-06:00, in: Europe/Berlin"});
  expect_span(night, change, change - hours{3}, change + hours{4});
  // Both edges are at the first instant with that local time.
  const Schedule twice = schedule({"hours: 02:30-04:00, in: Europe/Berlin"});
  expect_span(twice, change, change - minutes{30}, change + hours{2});
  const Schedule once = schedule({"hours: 01:00-02:30, in: Europe/Berlin"});
  expect_span(once, change - hours{1}, change - hours{2}, change - minutes{30});
  EXPECT_EQ(held(once, change), -1);
}

// Spans are contiguous, and a different shift applies after each end.
TEST(Schedule, LeavesNoGap) {
  const Schedule mixed = schedule({"days: [ mon, wed ], hours: 22:00-03:00, in: Europe/Berlin",
                                   "days: tue-sat, hours: 02:00-09:30, in: America/Havana",
                                   "hours: 01:15-01:45, in: Asia/Kathmandu"});
  Instant t = utc(2024, 1, 1);
  for (int i = 0; i < 2000; ++i) {
    const ActiveShift now = active_shift_at(mixed, t);
    const ActiveShift next = active_shift_at(mixed, now.span.end);
    ASSERT_LE(now.span.start, t);
    ASSERT_GT(now.span.end, t);
    ASSERT_EQ(next.span.start, now.span.end);
    ASSERT_NE(next.shift, now.shift);
    ASSERT_EQ(active_shift_at(mixed, now.span.end - Nanos{1}).shift, now.shift);
    t = now.span.end;
  }
  EXPECT_GT(t, utc(2024, 12, 31));
}

TEST(Schedule, AnswersAtTheEndsOfTime) {
  const Schedule office = schedule({"days: mon-fri, hours: 09:00-18:00, in: Europe/Berlin"});
  EXPECT_EQ(active_shift_at(office, Instant::max()).span.end, Instant::max());
  EXPECT_EQ(active_shift_at(office, Instant::min()).span.start, Instant::min());
  EXPECT_TRUE(holds_at(active_shift_at(office, Instant::max()).span, Instant::max()));
  EXPECT_TRUE(holds_at(active_shift_at(office, Instant::min()).span, Instant::min()));
}

// ---- Changes

TEST(ScheduleChanges, AreNoneWhileNothingChanges) {
  const Schedule office = schedule({"hours: 09:00-18:00"});
  const core::Span day = steady_span({&office}, june(1, 12));
  EXPECT_THAT(changes_until({&office}, day, june(1, 18) - Nanos{1}), IsEmpty());
  EXPECT_THAT(changes_until({}, steady_span({}, june(1)), june(9)), IsEmpty());
}

TEST(ScheduleChanges, AreAllThatLieBetween) {
  const Schedule office = schedule({"hours: 09:00-18:00"});
  const core::Span day = steady_span({&office}, june(1, 12));
  EXPECT_THAT(changes_until({&office}, day, june(1, 18)), ElementsAre(june(1, 18)));
  EXPECT_THAT(changes_until({&office}, day, june(2, 12)), ElementsAre(june(1, 18), june(2, 9)));
  const Schedule noon = schedule({"hours: 12:00-14:00"});
  EXPECT_THAT(
      changes_until({&office, &noon}, steady_span({&office, &noon}, june(1, 10)), june(2, 10)),
      ElementsAre(june(1, 12), june(1, 14), june(1, 18), june(2, 9)));
}

// After a year without calls only the last changes are returned.
TEST(ScheduleChanges, AreTheLastOfMany) {
  const Schedule office = schedule({"hours: 09:00-18:00"});
  const core::Span day = steady_span({&office}, june(1, 12));
  const auto changes = changes_until({&office}, day, utc(2036, 6, 1, 12));
  EXPECT_EQ(changes.size(), 16u);
  EXPECT_EQ(changes.back(), utc(2036, 6, 1, 9));
  EXPECT_EQ(changes.front(), utc(2036, 5, 24, 18));
}

// A clock set back by less than a minute keeps the limits in force; by more, it does not.
TEST(ScheduleChanges, GoBackOnlyByMoreThanAMinute) {
  const Schedule office = schedule({"hours: 09:00-18:00"});
  const core::Span day = steady_span({&office}, june(1, 12));
  EXPECT_THAT(changes_until({&office}, day, june(1, 9) - minutes{1}), IsEmpty());
  const Instant long_before = june(1, 9) - minutes{1} - Nanos{1};
  EXPECT_THAT(changes_until({&office}, day, long_before), ElementsAre(long_before));
}

// ---- As it is written

std::vector<std::string> wrong(const std::string& schedule) {
  std::vector<std::string> all;
  for (const Problem& problem : problems_of(schedule)) {
    all.push_back(std::to_string(problem.place.column) + ": " + problem.message);
  }
  return all;
}

std::vector<std::string> wrong_entry(const std::string& entry) {
  return wrong("[ { limits: 9/s, " + entry + " } ]");
}

TEST(Schedule, ReportsInvalidDays) {
  EXPECT_THAT(wrong_entry("days: monday"),
              ElementsAre("38: \"monday\" is not a day: write mon, tue, wed, thu, fri, sat or sun, "
                          "a range like mon-fri or a list of them (did you mean \"mon\"?)"));
  EXPECT_THAT(wrong_entry("days: mon-Fri"), ElementsAre(HasSubstr("42: \"Fri\" is not a day")));
  EXPECT_THAT(wrong_entry("days: [ sat, sum ]"), ElementsAre(HasSubstr("did you mean \"sun\"?")));
  EXPECT_THAT(wrong_entry("days: \"mon, tue\""),
              ElementsAre(HasSubstr("\"mon, tue\" is not a day")));
  EXPECT_THAT(wrong_entry("days: []"),
              ElementsAre("38: \"days\" names no day: write one, or leave it out"));
  EXPECT_THAT(wrong_entry("days: { mon: tue }"), ElementsAre(HasSubstr("not a map")));
  EXPECT_THAT(wrong_entry("days: \"\""), ElementsAre(HasSubstr("\"\" is not a day")));
}

TEST(Schedule, ReportsInvalidHours) {
  for (const char* hours : {"9-18", "09:00", "09:00-18", "09:00-24:01", "24:00-06:00", "9:0-10:00",
                            "09:60-10:00", "-1:00-10:00", "09:00 - 18:00", "[ 1 ]", "\"\"", "~",
                            "009:00-10:00", "+9:00-10:00", "09:00-25:00", ":30-10:00"}) {
    EXPECT_THAT(wrong_entry(std::string{"hours: "} + hours),
                ElementsAre(HasSubstr("39: \"hours\" are written like 09:00-18:00, from 00:00 to "
                                      "24:00, not ")))
        << hours;
  }
  EXPECT_THAT(wrong_entry("hours: 09:00-09:00"),
              ElementsAre("39: the time from 09:00 to 09:00 is empty: leave \"hours\" out for the "
                          "whole day"));
}

TEST(Schedule, ReportsInvalidEntries) {
  EXPECT_THAT(wrong_entry("in: UTC"), ElementsAre(HasSubstr("days or hours are missing")));
  EXPECT_THAT(wrong_entry("days: mon, in: Europe/Berln"),
              ElementsAre(HasSubstr("there is no time zone \"Europe/Berln\" (did you mean "
                                    "\"Europe/Berlin\"?)")));
  EXPECT_THAT(wrong_entry("days: mon, in: []"),
              ElementsAre(HasSubstr("\"in\" must be a non-empty text, not a list")));
  EXPECT_THAT(wrong_entry("day: mon, hours: 09:00-18:00"),
              ElementsAre(HasSubstr("an entry of a schedule has no field \"day\" (did you mean "
                                    "\"days\"?)")));
  EXPECT_THAT(wrong("[ { days: mon } ]"), ElementsAre(HasSubstr("the limits are missing")));
  EXPECT_THAT(wrong("[ { days: mon, limits: [ 5/sec ] } ]"),
              ElementsAre(HasSubstr("unknown unit")));
  EXPECT_THAT(wrong("[ mon ]"), ElementsAre(HasSubstr("a schedule is a list of maps like")));
  EXPECT_THAT(wrong("{ days: mon, limits: 5/s }"),
              ElementsAre(HasSubstr("\"schedule\" is a list of entries like { days: mon-fri, "
                                    "limits: [ 100/s ] }, not a map")));
  EXPECT_THAT(wrong("[]"), ElementsAre(HasSubstr("not empty")));
}

}  // namespace
}  // namespace weir::policy
