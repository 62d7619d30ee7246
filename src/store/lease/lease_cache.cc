#include "store/lease/lease_cache.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "base/saturating.h"

namespace weir::store::lease {

namespace {

// From this number of leases on, each new key evicts idle leases from a few buckets of the hash
// map.
constexpr std::size_t kMaxLeases = std::size_t{1} << 16;
constexpr int kBucketsPerScan = 4;

// Spending is reported by a request of its own if all nodes together could otherwise withhold more
// than 1 / kReportedParts of a limit.
constexpr int kReportedParts = 32;

// Demand is averaged over the first time, in samples of at least the second.
constexpr double kAveragingSeconds = 0.05;
constexpr Nanos kMinSampleTime = std::chrono::milliseconds{5};

double seconds(Nanos time) { return std::chrono::duration<double>(time).count(); }

// The time in which a limit fills.
Nanos filling_time(const core::Limit& limit) {
  if (const auto* bucket = std::get_if<core::Bucket>(&limit)) {
    return Nanos{to_int64(bucket->depth / bucket->interval.parts)};
  }
  if (const auto* window = std::get_if<core::Window>(&limit)) return window->period;
  if (const auto* sliding = std::get_if<core::SlidingCounter>(&limit)) return sliding->period;
  return kForever;
}

// True if usage drains at the same rate under both.
bool same_price(const core::Limit& a, const core::Limit& b) {
  const auto* const one = std::get_if<core::Bucket>(&a);
  const auto* const other = std::get_if<core::Bucket>(&b);
  if (one == nullptr || other == nullptr) return a.index() == b.index();
  return one->interval.parts == other->interval.parts &&
         one->interval.price == other->interval.price;
}

// The end of a lease that was requested at `sent_at`. Shortened by 1/128, so that it ends before
// the store's, whose clock may run slightly faster.
Instant safe_end(Instant sent_at, Nanos lasts) { return sent_at + lasts - lasts / 128; }

// A lower bound of an age measured by this node's clock, with the same margin.
Nanos at_least(Nanos age) { return age - age / 128; }

// The start of a range of request numbers that no other cache in this process uses.
std::uint64_t unique_numbers() {
  static std::atomic<std::uint64_t> last{0};
  return last++ << 32;
}

}  // namespace

// ---- Lease of one key

core::Decision KeyLease::admission(const core::Limit& limit, Instant now) const {
  return {.limit = core::capacity(limit),
          .remaining = std::min(available(now) + store_remaining_, core::capacity(limit)),
          .reset_after = until(now, reset_at_)};
}

core::Decision KeyLease::refusal(const core::Limit& limit, Instant now) const {
  return {.outcome = Outcome::limited,
          .limit = core::capacity(limit),
          .remaining = std::min(available(now) + store_remaining_, core::capacity(limit)),
          .retry_after = std::max({until(now, retry_at_), until(now, backoff_until_), Nanos{1}}),
          .reset_after = until(now, reset_at_)};
}

void KeyLease::on_lease(LeaseResponse& answer) { owner_.on_lease(*this, answer); }

// Updates the average demand.
void KeyLease::note_demand(Instant now) {
  const Nanos passed = now - since_;
  if (passed < kMinSampleTime) return;
  const double latest = static_cast<double>(asked_for_) / seconds(passed);
  rate_ += (latest - rate_) * std::min(seconds(passed) / kAveragingSeconds, 1.0);
  asked_for_ = 0;
  since_ = now;
}

// ---- All leases

LeaseCache::LeaseCache(SharedStore& store, const Fleet& fleet, LeaseClock time,
                       std::string borrower, std::shared_ptr<LeaseCacheCounts> counts,
                       std::shared_ptr<const RulesInForce> rules_in_force)
    : store_(store),
      fleet_(fleet),
      time_(std::move(time)),
      borrower_(std::move(borrower)),
      shared_counts_(std::move(counts)),
      counts_(*shared_counts_),
      rules_in_force_(std::move(rules_in_force)),
      last_number_(unique_numbers()) {}

LeaseCache::~LeaseCache() {
  counts_.lapsed.add(counts_.held.get());
  counts_.held.set(0);
  counts_.keys.set(0);
}

// Negative held_ is debt, which counts as no held permits.
void LeaseCache::change_held(KeyLease& lease, Permits by) {
  const Permits before = std::max<Permits>(lease.held_, 0);
  lease.held_ += by;
  counts_.held.add(static_cast<std::uint64_t>(std::max<Permits>(lease.held_, 0) - before));
}

void LeaseCache::expire(KeyLease& lease, Instant now) {
  if (now < lease.until_ || lease.held_ <= 0) return;
  counts_.lapsed.add(static_cast<std::uint64_t>(lease.held_));
  change_held(lease, -lease.held_);
}

// The number of permits to hold: the expected demand, limited to this node's part of half the
// limit.
Permits LeaseCache::need(const KeyLease& lease) const {
  const Permits share = core::capacity(lease.limit_) / (2 * std::max<Permits>(fleet_.nodes(), 2));
  const double ahead = std::ceil(lease.rate_ * seconds(kAhead));
  // With a demand below one permit in that time, nothing is borrowed ahead.
  const auto needed = ahead > 1 ? static_cast<Permits>(std::min(ahead, 1e15)) : 0;
  return std::min(needed, share);
}

// True if the store withholds a significant part of a bucket because it does not know that permits
// were spent: those that would have refilled by the end of the lease. (Windows do not refill.)
bool LeaseCache::should_report(const KeyLease& lease, Instant now) const {
  const auto* const bucket = std::get_if<core::Bucket>(&lease.limit_);
  if (bucket == nullptr || now >= lease.until_) return false;
  const Int128 unreported = lease.outstanding_ - std::max<Permits>(lease.held_, 0);
  const Int128 refills = Int128{kTerm.count()} * bucket->interval.parts / bucket->interval.price;
  const Int128 parts = Int128{kReportedParts} * std::max<Permits>(fleet_.nodes(), 1);
  return std::min(unreported, refills) * parts >= core::capacity(lease.limit_);
}

// The age of the last spending since the last request, for the next one. Jumps of the wall clock do
// not count as age.
Nanos LeaseCache::spent_ago(const KeyLease& lease, Instant now) const {
  const Nanos passed = time_.monotonic() - lease.asked_passed_;
  const Nanos set_forward = std::max(now - lease.asked_at_ - passed, Nanos{0});
  return at_least(std::max(now - lease.spent_at_ - set_forward, Nanos{0}));
}

bool LeaseCache::is_idle(const KeyLease& lease) {
  return lease.held_ == 0 && !lease.open_ && !lease.notifying_;
}

void LeaseCache::evict_idle() {
  for (int i = 0; i < kBucketsPerScan; ++i) {
    const std::size_t bucket = next_bucket_++ % leases_.bucket_count();
    for (auto at = leases_.begin(bucket); at != leases_.end(bucket);) {
      const auto& [key, lease] = *at++;
      if (is_idle(*lease)) leases_.erase(Fingerprint{key});
    }
  }
}

KeyLease& LeaseCache::lease_for(const Fingerprint& key) {
  const auto found = leases_.find(key);
  if (found != leases_.end()) return *found->second;
  if (leases_.size() >= kMaxLeases) evict_idle();
  KeyLease& lease = *leases_.emplace(key, std::make_unique<KeyLease>(*this)).first->second;
  lease.since_ = lease.spent_at_ = lease.asked_at_ = time_.now();
  lease.asked_passed_ = time_.monotonic();
  counts_.keys.set(leases_.size());
  return lease;
}

// ---- Requests

// True if the limit of the lease may have changed. Its spending must not be reported then: it would
// drain at a price that is no longer in force.
bool LeaseCache::is_outdated(const KeyLease& lease, Instant now) const {
  if (rules_in_force_ == nullptr) return false;
  return lease.edition_ != rules_in_force_->edition.load(std::memory_order_acquire) ||
         now >= rules_in_force_->until.load(std::memory_order_acquire);
}

void LeaseCache::set_limit(KeyLease& lease, const LimitInRules& limit, std::string_view name) {
  lease.limit_ = limit.limit;
  lease.history_ = core::copy_of(limit.history);
  lease.edition_ = limit.edition;
  lease.name_ = name;
}

void LeaseCache::ask(const LimitInRules& limit, const Fingerprint& key, std::string_view name,
                     Permits cost, Nanos deadline, LeaseWaiter& waiter) {
  KeyLease& lease = lease_for(key);
  const std::uint64_t ticket = ++last_ticket_;
  lease.waiting_.push_back({&waiter, cost, ticket});
  lease.waited_for_ += cost;
  const Nanos answered_by = lease.open_ ? lease.answered_by_ : time_.monotonic() + store_.timeout();
  if (deadline < answered_by) expiries_.push({deadline, key, ticket});
  if (lease.open_) return;  // the pending request may bring enough
  set_limit(lease, limit, name);
  if (!lease.notifying_) ask_for_waiting(lease);
}

void LeaseCache::ask_for_waiting(KeyLease& lease) {
  const Instant now = time_.now();
  expire(lease, now);
  cancel_stale_repetition(lease, now);
  lease.note_demand(now);
  const Permits available = std::max<Permits>(lease.held_, 0);
  const Permits least = lease.waiting_.front().cost - available;
  const Permits wanted = lease.waited_for_ + need(lease) - available;
  send_request(lease, {.least = least, .wanted = std::max(wanted, least)}, now);
}

// The store remembers a request only for the duration of the lease; after that it is not repeated.
void LeaseCache::cancel_stale_repetition(KeyLease& lease, Instant now) {
  if (now >= lease.asked_at_ + kTerm) lease.repeats_ = false;
}

void LeaseCache::borrow_ahead(KeyLease& lease, const core::Limit& limit, Instant now) {
  if (lease.open_ || lease.notifying_ || now < lease.backoff_until_) return;
  if (is_outdated(lease, now)) return;
  // A call that has waited for another lease may have a limit of earlier rules.
  if (&limit != &lease.limit_ && same_price(limit, lease.limit_)) lease.limit_ = limit;
  lease.note_demand(now);
  const Permits wanted = need(lease) - lease.held_;
  if (wanted > 0) send_request(lease, {.least = 1, .wanted = wanted}, now);
}

void LeaseCache::send_request(KeyLease& lease, const Demand& demand, Instant now) {
  // If the answer to the last request was lost, the same request is sent again, so that permits it
  // has lent are not lost.
  if (!std::exchange(lease.repeats_, false)) {
    const Nanos ago = spent_ago(lease, now);
    lease.asked_at_ = now;
    lease.asked_passed_ = time_.monotonic();
    change_held(lease, -demand.returned);
    lease.question_ = {.limit = &lease.limit_,
                       .key = lease.name_,
                       .borrower = borrower_,
                       .number = ++last_number_,
                       .held = lease.held_,
                       .returned = demand.returned,
                       .spent_ago = ago,
                       .least = demand.least,
                       .wanted = demand.wanted,
                       .term = kTerm};
  }
  lease.question_.key = lease.name_;
  lease.question_.history = lease.history_.get();
  lease.sent_at_ = now;
  lease.answered_by_ = time_.monotonic() + store_.timeout();
  lease.open_ = true;
  ++open_;
  counts_.asked.add();
  store_.request_lease(lease.question_, lease);
}

void LeaseCache::on_lease(KeyLease& lease, LeaseResponse& answer) {
  lease.open_ = false;
  --open_;
  const bool is_answered = answer.kind == StoreResponse::Kind::decided;
  if (is_answered) {
    apply(lease, answer);
  } else {
    lease.repeats_ = true;
  }
  notify_waiting(lease, is_answered ? nullptr : &answer);
}

void LeaseCache::notify_waiting(KeyLease& lease, const LeaseResponse* error) {
  if (lease.waiting_.empty()) return;
  lease.notifying_ = true;
  lease.waited_for_ = 0;
  for (const KeyLease::WaitingCall& one : std::exchange(lease.waiting_, {})) {
    one.waiter->on_lease_update(error);
  }
  lease.notifying_ = false;
  if (!lease.waiting_.empty()) return ask_for_waiting(lease);
  // The notified calls may have spent permits.
  const bool runs_low = error == nullptr && lease.held_ < lease.low_;
  if (runs_low) borrow_ahead(lease, lease.limit_, time_.now());
}

Nanos LeaseCache::due_in() const {
  if (expiries_.empty()) return kForever;
  return std::max(expiries_.top().at - time_.monotonic(), Nanos{0});
}

void LeaseCache::on_due() {
  const Nanos now = time_.monotonic();
  while (!expiries_.empty() && expiries_.top().at <= now) {
    const Expiry next = expiries_.top();
    expiries_.pop();
    if (KeyLease* const lease = find(next.key)) time_out(*lease, next.ticket);
  }
}

void LeaseCache::time_out(KeyLease& lease, std::uint64_t ticket) {
  const auto found = std::ranges::find(lease.waiting_, ticket, &KeyLease::WaitingCall::ticket);
  if (found == lease.waiting_.end()) return;
  const KeyLease::WaitingCall late = *found;
  lease.waiting_.erase(found);
  lease.waited_for_ -= late.cost;
  const LeaseResponse none{.error = "no answer within the time of the call"};
  late.waiter->on_lease_update(&none);
}

void LeaseCache::apply(KeyLease& lease, const LeaseResponse& answer) {
  const LeaseRequest& asked = lease.question_;
  const Instant now = time_.now();
  counts_.borrowed.add(static_cast<std::uint64_t>(answer.lent));
  counts_.returned.add(static_cast<std::uint64_t>(asked.returned));
  if (asked.held < 0) {
    change_held(lease, -asked.held);  // the store has charged the debt
  } else {
    // Permits whose window is over, or that could not be lent again. Those spent since are owed.
    const Permits lost = asked.held - answer.kept;
    counts_.lapsed.add(static_cast<std::uint64_t>(std::clamp<Permits>(lease.held_, 0, lost)));
    change_held(lease, -lost);
  }
  expire(lease, now);
  change_held(lease, answer.lent);
  lease.outstanding_ = answer.kept + answer.lent;
  lease.until_ = safe_end(lease.sent_at_, answer.lasts);
  lease.store_remaining_ = answer.remaining;
  lease.reset_at_ = later(now, answer.reset_after);
  lease.low_ = need(lease) / 2;
  if (answer.lent >= asked.wanted) return;
  lease.backoff_until_ = now + std::min(kHoldOff, filling_time(lease.limit_) / 4);
  lease.backoff_min_ = answer.lent > 0 ? 1 : asked.least;
  lease.retry_at_ = answer.lent > 0 ? now : later(now, answer.retry_after);
}

// ---- Corrections

void LeaseCache::settle(const LimitInRules& limit, const Fingerprint& key, std::string_view name,
                        Permits correction, std::uint64_t mark) {
  if (correction > 0) {
    KeyLease& lease = lease_for(key);
    if (!lease.open_) set_limit(lease, limit, name);
    lease.spent_at_ = time_.now();
    return change_held(lease, -correction);
  }
  KeyLease* const lease = find(key);
  if (lease != nullptr && lease->question_.number == mark) change_held(*lease, -correction);
}

void LeaseCache::add_to(core::Decision& decision, const Fingerprint& key, Permits cost,
                        Instant now) {
  const KeyLease* const lease = find(key);
  if (lease == nullptr) return;
  decision.remaining = std::min(decision.remaining + lease->available(now), decision.limit);
  if (lease->coverage(cost, now) != KeyLease::Coverage::covered) return;
  decision.outcome = Outcome::allowed;
  decision.retry_after = Nanos{0};
}

void LeaseCache::reopen(const Fingerprint& key) {
  if (KeyLease* const lease = find(key)) lease->backoff_until_ = {};
}

// ---- Maintenance

void LeaseCache::run_maintenance() {
  const Instant now = time_.now();
  for (const auto& [key, lease] : leases_) maintain(*lease, now);
  std::erase_if(leases_, [&](const auto& entry) {
    const KeyLease& lease = *entry.second;
    return is_idle(lease) && !lease.repeats_ && lease.rate_ < 1 && !should_report(lease, now);
  });
  counts_.keys.set(leases_.size());
}

// Returns permits that are not needed and renews leases that are about to end. Reports spending if
// no other request has done so for a while. After a change of rules, held permits are left to
// expire, unless a call requests more before.
void LeaseCache::maintain(KeyLease& lease, Instant now) {
  if (lease.open_) return;
  expire(lease, now);
  if (is_outdated(lease, now) && lease.held_ >= 0) return;
  cancel_stale_repetition(lease, now);
  lease.note_demand(now);
  const Permits needed = need(lease);
  const bool too_much = lease.held_ > 2 * needed;
  const bool ends_soon = lease.held_ > 0 && now >= lease.until_ - kTerm / 2;
  const bool reports = now >= lease.asked_at_ + kMaintenanceInterval && should_report(lease, now);
  if (!too_much && !ends_soon && !reports && lease.held_ >= 0 && !lease.repeats_) return;
  send_request(lease, {.returned = too_much ? lease.held_ - needed : 0}, now);
}

void LeaseCache::give_all_back() {
  const Instant now = time_.now();
  for (const auto& [key, lease] : leases_) {
    if (lease->open_) continue;
    expire(*lease, now);
    lease->repeats_ = false;
    if (is_outdated(*lease, now) && lease->held_ >= 0) continue;
    if (lease->held_ == 0 && !should_report(*lease, now)) continue;
    send_request(*lease, {.returned = std::max<Permits>(lease->held_, 0)}, now);
  }
}

}  // namespace weir::store::lease
