// Refunds by receipt: an error may waste a permit, and never mints one.

#include <algorithm>
#include <vector>

#include "generators.h"
#include "property.h"
#include "releases.h"
#include "subject.h"

namespace weir::core {
namespace {

// The take of one caller, or a debit that is not refunded.
struct Entry {
  Instant at;
  Permits permits;
  Receipt receipt;
  Nanos wait{0};
};

struct Usage {
  explicit Usage(const Limit& limit) : subject(limit) {}

  Subject subject;
  std::vector<Entry> entries;
  Instant now = instant(1'767'225'601'234'567'891);
  Decision last;
};

enum class Debits { none, some };

// One random event: a take, a debit, or a refund of part, all or more of a receipt, repeated, late
// and in any order.
void happen(Usage& usage, const Step& step, Debits debits) {
  const Limit& limit = usage.subject.limit();
  usage.now = moved(step, limit, usage.now, usage.last);
  Entry entry{.at = usage.now, .permits = 0, .receipt = {}};
  switch (*rc::gen::inRange(0, 5)) {
    case 0:
    case 1: {
      const Ask ask = ask_of(step, limit);
      usage.last = usage.subject.take(usage.now, ask, entry.receipt);
      entry.wait = usage.last.wait;
      entry.permits = ask.cost;
      if (usage.last && ask.cost > 0) usage.entries.push_back(entry);
      return;
    }
    case 2:
      if (debits == Debits::none) return;
      entry.permits = 1 + step.part % 5;
      usage.last = usage.subject.settle(usage.now, entry.permits, entry.receipt);
      usage.entries.push_back(entry);
      return;
    default: {
      if (usage.entries.empty()) return;
      Entry& old = usage.entries[*rc::gen::inRange<std::size_t>(0, usage.entries.size())];
      const Permits before = old.receipt.taken;
      const Permits back = *rc::gen::inRange<Permits>(1, std::max<Permits>(old.permits, 1) + 2);
      usage.last = usage.subject.settle(usage.now, -back, old.receipt);
      RC_ASSERT(old.receipt.taken <= before);
      RC_ASSERT(old.receipt.taken >= 0);
      RC_ASSERT(before - old.receipt.taken <= back);
      old.permits -= before - old.receipt.taken;
    }
  }
}

// The usage if only the kept permits had been taken, each at its time.
Subject kept_only(const Usage& usage) {
  Subject reference(usage.subject.limit());
  Receipt none;
  for (const Entry& entry : usage.entries) {
    if (entry.permits > 0) (void)reference.settle(entry.at, entry.permits, none);
  }
  return reference;
}

void never_better(const Subject& subject, const Subject& reference, Instant now, const Ask& ask) {
  const Decision real = subject.peek(now, ask);
  const Decision ideal = reference.peek(now, ask);
  RC_LOG() << "at " << ns(now) << " " << real << " against " << ideal << "\n";
  RC_ASSERT(real.remaining <= ideal.remaining);
  RC_ASSERT(real.reset_after >= ideal.reset_after);
  if (real) {
    RC_ASSERT(static_cast<bool>(ideal));
    RC_ASSERT(real.wait >= ideal.wait);
  } else if (real.outcome == Outcome::limited && !ideal) {
    RC_ASSERT(real.retry_after >= ideal.retry_after);
  }
}

void never_mints(const Limit& limit, Debits debits,
                 ClockOptions clock_options = {.steps_back = false}) {
  Usage usage(limit);
  for (const Step& arrival : *steps(clock_options)) {
    happen(usage, arrival, debits);
    never_better(usage.subject, kept_only(usage), usage.now, ask_of(arrival, limit));
  }
}

// Buckets and queues that never come near the longest possible debt, where debts are cut off.
rc::Gen<NamedLimit> payable() {
  return rc::gen::suchThat(rc::gen::oneOf(bucket(), queue()), [](const NamedLimit& named) {
    const auto& limit = std::get<Bucket>(named.limit);
    return limit.depth < Int128{kLongestDebt.count()} * limit.interval.parts / 8;
  });
}

// A refunded bucket never has more than if the refunded permits had not been taken.
TEST(BucketRefund, NeverLeavesMoreThanIfItsPermitsWereNeverTaken) {
  check([] { never_mints((*payable()).limit, Debits::some); }, 4000);
}

// The same in a small bucket with few rates, where equal debts come up repeatedly.
TEST(BucketRefund, DistinguishesAnEqualDebtFromAnUntouchedOne) {
  check(
      [] {
        const Permits burst = *rc::gen::inRange<Permits>(2, 12);
        never_mints(*Bucket::make({1, 1}, burst), Debits::some);
      },
      6000);
}

// nginx has no refund. It is replayed while nothing else happened, and refused otherwise.
TEST(NginxRefund, NeverLeavesMoreThanIfItsPermitsWereNeverTaken) {
  check([] { never_mints((*nginx()).limit, Debits::some); }, 1200);
}

// Later callers keep the wait that they were given, which includes this debt.
TEST(SmoothRefund, NeverLeavesMoreThanIfItsPermitsWereNeverTaken) {
  check([] { never_mints((*rc::gen::oneOf(smooth(), warming())).limit, Debits::some); }, 1200);
}

// The current window is refunded; permits that have begun to fade stay.
TEST(SlidingRefund, NeverLeavesMoreThanIfItsPermitsWereNeverTaken) {
  check([] { never_mints((*sliding()).limit, Debits::some); }, 1200);
}

// A day refunds permits taken in it.
TEST(QuotaRefund, NeverLeavesMoreThanIfItsPermitsWereNeverTaken) {
  check([] { never_mints((*quota()).limit, Debits::some); }, 1200);
}

// A window refunds permits taken in it.
TEST(WindowRefund, NeverLeavesMoreThanIfItsPermitsWereNeverTaken) {
  check(
      [] {
        const Permits count = *rc::gen::inRange<Permits>(1, 30);
        never_mints(*Window::make({count, 1}, false), Debits::some);
      },
      1200);
}

// Without debits: those may share an entry of a full log, which then counts for longer.
TEST(ExactLogRefund, NeverLeavesMoreThanIfItsPermitsWereNeverTaken) {
  check([] { never_mints((*exact_log()).limit, Debits::none); }, 1200);
}

// A window opened by its first call stays when that call is refunded. The usage kept in it never
// exceeds the count.
TEST(WindowFromFirstRefund, NeverKeepsMoreThanItsCountInAWindow) {
  check(
      [] {
        const Window limit = *Window::make({*rc::gen::inRange<Permits>(1, 12), 1}, true);
        Usage usage(limit);
        for (const Step& arrival : *steps({.steps_back = false})) {
          happen(usage, arrival, Debits::none);
        }
        std::vector<std::pair<Instant, Permits>> windows;
        for (const Entry& entry : usage.entries) {
          const Instant opened = instant_of(entry.receipt.after.when);
          if (windows.empty() || windows.back().first != opened) windows.push_back({opened, 0});
          windows.back().second += entry.permits;
          RC_ASSERT(windows.back().second <= limit.count);
        }
      },
      1200);
}

// Waiting reservations may be cancelled. Those that stay keep their turn, and no later caller makes
// the flow exceed the rate.
TEST(BucketRefund, NeverLetsOutMoreThanItsRateWhenReservationsAreCancelled) {
  check(
      [] {
        const Bucket limit = std::get<Bucket>((*payable()).limit);
        Usage usage(limit);
        Permits largest = 1;
        for (const Step& arrival : *steps({.steps_back = false})) {
          happen(usage, arrival, Debits::none);
          if (!usage.entries.empty()) largest = std::max(largest, usage.entries.back().permits);
        }
        const Permits at_once = limit.queue ? limit.at_once - 1 + largest : limit.capacity;
        std::vector<Release> released;
        for (const Entry& e : usage.entries) {
          if (e.permits > 0)
            released.push_back({later(e.at, e.wait), e.permits, e.wait > Nanos{0}});
        }
        RC_ASSERT(within_rate(released, limit.rate, at_once));
      },
      4000);
}

// Takes, changes the limit, then refunds a take from before the change. At most as many permits may
// remain as if the refunded ones had never been taken.
void never_mints_after_a_change(const Limit& limit, const Limit& next) {
  Usage usage(limit);
  for (const Step& arrival : *steps({.steps_back = false})) happen(usage, arrival, Debits::some);
  RC_PRE(!usage.entries.empty());
  const Instant change = usage.now;
  usage.now += *rc::gen::inRange(0, 5) * beat(next) / 2;
  const std::size_t which = *rc::gen::inRange<std::size_t>(0, usage.entries.size());
  Entry& old = usage.entries[which];
  const Permits back = *rc::gen::inRange<Permits>(1, std::max<Permits>(old.permits, 1) + 2);
  const Permits before = old.receipt.taken;
  Subject changed = usage.subject;
  changed.change(next, change);
  const Permits left = changed.settle(usage.now, -back, old.receipt).remaining;
  old.permits -= before - old.receipt.taken;
  Subject reference = kept_only(usage);
  reference.change(next, change);
  // Debts from before a change are known to about a nanosecond.
  const Instant a_hair_later = usage.now + beat(next) / 1000;
  RC_LOG() << back << " given back of " << before << ", " << left << " remain\n";
  RC_ASSERT(left <= reference.peek(a_hair_later, {}).remaining);
}

rc::Gen<Rate> slow_rate() {
  return rc::gen::element(Rate{1, 1}, Rate{10, 1}, Rate{50, 1}, Rate{1, 1, std::chrono::hours{1}},
                          Rate{7, 1, std::chrono::minutes{1}}, Rate{3, 1});
}

Bucket slow_bucket() {
  const Rate rate = *slow_rate();
  return *Bucket::make(rate, *rc::gen::inRange(1, 12));
}

// Neither at the old emission interval nor at the new one, early or late.
TEST(BucketRefund, NeverCreatesPermitsAfterALimitChange) {
  check(
      [] {
        const Limit limit = slow_bucket();
        never_mints_after_a_change(limit, slow_bucket());
      },
      6000);
}

// The debt before the change drained at the old rate.
TEST(NginxRefund, NeverCreatesPermitsAfterALimitChange) {
  check(
      [] {
        const Rate fast{*rc::gen::inRange(1, 50), 1};
        const Rate slow{*rc::gen::inRange(1, 50), 1, std::chrono::minutes{1}};
        const Limit limit = *NginxQueue::make(slow, *rc::gen::inRange(1, 12), 12);
        never_mints_after_a_change(limit, *NginxQueue::make(fast, 12, 12));
      },
      6000);
}

// The debt before the change counts at the old emission interval.
TEST(SmoothRefund, NeverCreatesPermitsAfterALimitChange) {
  check(
      [] {
        const auto rate = rc::gen::element(Rate{1, 1}, Rate{2, 1}, Rate{10, 1}, Rate{100, 1});
        const Limit limit = *Smooth::make(*rate);
        never_mints_after_a_change(limit, *Smooth::make(*rate));
      },
      6000);
}

// A refund at once, before anything else happened, leaves no trace.
TEST(FullRefund, LeavesNoTrace) {
  check([] {
    const NamedLimit named = *rc::gen::oneOf(bucket(), queue(), nginx(), smooth(), warming(),
                                             window(), sliding(), quota(), exact_log());
    Subject subject(named.limit);
    Instant now = start();
    Decision last;
    for (const Step& arrival : *steps({.steps_back = false})) {
      now = moved(arrival, named.limit, now, last);
      const Ask ask = ask_of(arrival, named.limit);
      Subject undone = subject;
      Receipt receipt;
      const bool took = ask.cost > 0 && undone.take(now, ask, receipt);
      if (took) {
        const Decision before = subject.peek(now, {});
        const Decision after = undone.settle(now, -ask.cost, receipt);
        RC_ASSERT(receipt.taken == 0);
        RC_ASSERT(after.remaining == before.remaining);
        RC_ASSERT(after.reset_after == before.reset_after);
      }
      last = subject.take(now, ask);
    }
  });
}

}  // namespace
}  // namespace weir::core
