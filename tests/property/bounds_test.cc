// No algorithm admits more than its definition allows in any interval, for any arrivals and any
// steps of the clock.

#include <algorithm>
#include <map>

#include "generators.h"
#include "property.h"
#include "releases.h"
#include "subject.h"

namespace weir::core {
namespace {

struct Admitted {
  Instant at;        // the instant of the decision
  Instant furthest;  // the latest clock time at any admission so far
  Nanos wait;
  Permits permits;
};

std::vector<Admitted> admissions(const Limit& limit, ClockOptions clock_options = {}) {
  Subject subject(limit);
  std::vector<Admitted> admitted;
  Instant now = start();
  Instant furthest{};
  Decision last;
  std::uint64_t who = 0;
  for (const Step& arrival : *steps(clock_options)) {
    now = moved(arrival, limit, now, last);
    const Ask ask = ask_of(arrival, limit);
    last = subject.take(now, ask, ++who);
    if (!last || ask.cost == 0) continue;
    furthest = std::max(furthest, now);
    admitted.push_back({now, furthest, last.wait, ask.cost});
  }
  return admitted;
}

std::vector<Release> releases(const std::vector<Admitted>& admitted) {
  std::vector<Release> released;
  for (const Admitted& a : admitted) {
    released.push_back({later(a.at, a.wait), a.permits, a.wait > Nanos{0}});
  }
  return released;
}

Permits largest(const std::vector<Admitted>& admitted) {
  Permits most = 0;
  for (const Admitted& a : admitted) most = std::max(most, a.permits);
  return most;
}

// Burst + rate × time, counted at the instants at which callers are told to go.
TEST(Bucket, NeverAdmitsMoreThanBurstPlusRateInAnyInterval) {
  check(
      [] {
        const Bucket limit = std::get<Bucket>((*bucket()).limit);
        RC_ASSERT(within_rate(releases(admissions(limit)), limit.rate, limit.capacity));
      },
      1200);
}

// A queue lets out its undelayed calls plus the rate. A call of several permits goes out as a whole
// when its turn comes.
TEST(Queue, LetsOutNoMoreThanItsRateInAnyInterval) {
  check(
      [] {
        const Bucket limit = std::get<Bucket>((*queue()).limit);
        const auto admitted = admissions(limit);
        const Permits at_once = limit.at_once - 1 + std::max<Permits>(largest(admitted), 1);
        RC_ASSERT(within_rate(releases(admitted), limit.rate, at_once));
      },
      1200);
}

// The wait is bounded by the length of the queue, for any arrivals.
TEST(Queue, NeverMakesACallerWaitLongerThanItsLengthTakes) {
  check([] {
    const Bucket limit = std::get<Bucket>((*queue()).limit);
    const Int128 longest =
        ceil_div((limit.capacity - limit.at_once) * limit.interval.price, limit.interval.parts);
    for (const Admitted& a : admissions(limit)) RC_ASSERT(a.wait.count() <= longest);
  });
}

// nginx lets out its undelayed requests plus its truncated rate, with an error of one millisecond.
TEST(NginxQueue, LetsOutNoMoreThanItsRateInAnyInterval) {
  check(
      [] {
        const NginxQueue limit = std::get<NginxQueue>((*nginx()).limit);
        const auto admitted = admissions(limit, {.steps_back = false});
        const Permits undelayed = std::min(limit.places, limit.undelayed);
        const Permits at_once = undelayed + std::max<Permits>(largest(admitted), 1);
        std::vector<Release> released;
        for (const Admitted& a : admitted) {
          const Instant milli = instant(ns(a.at) / 1'000'000 * 1'000'000);
          released.push_back({milli + a.wait, a.permits, false});
        }
        // One millisecond more on either side of the interval, and the permits of one millisecond.
        const Permits in_a_milli = limit.milli_rate / 1'000'000 + 1;
        const Rate thousandths{.count = limit.milli_rate, .scale = 1000};
        RC_ASSERT(within_rate(released, thousandths, at_once + in_a_milli));
      },
      1200);
}

// At most the count in each window. A clock that steps back counts as the latest time reached.
TEST(Window, NeverAdmitsMoreThanItsCountInAWindow) {
  check([] {
    const Rate rate{*rc::gen::inRange(1, 30), 1, Nanos{*rc::gen::inRange(1, 1'000'000'000)}};
    const Window limit = *Window::make(rate, false);
    std::map<std::int64_t, Permits> used;
    for (const Admitted& a : admissions(limit)) {
      Permits& in_window = used[ns(a.furthest) / limit.period.count()];
      in_window += a.permits;
      RC_ASSERT(in_window <= limit.count);
    }
  });
}

// Windows opened by their first call do not overlap, and each holds at most the count.
TEST(WindowFromFirst, NeverAdmitsMoreThanItsCountInAWindow) {
  check([] {
    const Rate rate{*rc::gen::inRange(1, 30), 1, Nanos{*rc::gen::inRange(1, 1'000'000'000)}};
    const Window limit = *Window::make(rate, true);
    Instant opened = instant(0);
    Permits used = 0;
    for (const Admitted& a : admissions(limit)) {
      if (opened == instant(0) || a.at >= opened + limit.period) {
        opened = a.at;
        used = 0;
      }
      used += a.permits;
      RC_ASSERT(used <= limit.count);
    }
  });
}

// The estimate never exceeds the count in an aligned window.
TEST(SlidingCounter, NeverAdmitsMoreThanItsCountInAnAlignedWindow) {
  check([] {
    const SlidingCounter limit = std::get<SlidingCounter>((*sliding()).limit);
    std::map<std::int64_t, Permits> used;
    for (const Admitted& a : admissions(limit)) {
      Permits& in_window = used[ns(a.furthest) / limit.period.count()];
      in_window += a.permits;
      RC_ASSERT(in_window <= limit.count);
    }
  });
}

// Every window [x, x + period) holds at most the count, for any x.
TEST(SlidingLog, NeverAdmitsMoreThanItsCountInAnyWindow) {
  check(
      [] {
        const SlidingLog limit = std::get<SlidingLog>((*exact_log()).limit);
        const auto admitted = admissions(limit);
        for (const Admitted& first : admitted) {
          Permits sum = 0;
          for (const Admitted& a : admitted) {
            const Nanos after = a.furthest - first.furthest;
            if (after >= Nanos{0} && after < limit.period) sum += a.permits;
          }
          RC_ASSERT(sum <= limit.count);
        }
      },
      1200);
}

// At no instant do more holders than the count have a lease that has not expired.
TEST(Concurrency, NeverHasMoreHoldersThanItsCount) {
  check([] {
    const Concurrency limit = std::get<Concurrency>((*concurrency()).limit);
    const auto admitted = admissions(limit, {.steps_back = false});
    for (const Admitted& one : admitted) {
      Permits held = 0;
      for (const Admitted& a : admitted) {
        if (a.at <= one.at && one.at < a.at + limit.hold_time) held += a.permits;
      }
      RC_ASSERT(held <= limit.count);
    }
  });
}

// Savings and elapsed time pay for all callers but the last, which goes on credit.
TEST(Smooth, GrantsNoMoreThanItsSavedPermitsPlusItsRate) {
  check(
      [] {
        const Smooth limit = std::get<Smooth>((*rc::gen::oneOf(smooth(), warming())).limit);
        const auto granted = releases(admissions(limit));
        const Int128 savings = limit.warms_up() ? 0 : limit.full;
        for (std::size_t first = 0; first < granted.size(); ++first) {
          Int128 paid = 0;
          for (std::size_t last = first + 1; last < granted.size(); ++last) {
            paid += granted[last - 1].permits * limit.interval.price;
            const Nanos time = granted[last].at - granted[first].at + Nanos{1};
            RC_ASSERT(paid <= savings + Int128{time.count()} * limit.interval.parts);
          }
        }
      },
      1200);
}

}  // namespace
}  // namespace weir::core
