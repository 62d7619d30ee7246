#include "weir/limiter.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/saturating.h"
#include "core/limit.h"
#include "limiter/flaw.h"
#include "limiter/limit_access.h"
#include "limiter/reservation_access.h"
#include "limiter/waiting.h"
#include "store/memory/atomic_state.h"

namespace weir {
inline namespace v0 {

namespace {

using core::Ask;
using core::Bucket;
using core::Concurrency;
using core::ExactLog;
using core::Receipt;
using core::State;

constexpr const char* kNotForConcurrency =
    "weir: a Limiter counts what passes; for how many are inside at a time use "
    "ConcurrencyLimiter";

// The log of an exact window, which is too large to swap.
struct LockedLog {
  std::mutex mutex;
  core::Log::Head head{};
  std::vector<core::LogEntry> ring;

  explicit LockedLog(const core::Limit& limit)
      : ring(std::holds_alternative<ExactLog>(limit) ? core::capacity(limit) : 0) {}

  core::Log log() { return {head, ring}; }
};

constexpr std::size_t kCacheLine = 64;

}  // namespace

// All that `try_acquire` touches lies in one piece. The state has a cache line to itself, so that a
// thread that changes it does not take the limit away from the others.
struct alignas(kCacheLine) Limiter::Impl final : detail::Giver {
  Impl(core::Limit rule, const Clock& the_clock)
      : limit(not_concurrent(std::move(rule), kNotForConcurrency)), clock(the_clock), log(limit) {}

  // What it takes to give something back.
  struct Note {
    Receipt receipt{};
    std::uint32_t epoch = 0;  // of the limiter when it was made
  };

  // ---- Taking

  // Now, for a caller that keeps no receipt: nearly all are of this kind, and nearly all limits are
  // buckets whose price is whole nanoseconds.
  [[gnu::always_inline]] Decision take(Instant now, Permits cost) noexcept {
    if (whole != nullptr && is_usual(now, cost)) [[likely]] {
      return take_whole(now, cost);
    }
    return take_any(now, cost);
  }

  bool is_usual(Instant now, Permits cost) const noexcept {
    return now >= kEarliest && now <= kLatest && cost > 0 && cost <= whole->capacity;
  }

  // Here a step changes the first word of the state alone: the second holds the price, which is the
  // same for the life of the limiter, and a count of the refunds, which matters to receipts only.
  // So it is enough to swap the first. Should a refund and another take have changed that and
  // changed it back meanwhile, then what was decided is as right as before, and the count stays
  // what the refund has made it.
  [[gnu::always_inline]] Decision take_whole(Instant now, Permits cost) noexcept {
    for (;;) {
      const State before = state.load();
      const auto ahead = static_cast<std::int64_t>(before.when - core::word_of(now));
      if (ahead >= whole->narrow) [[unlikely]] {
        return take_any(now, cost);
      }
      const core::Taken taken = core::gcra::step<std::int64_t, true>(
          *whole, before, ns(now), std::max<std::int64_t>(ahead, 0), cost, 0);
      if (!taken.decision || state.compare_exchange_when(before.when, taken.next.when)) {
        return core::word_by_word(taken.decision);
      }
    }
  }

  [[gnu::noinline]] Decision take_any(Instant now, Permits cost) noexcept {
    return by_limit([&](const auto& l) { return take_from(l, now, {.cost = cost}, nullptr); });
  }

  // With a receipt. The epoch is read first: whoever takes while a reset goes on gets no refund.
  Decision take(Instant now, const Ask& ask, Note& note) noexcept {
    note.epoch = epoch.load(std::memory_order_acquire);
    return by_limit([&](const auto& l) { return take_from(l, now, ask, &note.receipt); });
  }

  template <typename L>
  Decision take_from(const L& l, Instant now, const Ask& ask, Receipt* receipt) noexcept {
    for (;;) {
      const State before = state.load();
      const core::Taken taken = core::take(l, before, now, ask);
      if (taken.next != before && !state.compare_exchange(before, taken.next)) continue;
      if (receipt != nullptr) {
        *receipt = {in_range(now), taken.decision ? ask.cost : 0, before, taken.next};
      }
      return core::word_by_word(taken.decision);
    }
  }

  Decision take_from(const ExactLog& l, Instant now, const Ask& ask, Receipt* receipt) noexcept {
    const std::lock_guard lock(log.mutex);
    const core::Choice choice = decide(l, log.log(), now, ask);
    if (choice.outcome == Outcome::allowed) {
      const Instant at = charge(l, log.log(), now, ask.cost);
      if (receipt != nullptr) *receipt = {.at = at, .taken = ask.cost};
    }
    return describe(l, choice, now);
  }

  Decision peek(Instant now, Permits cost) noexcept {
    return by_limit([&](const auto& l) { return peek_at(l, now, {.cost = cost}); });
  }

  template <typename L>
  Decision peek_at(const L& l, Instant now, const Ask& ask) noexcept {
    return core::peek(l, state.load(), now, ask);
  }

  Decision peek_at(const ExactLog& l, Instant now, const Ask& ask) noexcept {
    const std::lock_guard lock(log.mutex);
    return describe(l, decide(l, log.log(), now, ask), now);
  }

  Decision describe(const ExactLog& l, const core::Choice& choice, Instant now) {
    return {.outcome = choice.outcome,
            .limit = capacity(l),
            .remaining = remaining(l, log.log(), now),
            .retry_after = choice.retry_after,
            .reset_after = until(in_range(now), rest_at(l, log.log())),
            .wait = choice.wait};
  }

  // ---- Giving back

  bool give_back(const detail::Ticket& ticket) noexcept override {
    return give_back(detail::note_on<Note>(ticket));
  }

  bool give_back(const Note& note) noexcept {
    const Instant now = clock.now();
    return by_limit([&](const auto& l) { return give_back_to(l, now, note); });
  }

  template <typename L>
  bool give_back_to(const L& l, Instant now, const Note& note) noexcept {
    for (;;) {
      const State before = state.load();
      if (is_forgotten(note)) return false;
      Receipt receipt = note.receipt;
      const State next = refund(l, before, now, receipt, receipt.taken);
      if (receipt.taken == note.receipt.taken) return false;
      if (state.compare_exchange(before, next)) return true;
    }
  }

  bool give_back_to(const ExactLog& l, Instant now, const Note& note) noexcept {
    const std::lock_guard lock(log.mutex);
    if (is_forgotten(note)) return false;
    Receipt receipt = note.receipt;
    refund(l, log.log(), now, receipt, receipt.taken);
    return receipt.taken < note.receipt.taken;
  }

  // Whether there has been a reset, or was one going on, since the note was made. To be asked after
  // the state was read: whoever sees a state from after a reset sees the epoch, too.
  bool is_forgotten(const Note& note) const noexcept {
    return note.epoch % 2 != 0 || note.epoch != epoch.load(std::memory_order_acquire);
  }

  void reset() noexcept {
    const std::lock_guard lock(log.mutex);
    epoch.fetch_add(1);
    log.log().clear();
    while (!state.compare_exchange(state.load(), at_rest())) {
    }
    epoch.fetch_add(1);
  }

  // Nothing taken. A bucket's price is in its place from the start: see take_whole.
  State at_rest() const noexcept { return {.what = bucket != nullptr ? bucket->stamp : 0}; }

  // ---- What it is made of

  // What `f` makes of the limit, whichever it is.
  template <typename F, typename R = std::invoke_result_t<F&, const Bucket&>>
  R by_limit(F f) noexcept {
    if (bucket != nullptr) return f(*bucket);
    return std::visit(
        [&](const auto& l) {
          if constexpr (std::is_same_v<decltype(l), const Concurrency&>) {
            return R{};  // refused by the constructor
          } else {
            return f(l);
          }
        },
        limit);
  }

  // Constant after construction.
  const core::Limit limit;
  const Bucket* const bucket = std::get_if<Bucket>(&limit);
  const Bucket* const whole = bucket != nullptr && bucket->pace.parts == 1 ? bucket : nullptr;
  const Clock& clock;

  // What has been taken: in the state, or in the log if the limit keeps one.
  alignas(kCacheLine) store::AtomicState state{at_rest()};
  alignas(kCacheLine) LockedLog log;
  std::atomic<std::uint32_t> epoch{0};  // two for each reset; odd while one goes on
};

Limiter::Limiter(Limit limit, const Clock& clock)
    : impl_(std::make_unique<Impl>(rule_of(limit), clock)) {}

Limiter::~Limiter() = default;

Decision Limiter::try_acquire(Permits cost) noexcept {
  return impl_->take(impl_->clock.now(), cost);
}

Decision Limiter::try_acquire_at(Instant now, Permits cost) noexcept {
  return impl_->take(now, cost);
}

Decision Limiter::acquire(Deadline deadline, Permits cost, std::stop_token stop) {
  return Waiting{*impl_, impl_->clock, cost, std::move(stop)}.until(deadline,
                                                                    lends_turns(impl_->limit));
}

Reservation Limiter::reserve(Permits cost, Nanos max_wait) noexcept {
  const Instant now = impl_->clock.now();
  Impl::Note note;
  const Decision decision = impl_->take(now, {.cost = cost, .max_wait = max_wait}, note);
  return detail::ReservationAccess::make(decision, now, *impl_, note);
}

Decision Limiter::peek(Permits cost) const noexcept {
  return impl_->peek(impl_->clock.now(), cost);
}

void Limiter::reset() noexcept { impl_->reset(); }

}  // namespace v0
}  // namespace weir
