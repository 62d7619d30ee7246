// Each algorithm against a slow and obvious model of it: every field of every answer.

#include <algorithm>

#include "calendar.h"
#include "generators.h"
#include "models.h"
#include "property.h"
#include "subject.h"

namespace weir::core {
namespace {

// Runs both through the same arrivals and expects the same answers.
template <typename Model>
void agree(const Limit& limit, Model model, ClockOptions clock_options = {}) {
  Subject subject(limit);
  Instant now = start();
  Decision last;
  for (const Step& arrival : *steps(clock_options)) {
    now = moved(arrival, limit, now, last);
    const Ask ask = ask_of(arrival, limit);
    last = subject.take(now, ask);
    RC_ASSERT(last == model.take(now, ask));
  }
}

// A token bucket is a debt that drains at the rate, computed in whole ticks.
TEST(Bucket, AgreesWithExactRationalArithmetic) {
  check(
      [] {
        const Rate rate = *exact_rate();
        const Permits burst = *rc::gen::inRange<Permits>(1, 5000);
        agree(*Bucket::make(rate, burst), model::BucketModel(rate, burst, burst, false));
      },
      1200);
}

// A queue is the same debt, of which only the first part is undelayed.
TEST(Queue, AgreesWithExactRationalArithmetic) {
  check(
      [] {
        const Rate rate = *exact_rate();
        const Permits places = *rc::gen::inRange<Permits>(0, 30);
        const Permits undelayed = *rc::gen::inRange<Permits>(0, 40);
        agree(*Bucket::make_queue(rate, places, undelayed),
              model::BucketModel(rate, places + 1, std::min(undelayed, places) + 1, true));
      },
      1200);
}

// The compatible queue gives nginx's answers, including its truncations.
TEST(NginxQueue, AgreesWithNginxRequestByRequest) {
  check(
      [] {
        const Permits count = *rc::gen::inRange(1, 3000);
        const bool by_minute = *rc::gen::arbitrary<bool>();
        const Permits burst = *rc::gen::inRange<Permits>(0, 30);
        const Permits delay = *rc::gen::inRange<Permits>(0, 40);
        const Nanos period = std::chrono::seconds{by_minute ? 60 : 1};
        const Limit limit = *NginxQueue::make({count, 1, period}, burst, delay);
        model::NginxModel nginx(by_minute ? count * 1000 / 60 : count * 1000, burst, delay);
        Subject subject(limit);
        // Not at the epoch, where nginx's milliseconds cannot be represented as instants.
        Instant now = instant(1'767'225'601'234'567'891);
        Decision last;
        for (const Step& arrival : *steps()) {
          now = moved(arrival, limit, now, last);
          const Nanos patience = ask_of(arrival, limit).max_wait;
          last = subject.take(now, {.max_wait = patience});
          RC_ASSERT(last == nginx.take(now, patience));
        }
      },
      1200);
}

// A window counts the permits admitted in it.
TEST(Window, AgreesWithAPlainCount) {
  check([] {
    const Permits count = *rc::gen::inRange<Permits>(1, 30);
    const Nanos period{*rc::gen::element<std::int64_t>(1'000'000'000, 7, 60'000'000'000)};
    agree(*Window::make({count, 1, period}, false),
          model::WindowModel(count, [=](Instant t) { return aligned_span(period, t); }));
    agree(*Window::make({count, 1, period}, true), model::WindowModel(count, period));
  });
}

// A quota counts the permits admitted in its day, for any length of the day.
TEST(CalendarWindow, AgreesWithAPlainCount) {
  check([] {
    const Permits count = *rc::gen::inRange<Permits>(1, 30);
    const auto days = uneven_days();
    agree(*CalendarWindow::make(count, days),
          model::WindowModel(count, [=](Instant t) { return days->span_at(t); }));
  });
}

// The weight of the two counters follows the formula, to the nanosecond.
TEST(SlidingCounter, AgreesWithItsFormula) {
  check(
      [] {
        const Permits count = *rc::gen::inRange<Permits>(1, 60);
        const Nanos period{*rc::gen::element<std::int64_t>(1'000'000'000, 7, 60'000'000'000)};
        agree(*SlidingCounter::make({count, 1, period}), model::SlidingModel(count, period));
      },
      1200);
}

// The exact window is a list of admissions.
TEST(SlidingLog, AgreesWithAPlainList) {
  check(
      [] {
        const Permits count = *rc::gen::inRange<Permits>(1, 30);
        const Nanos period{*rc::gen::element<std::int64_t>(1'000'000'000, 7, 60'000'000'000)};
        agree(*SlidingLog::make({count, 1, period}), model::LogModel(count, period));
      },
      1200);
}

// Holders enter, stay, renew, leave, and are forgotten when their lease has expired.
TEST(Concurrency, AgreesWithAPlainList) {
  check(
      [] {
        const Permits count = *rc::gen::inRange<Permits>(1, 12);
        const Nanos lease{*rc::gen::element<std::int64_t>(30'000'000'000, 10)};
        const Limit limit = *Concurrency::make(count, lease);
        Subject subject(limit);
        model::HoldersModel room(count, lease);
        Instant now = start();
        Decision last;
        for (const Step& arrival : *steps()) {
          now = moved(arrival, limit, now, last);
          const auto who = *rc::gen::inRange<std::uint64_t>(0, 8);
          if (*rc::gen::inRange(0, 4) == 0) {
            const Charge charge = subject.charge({});
            RC_ASSERT(leave(std::span(&charge, 1), now, {.low = who}) == room.leave(now, who));
          } else {
            const Permits cost = ask_of(arrival, limit).cost;
            last = subject.take(now, {.cost = cost}, who);
            RC_ASSERT(last == room.enter(now, cost, who));
          }
        }
      },
      1200);
}

}  // namespace
}  // namespace weir::core
