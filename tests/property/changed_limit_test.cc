// A limit that changes while keys are in use keeps their used permits, counted in permits.

#include <algorithm>

#include "generators.h"
#include "property.h"
#include "subject.h"

namespace weir::core {
namespace {

const Instant kChange = instant(1'767'225'601'234'567'891);

// Emission intervals above two nanoseconds: shorter ones cannot be told apart in a debt.
rc::Gen<Rate> countable_rate() {
  return rc::gen::oneOf(
      rc::gen::suchThat(
          any_rate(),
          [](const Rate& rate) { return rate.count / rate.scale < rate.period.count() / 2; }),
      rc::gen::map(rc::gen::inRange(1, 499'999'999),
                   [](int count) {
                     return Rate{count, 1};
                   }),
      rc::gen::element(Rate{3, 10}, Rate{1000003, 1}, Rate{7, 1, std::chrono::minutes{1}}));
}

Subject used_bucket(const Bucket& limit, Permits used, Instant at) {
  Subject subject(limit);
  while (used > 0) {
    const Permits cost = std::max<Permits>(*rc::gen::inRange<Permits>(used / 2, used + 1), 1);
    RC_ASSERT(subject.take(at, {.cost = cost}));
    used -= cost;
  }
  return subject;
}

// A debt never exceeds 73 years, so no more permits than this can be kept.
Permits owable(const Bucket& limit) {
  return to_int64(Int128{kLongestDebt.count()} * limit.interval.parts / limit.interval.price);
}

// Either with a history of the limit, or with only the emission interval in the state, which has 18
// significant bits.
enum class Known { history, price };

void keeps_used_permits(Permits most, Known known) {
  const Rate old_rate = *countable_rate();
  const Rate new_rate = *countable_rate();
  const Permits old_capacity = *rc::gen::inRange<Permits>(1, most);
  const Permits new_capacity = *rc::gen::inRange<Permits>(1, most);
  const Bucket old_limit = *Bucket::make(old_rate, old_capacity);
  const Bucket new_limit = *Bucket::make(new_rate, new_capacity);
  const Permits usable = std::min({old_capacity, owable(old_limit), owable(new_limit)});
  const Permits used = *rc::gen::inRange<Permits>(0, usable + 1);
  RC_LOG() << old_rate << " burst " << old_capacity << " to " << new_rate << " burst "
           << new_capacity << ", used " << used << "\n";
  Subject subject = used_bucket(old_limit, used, kChange);
  if (known == Known::history) {
    subject.change(new_limit, kChange);
  } else {
    subject.change(new_limit);
  }
  RC_ASSERT(subject.peek(kChange, {}).remaining == std::max<Permits>(new_capacity - used, 0));
}

// 10/min used up and raised to 20/min leaves 10 permits, at any rates.
TEST(ChangedBucket, KeepsTheNumberOfUsedPermits) {
  check([] { keeps_used_permits(5000, *rc::gen::element(Known::history, Known::price)); }, 2000);
}

// The same with up to a billion used permits.
TEST(ChangedBucket, KeepsTheNumberOfUsedPermitsHoweverMany) {
  check([] { keeps_used_permits(1'000'000'000, Known::history); }, 2000);
}

// Emission intervals too short to be told apart may cost permits worth a nanosecond, and never give
// any away.
TEST(ChangedBucket, NeverForgetsUsedPermitsOfAnyRate) {
  check([] {
    const Permits capacity = *rc::gen::inRange<Permits>(1, 1'000'000);
    const Bucket old_limit = *Bucket::make(*any_rate(), capacity);
    const Bucket new_limit = *Bucket::make(*any_rate(), capacity);
    const Permits usable = std::min({capacity, owable(old_limit), owable(new_limit)});
    const Permits used = *rc::gen::inRange<Permits>(0, usable + 1);
    Subject subject = used_bucket(old_limit, used, kChange);
    subject.change(new_limit);
    RC_ASSERT(subject.peek(kChange, {}).remaining <= capacity - used);
  });
}

// After the change the limit continues as if the permits had been taken under the new limit at the
// change, however late the next call comes.
TEST(ChangedBucket, DrainsAtTheNewRateFromTheChangeOn) {
  check([] {
    const Permits used = *rc::gen::inRange<Permits>(1, 73);
    const Limit next = *Bucket::make(*countable_rate(), 100);
    Subject changed = used_bucket(*Bucket::make(*countable_rate(), 100), used, kChange);
    changed.change(next, kChange);
    Subject reference(next);
    (void)reference.take(kChange, {.cost = used});
    Instant now = kChange;
    Decision last;
    for (const Step& arrival : *steps({.steps_back = false})) {
      now = moved(arrival, next, now, last);
      const Ask ask = ask_of(arrival, next);
      last = changed.take(now, ask);
      RC_ASSERT(last == reference.take(now, ask));
    }
  });
}

struct Epoch {
  Instant since;
  Bucket limit;
};

// The permits that the rates grant between two instants, plus permits worth a nanosecond for each
// change, because a change rounds the debt in permits.
long double granted(const std::vector<Epoch>& epochs, Instant from, Instant to) {
  long double permits = 0;
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    const Instant begin = std::max(from, epochs[i].since);
    const Instant end = i + 1 < epochs.size() ? std::min(to, epochs[i + 1].since) : to;
    const Rate& rate = epochs[i].limit.rate;
    const long double in_nano = static_cast<long double>(rate.count) /
                                static_cast<long double>(rate.scale) /
                                static_cast<long double>(rate.period.count());
    if (end >= begin) permits += in_nano * (static_cast<long double>((end - begin).count()) + 1);
  }
  return permits;
}

Bucket small_bucket() {
  const Rate rate = *exact_rate();
  return *Bucket::make(rate, *rc::gen::inRange(1, 50));
}

void stays_within_all_rates() {
  std::vector<Epoch> epochs{{kChange, small_bucket()}};
  Subject subject(epochs.back().limit);
  struct Taken {
    Instant at;
    Permits permits;
    Permits capacity;
  };
  std::vector<Taken> taken;
  Instant now = kChange;
  Decision last;
  for (const Step& arrival : *steps({.steps_back = false, .waits = false})) {
    now = moved(arrival, subject.limit(), now, last);
    if (*rc::gen::inRange(0, 5) == 0) {
      epochs.push_back({now, small_bucket()});
      subject.change(epochs.back().limit, now);
    }
    const Ask ask = ask_of(arrival, subject.limit());
    last = subject.take(now, ask);
    if (!last || ask.cost == 0) continue;
    taken.push_back({now, ask.cost, capacity(subject.limit())});
  }
  for (std::size_t first = 0; first < taken.size(); ++first) {
    Permits sum = 0;
    Permits most_at_once = 0;
    for (std::size_t i = first; i < taken.size(); ++i) {
      sum += taken[i].permits;
      most_at_once = std::max(most_at_once, taken[i].capacity);
      const long double allowed =
          static_cast<long double>(most_at_once) + granted(epochs, taken[first].at, taken[i].at);
      RC_ASSERT(static_cast<long double>(sum) <= allowed * (1 + 1e-9L));
    }
  }
}

// No interval across changes holds more than the largest burst plus the permits granted by each
// rate.
TEST(ChangedBucket, NeverAdmitsMoreThanTheRatesOfItsTimeAllow) {
  check([] { stays_within_all_rates(); }, 1500);
}

// Savings are time, so a change of the rate neither adds nor removes any.
TEST(ChangedSmooth, KeepsTheSavedPermits) {
  check([] {
    const auto rate = rc::gen::suchThat(
        exact_rate(), [](const Rate& r) { return r.count / r.scale <= r.period.count(); });
    const Limit old_limit = *Smooth::make(*rate);
    Subject subject(old_limit);
    (void)subject.take(kChange, {.cost = *rc::gen::inRange<Permits>(1, 2000)});
    const Instant now = kChange + beat(old_limit);
    const Nanos reset = subject.peek(now, {}).reset_after;
    subject.change(*Smooth::make(*rate));
    const Nanos after = subject.peek(now, {}).reset_after;
    RC_LOG() << "rest after " << reset.count() << " ns, then " << after.count() << " ns\n";
    // One second of permits with a rounded-up emission interval is at most a microsecond more than
    // a second. "At rest" means all of it.
    RC_ASSERT(std::max(reset, after) - std::min(reset, after) <= Nanos{1000});
  });
}

// Counters count permits under any limit. Lowering a limit below its usage leaves none.
TEST(ChangedCounter, KeepsTheNumberOfUsedPermits) {
  check([] {
    const Permits old_count = *rc::gen::inRange<Permits>(1, 20);
    const Permits new_count = *rc::gen::inRange<Permits>(1, 20);
    const auto limit = *rc::gen::element<std::function<Limit(Permits)>>(
        [](Permits n) -> Limit {
          return *Window::make({n, 1}, false);
        },
        [](Permits n) -> Limit {
          return *Window::make({n, 1}, true);
        },
        [](Permits n) -> Limit {
          return *SlidingCounter::make({n, 1});
        },
        [](Permits n) -> Limit {
          return *NginxQueue::make({n, 1}, n - 1, n);
        });
    const Permits used = *rc::gen::inRange<Permits>(0, old_count + 1);
    Subject subject(limit(old_count));
    (void)subject.take(kChange, {.cost = used});
    subject.change(limit(new_count));
    const Permits left = std::max<Permits>(new_count - used, 0);
    RC_ASSERT(subject.peek(kChange, {}).remaining == left);
  });
}

}  // namespace
}  // namespace weir::core
