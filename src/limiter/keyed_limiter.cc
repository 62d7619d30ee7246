#include "weir/keyed_limiter.h"

#include <stdexcept>
#include <utility>

#include "limiter/flaw.h"
#include "limiter/limit_access.h"
#include "limiter/reservation_access.h"
#include "limiter/turn_waiter.h"
#include "store/memory/table.h"

namespace weir {
inline namespace v0 {

namespace {

// The data needed to give permits back.
struct RefundInfo {
  store::Fingerprint key{};
  core::Receipt receipt{};
  std::uint32_t resets = 0;
};

constexpr std::size_t kMaxKeyBytes = 4096;

bool is_key(std::string_view key) { return !key.empty() && key.size() <= kMaxKeyBytes; }

constexpr const char* kKeyedNotForConcurrency =
    "weir: a KeyedLimiter cannot limit concurrency: use an Engine with a concurrent limit";

store::TableLayout layout_for(const core::Limit& limit, const KeyedOptions& options) {
  const bool has_records = std::holds_alternative<core::SlidingLog>(limit);
  const auto layout =
      store::TableLayout::for_keys(options.max_keys, has_records ? options.record_bytes : 0);
  if (!layout) throw std::invalid_argument("weir: " + layout.error().message);
  return *layout;
}

}  // namespace

struct KeyedLimiter::Impl final : detail::Issuer {
  Impl(core::Limit the_limit, const KeyedOptions& options, const Clock& the_clock)
      : limit(require_not_concurrent(std::move(the_limit), kKeyedNotForConcurrency)),
        when_full(options.when_full),
        clock(the_clock),
        table(layout_for(limit, options)) {}

  store::Fingerprint fingerprint(std::string_view key) const noexcept {
    return store::fingerprint(table.seed(), 0, store::KeyKind::whole, key, has_record);
  }

  store::Item item(const store::Fingerprint& key, const core::Ask& ask) const noexcept {
    return {.limit = &limit,
            .key = key,
            .overflow_key = overflow_key,
            .ask = ask,
            .when_full = when_full};
  }

  Decision take(Instant now, std::string_view key, Permits cost) noexcept {
    if (!is_key(key)) return invalid_key();
    return take(now, fingerprint(key), {.cost = cost}, {});
  }

  Decision take(Instant now, const store::Fingerprint& key, const core::Ask& ask,
                std::span<core::Receipt> receipts) noexcept {
    const store::Item one = item(key, ask);
    if (bucket != nullptr) {
      return table.take_bucket(*bucket, one, now, receipts.empty() ? nullptr : receipts.data());
    }
    return table.take({&one, 1}, now, {}, receipts).decision;
  }

  Decision peek(Instant now, const store::Fingerprint& key, Permits cost) noexcept {
    const store::Item one = item(key, {.cost = cost});
    return table.peek({&one, 1}, now).decision;
  }

  bool give_back(const detail::Ticket& ticket) noexcept override {
    return give_back(detail::read_ticket<RefundInfo>(ticket));
  }

  bool give_back(RefundInfo info) noexcept {
    const Permits taken = info.receipt.taken;
    const store::Item one = item(info.key, {.cost = -taken});
    (void)table.settle({&one, 1}, clock.now(), {&info.receipt, 1}, {&info.resets, 1});
    // A receipt from before a reset is void: `settle` then sets its permits to zero, just as if all
    // of them had been given back.
    return info.receipt.taken < taken && table.resets_of(info.key) == info.resets;
  }

  Decision invalid_key() const noexcept {
    return {.outcome = Outcome::impossible,
            .limit = core::capacity(limit),
            .remaining = 0,
            .retry_after = kNever};
  }

  const core::Limit limit;
  const core::Bucket* const bucket = std::get_if<core::Bucket>(&limit);
  const bool has_record = std::holds_alternative<core::SlidingLog>(limit);
  const WhenFull when_full;
  const Clock& clock;
  store::Table table;
  const store::Fingerprint overflow_key =
      store::fingerprint(table.seed(), 0, store::KeyKind::overflow, {}, has_record);
};

namespace {

// One key of the limiter, as a Taker of TurnWaiter.
template <typename Impl>
struct OneKey {
  using RefundInfo = weir::RefundInfo;

  Decision take(Instant now, const core::Ask& ask, RefundInfo& info) noexcept {
    info.key = key;
    info.resets = impl.table.resets_of(key);
    return impl.take(now, key, ask, {&info.receipt, 1});
  }
  void give_back(const RefundInfo& info) noexcept { impl.give_back(info); }
  Decision peek(Instant now, Permits cost) noexcept { return impl.peek(now, key, cost); }

  Impl& impl;
  store::Fingerprint key;
};

}  // namespace

KeyedLimiter::KeyedLimiter(Limit limit, KeyedOptions options, const Clock& clock)
    : impl_(std::make_unique<Impl>(core_limit_of(limit), options, clock)) {}

KeyedLimiter::~KeyedLimiter() = default;

Decision KeyedLimiter::try_acquire(std::string_view key, Permits cost) noexcept {
  return impl_->take(impl_->clock.now(), key, cost);
}

Decision KeyedLimiter::try_acquire_at(Instant now, std::string_view key, Permits cost) noexcept {
  return impl_->take(now, key, cost);
}

void KeyedLimiter::try_acquire_all(std::span<const std::string_view> keys,
                                   std::span<Decision> decisions, Permits cost) noexcept {
  try_acquire_all_at(impl_->clock.now(), keys, decisions, cost);
}

void KeyedLimiter::try_acquire_all_at(Instant now, std::span<const std::string_view> keys,
                                      std::span<Decision> decisions, Permits cost) noexcept {
  // About the number of cache misses that a processor can have in flight.
  constexpr std::size_t batch_size = 16;
  std::array<store::Fingerprint, batch_size> fingerprints;
  for (std::size_t first = 0; first < keys.size(); first += batch_size) {
    const auto batch = keys.subspan(first, std::min(batch_size, keys.size() - first));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      fingerprints[i] = impl_->fingerprint(batch[i]);
      impl_->table.prefetch(fingerprints[i]);
    }
    for (std::size_t i = 0; i < batch.size(); ++i) {
      decisions[first + i] = is_key(batch[i])
                                 ? impl_->take(now, fingerprints[i], {.cost = cost}, {})
                                 : impl_->invalid_key();
    }
  }
}

Decision KeyedLimiter::acquire(std::string_view key, Deadline deadline, Permits cost,
                               std::stop_token stop) {
  if (!is_key(key)) return impl_->invalid_key();
  OneKey<Impl> one{*impl_, impl_->fingerprint(key)};
  return TurnWaiter(one, impl_->clock, cost, std::move(stop))
      .until(deadline, reserves_turns(impl_->limit));
}

Reservation KeyedLimiter::reserve(std::string_view key, Permits cost, Nanos max_wait) noexcept {
  const Instant now = impl_->clock.now();
  RefundInfo info;
  if (!is_key(key)) return detail::ReservationAccess::make(impl_->invalid_key(), now, *impl_, info);
  OneKey<Impl> one{*impl_, impl_->fingerprint(key)};
  const Decision decision = one.take(now, {.cost = cost, .max_wait = max_wait}, info);
  return detail::ReservationAccess::make(decision, now, *impl_, info);
}

Decision KeyedLimiter::peek(std::string_view key, Permits cost) const noexcept {
  if (!is_key(key)) return impl_->invalid_key();
  return impl_->peek(impl_->clock.now(), impl_->fingerprint(key), cost);
}

void KeyedLimiter::reset(std::string_view key) noexcept {
  if (!is_key(key)) return;
  const store::Item one = impl_->item(impl_->fingerprint(key), {});
  impl_->table.reset({&one, 1}, impl_->clock.now());
}

MemoryUse KeyedLimiter::memory() const { return impl_->table.use(impl_->clock.now()); }

}  // namespace v0
}  // namespace weir
