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
#include "limiter/turn_waiter.h"
#include "store/memory/atomic_state.h"

namespace weir {
inline namespace v0 {

namespace {

using core::Ask;
using core::Bucket;
using core::Concurrency;
using core::Receipt;
using core::SlidingLog;
using core::State;

constexpr const char* kNotForConcurrency =
    "weir: a Limiter cannot limit concurrency: use a ConcurrencyLimiter";

// The log of an exact sliding window, which is too large for compare-and-swap.
struct LockedLog {
  std::mutex mutex;
  core::AdmissionLog::Head head{};
  std::vector<core::LogEntry> ring;

  explicit LockedLog(const core::Limit& limit)
      : ring(std::holds_alternative<SlidingLog>(limit) ? core::capacity(limit) : 0) {}

  core::AdmissionLog log() { return {head, ring}; }
};

constexpr std::size_t kCacheLine = 64;

}  // namespace

// The fields that `try_acquire` reads are adjacent. The state has a cache line of its own, so that
// writing it does not evict the constant fields from the caches of other cores (false sharing).
struct alignas(kCacheLine) Limiter::Impl final : detail::Issuer {
  Impl(core::Limit the_limit, const Clock& the_clock)
      : limit(require_not_concurrent(std::move(the_limit), kNotForConcurrency)),
        clock(the_clock),
        log(limit) {}

  // The data needed to give permits back.
  struct RefundInfo {
    Receipt receipt{};
    std::uint32_t epoch = 0;  // of the limiter, before the take
  };

  // ---- Taking

  // The fast path: a take without a receipt, under a bucket whose price is whole nanoseconds.
  [[gnu::always_inline]] Decision take(Instant now, Permits cost) noexcept {
    if (whole != nullptr && is_fast(now, cost)) [[likely]] {
      return take_whole(now, cost);
    }
    return take_any(now, cost);
  }

  bool is_fast(Instant now, Permits cost) const noexcept {
    return now >= kEarliest && now <= kLatest && cost > 0 && cost <= whole->capacity;
  }

  // A compare-and-swap of the first word of the state is enough here. The step never changes the
  // second word, which holds the price, constant for the life of the limiter, and a count of
  // refunds, which only receipts read. ABA (a refund and another take that restore the first word)
  // is harmless: the decision depends on the first word only, and the count is not overwritten.
  [[gnu::always_inline]] Decision take_whole(Instant now, Permits cost) noexcept {
    for (;;) {
      const State before = state.load();
      const auto ahead = static_cast<std::int64_t>(before.when - core::word_of(now));
      if (ahead >= whole->narrow) [[unlikely]] {
        return take_any(now, cost);
      }
      const core::StepResult taken = core::gcra::step<std::int64_t, true>(
          *whole, before, ns(now), std::max<std::int64_t>(ahead, 0), cost, 0);
      if (!taken.decision || state.compare_exchange_when(before.when, taken.next.when)) {
        return core::word_by_word(taken.decision);
      }
    }
  }

  [[gnu::noinline]] Decision take_any(Instant now, Permits cost) noexcept {
    return by_limit([&](const auto& l) { return take_from(l, now, {.cost = cost}, nullptr); });
  }

  // With a receipt. Reads the epoch first, so that a take that overlaps with a reset is not
  // refunded.
  Decision take(Instant now, const Ask& ask, RefundInfo& info) noexcept {
    info.epoch = epoch.load(std::memory_order_acquire);
    return by_limit([&](const auto& l) { return take_from(l, now, ask, &info.receipt); });
  }

  template <typename L>
  Decision take_from(const L& l, Instant now, const Ask& ask, Receipt* receipt) noexcept {
    for (;;) {
      const State before = state.load();
      const core::StepResult taken = core::take(l, before, now, ask);
      if (taken.next != before && !state.compare_exchange(before, taken.next)) continue;
      if (receipt != nullptr) {
        *receipt = {in_range(now), taken.decision ? ask.cost : 0, before, taken.next};
      }
      return core::word_by_word(taken.decision);
    }
  }

  Decision take_from(const SlidingLog& l, Instant now, const Ask& ask, Receipt* receipt) noexcept {
    const std::lock_guard lock(log.mutex);
    const core::Evaluation evaluation = decide(l, log.log(), now, ask);
    if (evaluation.outcome == Outcome::allowed) {
      const Instant at = charge(l, log.log(), now, ask.cost);
      if (receipt != nullptr) *receipt = {.at = at, .taken = ask.cost};
    }
    return describe(l, evaluation, now);
  }

  Decision peek(Instant now, Permits cost) noexcept {
    return by_limit([&](const auto& l) { return peek_at(l, now, {.cost = cost}); });
  }

  template <typename L>
  Decision peek_at(const L& l, Instant now, const Ask& ask) noexcept {
    return core::peek(l, state.load(), now, ask);
  }

  Decision peek_at(const SlidingLog& l, Instant now, const Ask& ask) noexcept {
    const std::lock_guard lock(log.mutex);
    return describe(l, decide(l, log.log(), now, ask), now);
  }

  Decision describe(const SlidingLog& l, const core::Evaluation& evaluation, Instant now) {
    return {.outcome = evaluation.outcome,
            .limit = capacity(l),
            .remaining = remaining(l, log.log(), now),
            .retry_after = evaluation.retry_after,
            .reset_after = until(in_range(now), rest_at(l, log.log())),
            .wait = evaluation.wait};
  }

  // ---- Giving back

  bool give_back(const detail::Ticket& ticket) noexcept override {
    return give_back(detail::read_ticket<RefundInfo>(ticket));
  }

  bool give_back(const RefundInfo& info) noexcept {
    const Instant now = clock.now();
    return by_limit([&](const auto& l) { return give_back_to(l, now, info); });
  }

  template <typename L>
  bool give_back_to(const L& l, Instant now, const RefundInfo& info) noexcept {
    for (;;) {
      const State before = state.load();
      if (was_reset_since(info)) return false;
      Receipt receipt = info.receipt;
      const State next = refund(l, before, now, receipt, receipt.taken);
      if (receipt.taken == info.receipt.taken) return false;
      if (state.compare_exchange(before, next)) return true;
    }
  }

  bool give_back_to(const SlidingLog& l, Instant now, const RefundInfo& info) noexcept {
    const std::lock_guard lock(log.mutex);
    if (was_reset_since(info)) return false;
    Receipt receipt = info.receipt;
    refund(l, log.log(), now, receipt, receipt.taken);
    return receipt.taken < info.receipt.taken;
  }

  // True if a reset has happened since the take, or was in progress during it. Must be called after
  // the state was read: a thread that sees the state of a reset then also sees its epoch.
  bool was_reset_since(const RefundInfo& info) const noexcept {
    return info.epoch % 2 != 0 || info.epoch != epoch.load(std::memory_order_acquire);
  }

  void reset() noexcept {
    const std::lock_guard lock(log.mutex);
    epoch.fetch_add(1);
    log.log().clear();
    while (!state.compare_exchange(state.load(), at_rest())) {
    }
    epoch.fetch_add(1);
  }

  // The state at rest. It contains the bucket's price from the start: see take_whole.
  State at_rest() const noexcept { return {.what = bucket != nullptr ? bucket->stamp : 0}; }

  // ---- Members

  // Calls `f` with the limit as its own type.
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
  const Bucket* const whole = bucket != nullptr && bucket->interval.parts == 1 ? bucket : nullptr;
  const Clock& clock;

  // The usage: in the log under an exact sliding window, otherwise in the state.
  alignas(kCacheLine) store::AtomicState state{at_rest()};
  alignas(kCacheLine) LockedLog log;
  std::atomic<std::uint32_t> epoch{0};  // grows by two with each reset; odd during a reset
};

Limiter::Limiter(Limit limit, const Clock& clock)
    : impl_(std::make_unique<Impl>(core_limit_of(limit), clock)) {}

Limiter::~Limiter() = default;

Decision Limiter::try_acquire(Permits cost) noexcept {
  return impl_->take(impl_->clock.now(), cost);
}

Decision Limiter::try_acquire_at(Instant now, Permits cost) noexcept {
  return impl_->take(now, cost);
}

Decision Limiter::acquire(Deadline deadline, Permits cost, std::stop_token stop) {
  return TurnWaiter{*impl_, impl_->clock, cost, std::move(stop)}.until(
      deadline, reserves_turns(impl_->limit));
}

Reservation Limiter::reserve(Permits cost, Nanos max_wait) noexcept {
  const Instant now = impl_->clock.now();
  Impl::RefundInfo info;
  const Decision decision = impl_->take(now, {.cost = cost, .max_wait = max_wait}, info);
  return detail::ReservationAccess::make(decision, now, *impl_, info);
}

Decision Limiter::peek(Permits cost) const noexcept {
  return impl_->peek(impl_->clock.now(), cost);
}

void Limiter::reset() noexcept { impl_->reset(); }

}  // namespace v0
}  // namespace weir
