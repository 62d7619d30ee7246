#include "policy/limit_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/calendar.h"
#include "policy/limit.h"

namespace weir::policy {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""h;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""min;
using testing::HasSubstr;

template <typename L>
L parsed(std::string_view text) {
  const auto limit = parse_limit(text);
  EXPECT_TRUE(limit) << text << ": " << (limit ? "" : limit.error().message);
  if (!limit || !std::holds_alternative<L>(*limit)) {
    ADD_FAILURE() << text << " is another kind of limit";
    return L{};
  }
  return std::get<L>(*limit);
}

// The problem with `text`, as column: message.
std::string wrong(std::string_view text) {
  const auto limit = parse_limit(text);
  if (limit) return "nothing";
  return std::to_string(limit.error().place.column) + ": " + limit.error().message;
}

TEST(LimitText, ReadsARate) {
  const auto bucket = parsed<core::Bucket>("100/s");
  EXPECT_EQ(bucket.rate, (core::Rate{100, 1, 1s}));
  EXPECT_EQ(bucket.capacity, 100);
  EXPECT_FALSE(bucket.queue);
}

TEST(LimitText, ReadsEveryPeriod) {
  EXPECT_EQ(parsed<core::Bucket>("5/min").rate.period, Nanos{1min});
  EXPECT_EQ(parsed<core::Bucket>("5/h").rate.period, Nanos{1h});
  EXPECT_EQ(parsed<core::Bucket>("1/5s").rate.period, Nanos{5s});
  EXPECT_EQ(parsed<core::Bucket>("7 per 90s").rate.period, Nanos{90s});
  EXPECT_EQ(parsed<core::Bucket>("7 per 1min").rate.period, Nanos{1min});
  EXPECT_EQ(parsed<core::Bucket>("7 per 250ms").rate.period, Nanos{250ms});
  EXPECT_EQ(parsed<core::Bucket>("7 per 1.5s").rate.period, Nanos{1500ms});
  EXPECT_EQ(parsed<core::Bucket>(" 7  /\t24h ").rate.period, Nanos{24h});
}

TEST(LimitText, ReadsFractionsExactly) {
  const auto half = parsed<core::Bucket>("0.5/s");
  EXPECT_EQ(half.rate, (core::Rate{5, 10, 1s}));
  EXPECT_EQ(half.capacity, 1);
  EXPECT_EQ(parsed<core::Bucket>("2.50/s").capacity, 2);
  EXPECT_EQ(parsed<core::Bucket>("2.000/s").rate, (core::Rate{2, 1, 1s}));
}

TEST(LimitText, ReadsSizes) {
  EXPECT_EQ(parsed<core::Bucket>("10MB/s").capacity, 10'000'000);
  EXPECT_EQ(parsed<core::Bucket>("1.5kB/s").capacity, 1500);
  EXPECT_EQ(parsed<core::Bucket>("1GiB/min burst 2MiB").capacity, 2 << 20);
  EXPECT_EQ(parsed<core::Bucket>("1e6/s").capacity, 1'000'000);
}

TEST(LimitText, ReadsBurstsAndQueues) {
  EXPECT_EQ(parsed<core::Bucket>("20/s burst 30").capacity, 30);
  const auto queue = parsed<core::Bucket>("10/s queue 50");
  EXPECT_TRUE(queue.queue);
  EXPECT_EQ(queue.capacity, 51);
  EXPECT_EQ(queue.at_once, 1);
  EXPECT_EQ(parsed<core::Bucket>("10/s queue 50 delay 3").at_once, 4);
  EXPECT_EQ(parsed<core::Bucket>("10/s queue 50 nodelay").at_once, 51);
  EXPECT_EQ(parsed<core::Bucket>("10/s queue 0").capacity, 1);
}

TEST(LimitText, ReadsWindows) {
  EXPECT_FALSE(parsed<core::Window>("5/min window").from_first);
  EXPECT_TRUE(parsed<core::Window>("5/min window from first").from_first);
  EXPECT_EQ(parsed<core::SlidingCounter>("5/min sliding").period, Nanos{1min});
  EXPECT_EQ(parsed<core::SlidingLog>("4096/min sliding exact").count, 4096);
}

TEST(LimitText, ReadsSmoothLimits) {
  EXPECT_FALSE(parsed<core::Smooth>("10/s smooth").warms_up());
  EXPECT_EQ(parsed<core::Smooth>("200/s warmup 10s").warmup, Nanos{10s});
}

TEST(LimitText, ReadsCalendarQuotas) {
  const auto quota = parsed<core::CalendarWindow>("100000/day in Asia/Shanghai");
  EXPECT_EQ(quota.count, 100000);
  const auto& calendar = dynamic_cast<const ZoneCalendar&>(*quota.calendar);
  EXPECT_EQ(calendar.unit(), CalendarUnit::day);
  EXPECT_EQ(calendar.zone(), "Asia/Shanghai");
  const auto month = parsed<core::CalendarWindow>("5/month from day 31");
  EXPECT_EQ(dynamic_cast<const ZoneCalendar&>(*month.calendar).anchor(), 31);
  EXPECT_EQ(parsed<core::CalendarWindow>("1MB/week").count, 1'000'000);
}

TEST(LimitText, ReadsConcurrency) {
  EXPECT_EQ(parsed<core::Concurrency>("8 concurrent").hold_time, Nanos{60s});
  EXPECT_EQ(parsed<core::Concurrency>("8 concurrent lease 30s").hold_time, Nanos{30s});
}

// The printed text reads back as the same limit, and prints the same again.
TEST(LimitText, PrintsBackWhatItRead) {
  for (const char* text : {"100/s",
                           "20/s burst 30",
                           "0.5/s",
                           "0.25/min burst 3",
                           "1/5s",
                           "7/90s",
                           "5/min",
                           "2/h",
                           "10/s queue 50",
                           "10/s queue 0",
                           "10/s queue 50 delay 3",
                           "10/s queue 50 nodelay",
                           "5/min window",
                           "5/min window from first",
                           "5/min sliding",
                           "5/min sliding exact",
                           "10/s smooth",
                           "200/s warmup 10s",
                           "100000/day",
                           "5/week in Europe/Berlin",
                           "5/month in Asia/Tokyo from day 31",
                           "5/year from day 6",
                           "8 concurrent",
                           "8 concurrent lease 30s",
                           "3/250ms",
                           "1/1us"}) {
    const auto limit = parse_limit(text);
    ASSERT_TRUE(limit) << text << ": " << limit.error().message;
    EXPECT_EQ(to_text(*limit), text);
  }
}

TEST(LimitText, PrintsTheShortestForm) {
  const auto prints = [](std::string_view text) { return to_text(*parse_limit(text)); };
  EXPECT_EQ(prints("100 per 1s"), "100/s");
  EXPECT_EQ(prints("100/s burst 100"), "100/s");
  EXPECT_EQ(prints("100 per 60s"), "100/min");
  EXPECT_EQ(prints("100 per 120min"), "100/2h");
  EXPECT_EQ(prints("1kB/s"), "1000/s");
  EXPECT_EQ(prints("10/s queue 5 delay 5"), "10/s queue 5 nodelay");
  EXPECT_EQ(prints("8 concurrent lease 1min"), "8 concurrent");
  EXPECT_EQ(prints("5/day in UTC"), "5/day");
}

TEST(LimitText, SaysWhatToWriteInstead) {
  EXPECT_EQ(wrong("100/sec"), "5: unknown unit \"sec\": did you mean \"100/s\"?");
  EXPECT_EQ(wrong("5/hours"), "3: unknown unit \"hours\": did you mean \"5/h\"?");
  EXPECT_EQ(wrong("5/d"), "3: unknown unit \"d\": did you mean \"5/day\"?");
  EXPECT_EQ(wrong("5/m"), "3: \"m\" could be minutes or months: write \"5/min\" or \"5/month\"");
  EXPECT_EQ(wrong("5/10sec"), "5: unknown unit \"sec\": did you mean \"10s\"?");
  EXPECT_EQ(wrong("20/s brust 30"), "6: \"brust\" means nothing here (did you mean \"burst\"?)");
  EXPECT_EQ(wrong("20/s sliding exakt"),
            "14: \"exakt\" means nothing here (did you mean \"exact\"?)");
  EXPECT_EQ(wrong("1/day in Europe/Berln"),
            "10: there is no time zone \"Europe/Berln\" (did you mean \"Europe/Berlin\"?)");
  EXPECT_EQ(wrong("100"),
            "4: a period is missing: write 100/s, 100/min, 100 per 90s or 100 concurrent");
  EXPECT_EQ(wrong("5 concurent lease 9s"),
            "3: a period is missing: write 5/s, 5/min, 5 per 90s or 5 concurrent (did you mean "
            "\"concurrent\"?)");
  EXPECT_EQ(wrong("five"),
            "5: a period is missing: write 100/s, 100/min, 100 per 90s or 100 concurrent");
  EXPECT_EQ(wrong("/s"), "1: how many? write 10/s");
  EXPECT_EQ(wrong("/5min window"), "1: how many? write 10/5min");
  EXPECT_EQ(wrong(" per 90s"), "2: how many? write 10/90s");
  EXPECT_EQ(wrong("/day in UTC"), "1: how many? write 10/day");
  EXPECT_EQ(wrong("/"), "1: how many? write 10/s");
  EXPECT_EQ(wrong("//s"), "1: how many? write 10/s");
  EXPECT_EQ(
      wrong("5GB/min sliding"),
      "1: \"sliding\" counts up to 4000000000: write \"5GB/min window\", or \"5GB/min\" for a "
      "bucket");
  EXPECT_EQ(wrong("10/s burst"),
            "11: after \"burst\" comes a number of permits, as in \"burst 20\"");
  EXPECT_THAT(wrong("10/90"), HasSubstr("a time needs a unit: write 90ms, 90s or 90min"));
  EXPECT_THAT(wrong("10/5days"), HasSubstr("a fixed time like 24h"));
}

TEST(LimitText, RefusesNumbersThatMakeNoLimit) {
  EXPECT_EQ(wrong("0/s"), "1: a rate must be above zero");
  EXPECT_EQ(wrong("-1/s"), "1: \"-1\" is below zero");
  EXPECT_THAT(wrong("NaN/s"), HasSubstr("not a number"));
  EXPECT_THAT(wrong("inf/s"), HasSubstr("not a number"));
  EXPECT_THAT(wrong("1..2/s"), HasSubstr("not a number"));
  EXPECT_THAT(wrong("0x10/s"), HasSubstr("unknown size"));
  EXPECT_THAT(wrong("1e99/s"), HasSubstr("too large"));
  EXPECT_THAT(wrong("99999999999999999999999999999999999999999999/s"), HasSubstr("not a number"));
  EXPECT_THAT(wrong("9223372036854775807TB/s"), HasSubstr("too large"));
  EXPECT_THAT(wrong("10000000000000/s"), HasSubstr("too high"));
  EXPECT_THAT(wrong("2000000000/s smooth"), HasSubstr("too high"));
  EXPECT_THAT(wrong("0.000000001 per 600000h"), HasSubstr("too low"));
  EXPECT_THAT(wrong("0.0000000001/s"), HasSubstr("decimals"));
  EXPECT_THAT(wrong("1/0s"), HasSubstr("above zero"));
  EXPECT_THAT(wrong("1/-5s"), HasSubstr("below zero"));
  EXPECT_THAT(wrong("1 per 9999999h"), HasSubstr("73 years"));
  EXPECT_THAT(wrong("1 per 99999999999999999999999999999999999h"), HasSubstr("73 years"));
  EXPECT_EQ(wrong("10/s burst 0"), "12: a burst must be at least 1");
  EXPECT_THAT(wrong("10/s burst 2.5"), HasSubstr("whole number"));
  EXPECT_THAT(wrong("10/s queue -1"), HasSubstr("below zero"));
  EXPECT_THAT(wrong("0.5/s window"), HasSubstr("whole permits"));
  EXPECT_THAT(wrong("4097/s sliding exact"), HasSubstr("4096"));
  EXPECT_THAT(wrong("4000000001/s sliding"), HasSubstr("counts up to 4000000000"));
  EXPECT_TRUE(parse_limit("4000000000/s sliding"));
  EXPECT_THAT(wrong("1/s warmup 5h"), HasSubstr("4h"));
  EXPECT_THAT(wrong("0 concurrent"), HasSubstr("at least 1"));
  EXPECT_THAT(wrong("2000000 concurrent"), HasSubstr("1000000"));
  EXPECT_THAT(wrong("2 concurrent lease 0s"), HasSubstr("above zero"));
  EXPECT_THAT(wrong("1/month from day 32"), HasSubstr("from 1 to 31"));
  EXPECT_THAT(wrong("1/month from day 0"), HasSubstr("from 1 to 31"));
}

TEST(LimitText, RefusesWordsThatContradictEachOther) {
  EXPECT_THAT(wrong("10/s burst 5 window"), HasSubstr("choose one"));
  EXPECT_THAT(wrong("10/s sliding smooth"), HasSubstr("choose one"));
  EXPECT_THAT(wrong("10/s delay 5"), HasSubstr("goes with \"queue\""));
  EXPECT_THAT(wrong("10/s nodelay"), HasSubstr("goes with \"queue\""));
  EXPECT_THAT(wrong("10/s queue 5 delay 1 nodelay"), HasSubstr("contradict"));
  EXPECT_THAT(wrong("10/s lease 5s"), HasSubstr("goes with \"concurrent\""));
  EXPECT_THAT(wrong("10/s burst 5 burst 6"), HasSubstr("given twice"));
  EXPECT_THAT(wrong("10/s in UTC"), HasSubstr("calendar quota"));
  EXPECT_THAT(wrong("10/day sliding"), HasSubstr("10 per 24h"));
  EXPECT_THAT(wrong("10/week from day 3"), HasSubstr("/month and /year"));
  EXPECT_THAT(wrong("8 concurrent burst 5"), HasSubstr("choose one"));
}

TEST(LimitText, RefusesAMegabyteOfText) {
  const std::string long_text(1 << 20, '9');
  EXPECT_THAT(wrong(long_text), HasSubstr("too long"));
  EXPECT_LT(wrong(long_text + "/s").size(), 200u);
}

TEST(LimitText, RefusesAnEmptyText) {
  EXPECT_THAT(wrong(""), HasSubstr("a limit is missing"));
  EXPECT_THAT(wrong("   "), HasSubstr("a limit is missing"));
  EXPECT_THAT(wrong("10/"), HasSubstr("a period is missing"));
}

TEST(Duration, ReadsUnits) {
  EXPECT_EQ(*parse_duration("30s"), Nanos{30s});
  EXPECT_EQ(*parse_duration("1.5h"), Nanos{90min});
  EXPECT_EQ(*parse_duration("250ms"), Nanos{250ms});
  EXPECT_EQ(*parse_duration("1.5us"), Nanos{1500});
  EXPECT_EQ(*parse_duration("7ns"), Nanos{7});
  EXPECT_FALSE(parse_duration("30"));
  EXPECT_FALSE(parse_duration("s30"));
  EXPECT_FALSE(parse_duration(""));
}

TEST(SameAlgorithm, TellsWindowsApart) {
  const auto same = [](std::string_view a, std::string_view b) {
    return same_algorithm(*parse_limit(a), *parse_limit(b));
  };
  EXPECT_TRUE(same("10/s", "20/min burst 3"));
  EXPECT_TRUE(same("10/s window", "20/min window"));
  EXPECT_FALSE(same("10/s window", "10/s window from first"));
  EXPECT_FALSE(same("10/s window", "10/s sliding"));
}

TEST(Span, IsASumOfTimes) {
  const auto span = [](std::string_view text) {
    const auto parsed = parse_span(text);
    return parsed ? parsed->count() / 1'000'000 : -1;
  };
  EXPECT_EQ(span("10m"), 600'000);
  EXPECT_EQ(span("10min"), 600'000);
  EXPECT_EQ(span("1d"), 86'400'000);
  EXPECT_EQ(span("2h30min"), 9'000'000);
  EXPECT_EQ(span("1h 30m 5s"), 5'405'000);
  EXPECT_EQ(span("1.5h"), 5'400'000);
  EXPECT_EQ(span("250ms"), 250);
  EXPECT_EQ(span("0"), 0);
  EXPECT_EQ(span("0s"), 0);
  for (const char* wrong :
       {"", " ", "h", "1h30", "-1h", "1h-1s", "1h,1s", "1e99d", "74000000000d", "1w"}) {
    EXPECT_EQ(span(wrong), -1) << wrong;
  }
}

}  // namespace
}  // namespace weir::policy
