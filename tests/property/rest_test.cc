// A key at rest may be forgotten: from then on it cannot be told from a key never used.

#include <algorithm>

#include "generators.h"
#include "property.h"
#include "subject.h"

namespace weir::core {
namespace {

// A subject after some arrivals, and the current time.
struct UsedSubject {
  Subject subject;
  Instant now;
};

UsedSubject use(const NamedLimit& named) {
  UsedSubject used{Subject(named.limit), start()};
  Decision last;
  std::uint64_t who = 0;
  for (const Step& arrival : *steps()) {
    used.now = moved(arrival, named.limit, used.now, last);
    last = used.subject.take(used.now, ask_of(arrival, named.limit), ++who);
  }
  return used;
}

Instant rest_of(const UsedSubject& used) {
  return later(used.now, used.subject.peek(used.now, {.cost = 0}).reset_after);
}

// Forgetting a key at rest is exact, so a table may evict it.
TEST(Rest, AnswersLikeAKeyNeverSeenFromThenOn) {
  check(
      [] {
        const NamedLimit named = *any_limit();
        UsedSubject used = use(named);
        Subject fresh(named.limit);
        Instant now = rest_of(used);
        RC_PRE(now < kHorizon);
        Decision last;
        std::uint64_t who = 1'000'000;
        for (const Step& arrival : *steps({.steps_back = false})) {
          now = moved(arrival, named.limit, now, last);
          const Ask ask = ask_of(arrival, named.limit);
          ++who;
          RC_ASSERT(used.subject.peek(now, ask, who) == fresh.peek(now, ask, who));
          last = used.subject.take(now, ask, who);
          RC_ASSERT(fresh.take(now, ask, who) == last);
        }
      },
      1200);
}

// Rest is not reported late: a nanosecond earlier the difference is visible.
TEST(Rest, IsNotReachedANanosecondEarlier) {
  check(
      [] {
        const NamedLimit named = *any_limit();
        const UsedSubject used = use(named);
        const Instant rest = rest_of(used);
        RC_PRE(rest > used.now);
        RC_PRE(rest < kLatest);
        // A nanosecond of savings makes no difference to a permit if the limit has few of them.
        const auto* limiter = std::get_if<Smooth>(&named.limit);
        const bool tiny = limiter != nullptr && limiter->full > 0 && limiter->full <= 1000;
        RC_PRE(!tiny);
        const Instant before = rest - Nanos{1};
        Subject nearly = used.subject;
        Subject fresh(named.limit);
        const bool same_remaining =
            nearly.peek(before, {.cost = 0}).remaining == fresh.peek(before, {.cost = 0}).remaining;
        // Smooth limiters may differ by less than the nanosecond to which answers are rounded.
        const bool same_answer = nearly.take(before, {}, 77) == fresh.take(before, {}, 77);
        const bool same_after = nearly.bytes() == fresh.bytes();
        RC_ASSERT(!(same_remaining && same_answer && same_after));
      },
      1200);
}

// A key comes to rest by time alone, and then has no usage.
TEST(Rest, HasEverythingRemaining) {
  check([] {
    const NamedLimit named = *any_limit();
    const UsedSubject used = use(named);
    const Instant rest = rest_of(used);
    RC_PRE(rest <= kLatest);
    const Decision answer = used.subject.peek(rest, {.cost = 0});
    RC_ASSERT(answer.remaining == answer.limit);
    RC_ASSERT(answer.reset_after == Nanos{0});
  });
}

}  // namespace
}  // namespace weir::core
