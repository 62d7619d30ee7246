// Properties that hold for every algorithm alike.

#include <algorithm>

#include "generators.h"
#include "property.h"
#include "subject.h"

namespace weir::core {
namespace {

// A new holder in each step: one that comes back would renew its lease.
std::uint64_t newcomer(std::size_t step) { return step + 1; }

// Walks a subject through random arrivals and passes each to `meet` before it is taken.
template <typename Meet>
void walk(Subject& subject, Meet meet) {
  Instant now = start();
  const std::vector<Step> arrivals = *steps();
  Decision last;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    now = moved(arrivals[i], subject.limit(), now, last);
    const Ask ask = ask_of(arrivals[i], subject.limit());
    meet(now, ask, newcomer(i));
    last = subject.take(now, ask, newcomer(i));
  }
}

// A refusal reads and does not write: a refused call leaves no trace.
TEST(EveryLimit, RemembersNothingOfARefusedCall) {
  check([] {
    Subject subject((*any_limit()).limit);
    walk(subject, [&](Instant now, const Ask& ask, std::uint64_t who) {
      Subject tried = subject;
      if (!tried.take(now, ask, who)) RC_ASSERT(tried.bytes() == subject.bytes());
    });
  });
}

// A call of zero permits is a query and changes nothing.
TEST(EveryLimit, RemembersNothingOfACallThatCostsNothing) {
  check([] {
    Subject subject((*any_limit()).limit);
    walk(subject, [&](Instant now, const Ask& ask, std::uint64_t who) {
      Subject tried = subject;
      (void)tried.take(now, {.cost = 0, .max_wait = ask.max_wait}, who);
      RC_ASSERT(tried.bytes() == subject.bytes());
    });
  });
}

// Peek returns the answer of a take, with `remaining` as it is, and changes nothing.
TEST(EveryLimit, PeeksTheAnswerOfATake) {
  check([] {
    Subject subject((*any_limit()).limit);
    walk(subject, [&](Instant now, const Ask& ask, std::uint64_t who) {
      const Decision now_free = subject.peek(now, {.cost = 0}, who);
      const Decision peeked = subject.peek(now, ask, who);
      Subject tried = subject;
      const Decision taken = tried.take(now, ask, who);
      RC_ASSERT(peeked.outcome == taken.outcome);
      RC_ASSERT(peeked.retry_after == taken.retry_after);
      RC_ASSERT(peeked.wait == taken.wait);
      RC_ASSERT(peeked.limit == taken.limit);
      RC_ASSERT(peeked.remaining == now_free.remaining);
      if (!taken) RC_ASSERT(peeked == taken);
    });
  });
}

// The numbers of any answer lie within the documented ranges.
TEST(EveryLimit, AnswersWithinItsRange) {
  check([] {
    Subject subject((*any_limit()).limit);
    walk(subject, [&](Instant now, const Ask& ask, std::uint64_t who) {
      const Decision answer = subject.peek(now, ask, who);
      RC_ASSERT(answer.limit == capacity(subject.limit()));
      RC_ASSERT(answer.remaining >= 0);
      RC_ASSERT(answer.remaining <= answer.limit);
      RC_ASSERT(answer.reset_after >= Nanos{0});
      RC_ASSERT(answer.wait >= Nanos{0});
      RC_ASSERT(answer.wait <= std::max(ask.max_wait, Nanos{0}));
      switch (answer.outcome) {
        case Outcome::allowed:
          RC_ASSERT(answer.retry_after == Nanos{0});
          break;
        case Outcome::limited:
          RC_ASSERT(answer.retry_after > Nanos{0});
          break;
        case Outcome::impossible:
          RC_ASSERT(answer.retry_after == kNever);
          break;
      }
    });
  });
}

// A call at the returned instant is admitted; one a nanosecond earlier is not.
TEST(EveryLimit, NamesTheFirstInstantAtWhichARefusedCallPasses) {
  check(
      [] {
        Subject subject((*any_limit()).limit);
        walk(subject, [&](Instant now, const Ask& ask, std::uint64_t who) {
          const Decision answer = subject.peek(now, ask, who);
          const Instant then = later(now, answer.retry_after);
          if (answer.outcome != Outcome::limited || then > kLatest) return;
          RC_ASSERT(subject.peek(then, ask, who).outcome == Outcome::allowed);
          RC_ASSERT(subject.peek(then - Nanos{1}, ask, who).outcome == Outcome::limited);
          const Nanos half = answer.retry_after / 2;
          RC_ASSERT(subject.peek(now + half, ask, who).outcome == Outcome::limited);
        });
      },
      1200);
}

// A cost that is called impossible stays so at any later time, even with nothing used.
TEST(EveryLimit, NeverAdmitsACallThatItCalledImpossible) {
  check([] {
    Subject subject((*any_limit()).limit);
    walk(subject, [&](Instant now, const Ask& ask, std::uint64_t who) {
      if (subject.peek(now, ask, who).outcome != Outcome::impossible) return;
      const Subject fresh(subject.limit());
      for (const Instant then : {later(now, std::chrono::hours{24 * 365}), kLatest}) {
        RC_ASSERT(subject.peek(then, ask, who).outcome == Outcome::impossible);
        RC_ASSERT(fresh.peek(then, ask, who).outcome == Outcome::impossible);
      }
    });
  });
}

// The remaining permits can be taken at once, and not one permit more.
TEST(EveryLimit, GrantsExactlyTheRemainingPermits) {
  check([] {
    // Smooth admits any cost on credit: its `remaining` counts single permits.
    Subject subject((*rc::gen::oneOf(bucket(), queue(), nginx(), window(), sliding(), quota(),
                                     exact_log(), concurrency()))
                        .limit);
    // A bucket never owes for more than 73 years, whatever its burst.
    if (const auto* deep = std::get_if<Bucket>(&subject.limit())) {
      RC_PRE(deep->depth <= Int128{kLongestDebt.count()} * deep->interval.parts);
    }
    walk(subject, [&](Instant now, const Ask&, std::uint64_t who) {
      const Permits left = subject.peek(now, {.cost = 0}, who).remaining;
      const Nanos patience = is_queue(subject.limit()) ? kForever : Nanos{0};
      if (left > 0) RC_ASSERT(subject.peek(now, {.cost = left, .max_wait = patience}, who));
      RC_ASSERT(!subject.peek(now, {.cost = left + 1, .max_wait = patience}, who));
    });
  });
}

// Single permits are admitted as long as any remain. Smooth promises no more than that.
TEST(EveryLimit, GrantsSinglePermitsAsLongAsAnyRemain) {
  check(
      [] {
        Subject subject(
            (*rc::gen::oneOf(smooth(), warming(), window(), sliding(), exact_log())).limit);
        walk(subject, [&](Instant now, const Ask&, std::uint64_t who) {
          Subject tried = subject;
          const Permits left = std::min<Permits>(tried.peek(now, {}, who).remaining, 200);
          for (Permits i = 0; i < left; ++i) RC_ASSERT(tried.take(now, {}, who));
          if (left < 200) RC_ASSERT(!tried.take(now, {}, who));
        });
      },
      100);
}

// A state that is written to a file and read back is the same state.
TEST(EveryLimit, ContinuesFromItsBytesAsIfNeverStopped) {
  check([] {
    const NamedLimit named = *any_limit();
    const auto arrivals = *steps();
    Subject steady(named.limit);
    Subject reloaded(named.limit);
    Instant now = start();
    Decision last;
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      now = moved(arrivals[i], named.limit, now, last);
      const Ask ask = ask_of(arrivals[i], named.limit);
      last = steady.take(now, ask, newcomer(i));
      RC_ASSERT(reloaded.take(now, ask, newcomer(i)) == last);
      const std::string saved = reloaded.bytes();
      reloaded = Subject(named.limit);
      reloaded.load(saved);
    }
  });
}

}  // namespace
}  // namespace weir::core
