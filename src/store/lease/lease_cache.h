#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "core/limit.h"
#include "store/memory/fingerprint.h"
#include "store/shared_store.h"
#include "store/single_writer_counter.h"
#include "weir/fleet.h"

namespace weir::store::lease {

// The duration of a lease, unless it is renewed.
inline constexpr Nanos kTerm = std::chrono::seconds{2};
// Permits are borrowed for the expected demand of this time.
inline constexpr Nanos kAhead = std::chrono::milliseconds{100};
// Backoff after the store could not lend all that was wanted. Shorter for limits that fill faster.
inline constexpr Nanos kHoldOff = std::chrono::milliseconds{25};

// Counters of one thread's leases. Written by that thread only, readable from any.
struct LeaseCacheCounts {
  SingleWriterCounter keys{};      // with a lease, now
  SingleWriterCounter held{};      // permits, now
  SingleWriterCounter asked{};     // requests to the store
  SingleWriterCounter borrowed{};  // permits
  SingleWriterCounter returned{};  // permits
  SingleWriterCounter lapsed{};    // permits that were not spent before their lease ended
};

// The clock of leases: wall time, and monotonic time that does not follow a wall clock that is set.
struct LeaseClock {
  std::function<Instant()> now{};
  std::function<Nanos()> monotonic{};
};

// The rules in force, shared by all threads. Limits of an earlier edition may have other prices;
// from `until` on, so may those of the present one.
struct RulesInForce {
  std::atomic<std::uint64_t> edition{0};
  std::atomic<Instant> until{Instant::max()};
};

// A limit of a call, and the edition of the rules that it comes from.
struct LimitInRules {
  LimitInRules(const core::Limit& of_call, const core::PriceHistory* of_bucket = nullptr,
               std::uint64_t of_rules = 0)
      : limit(of_call), history(of_bucket), edition(of_rules) {}

  const core::Limit& limit;
  const core::PriceHistory* history;  // of the key's bucket, if its price has changed
  std::uint64_t edition;              // of the rules
};

class LeaseCache;

// A call that waits for permits.
class LeaseWaiter {
 public:
  // Called once. With null, the store has answered: the lease may have more permits now, or be in
  // backoff. Otherwise `error` says why there is no answer.
  virtual void on_lease_update(const LeaseResponse* error) = 0;

 protected:
  ~LeaseWaiter() = default;
};

// The lease of one key: its borrowed permits, and the requests for them. Not thread-safe.
class KeyLease final : private LeaseCallback {
 public:
  explicit KeyLease(LeaseCache& owner) : owner_(owner) {}

  // Whether the lease can pay for a call.
  enum class Coverage : std::uint8_t {
    covered,
    lacking,  // the store may have permits
    refused,  // the store had none recently (backoff)
  };
  Coverage coverage(Permits cost, Instant now) const {
    if (held_ >= cost && now < until_) [[likely]]
      return Coverage::covered;
    const bool backs_off = now < backoff_until_ && cost - available(now) >= backoff_min_;
    return backs_off ? Coverage::refused : Coverage::lacking;
  }
  // The decision for a call that was paid for, or refused.
  core::Decision admission(const core::Limit& limit, Instant now) const;
  core::Decision refusal(const core::Limit& limit, Instant now) const;

 private:
  friend class LeaseCache;
  void on_lease(LeaseResponse& answer) override;
  Permits available(Instant now) const { return now < until_ ? std::max<Permits>(held_, 0) : 0; }
  void note_demand(Instant now);

  LeaseCache& owner_;
  Permits held_ = 0;         // below zero: overspent by settling
  Permits low_ = 0;          // borrows more when held_ falls below this
  Instant until_{};          // the end of the lease
  Permits outstanding_ = 0;  // as recorded by the store: held or lent as of its last answer
  // The time of the last spending. Initially the time of construction, since an earlier lease of
  // this key that was evicted may have spent permits until then.
  Instant spent_at_{};

  // Backoff: until then, the store is not asked for backoff_min_ permits or more.
  Instant backoff_until_{};
  Permits backoff_min_ = 0;
  // From the store's last answer.
  Permits store_remaining_ = 0;  // for all borrowers
  Instant retry_at_{};
  Instant reset_at_{};

  // Recent demand.
  Permits asked_for_ = 0;  // permits since:
  Instant since_{};
  double rate_ = 0;  // permits per second, averaged

  // The request to the store: pending, or to be repeated because its answer was lost.
  bool open_ = false;
  bool repeats_ = false;
  Instant asked_at_{};    // when it was sent first
  Nanos asked_passed_{};  // the same in monotonic time
  Instant sent_at_{};     // when it was sent last
  Nanos answered_by_{};   // when it times out, in monotonic time
  LeaseRequest question_{};
  std::string name_{};
  core::Limit limit_{};
  std::shared_ptr<const core::PriceHistory> history_{};  // of the limit
  std::uint64_t edition_ = 0;                            // of the rules that the limit is from
  struct WaitingCall {
    LeaseWaiter* waiter = nullptr;
    Permits cost = 0;
    std::uint64_t ticket = 0;  // unique
  };
  std::vector<WaitingCall> waiting_{};
  Permits waited_for_ = 0;  // the sum of their costs
  // Set while the waiting calls are notified. A notified call may wait again; one request is sent
  // for all such calls after the last notification. The lease must not be evicted in the meantime.
  bool notifying_ = false;
};

// One thread's leases of shared limits, by key. Spending needs no lock, no allocation and no
// request to the store. A lease covers the expected demand of about the next tenth of a second, at
// most this node's part of half the limit. It is renewed when half of it is spent; permits that are
// no longer needed are returned. The end of a lease is counted from the time of the request by this
// node's clock, so the store still counts its permits as lent by then.
//
// Not thread-safe.
class LeaseCache final : public MaintenanceTask {
 public:
  // `time` never goes back. Store, fleet and clock outlive this. `borrower` identifies this object
  // to the store and is unique.
  LeaseCache(SharedStore& store, const Fleet& fleet, LeaseClock time, std::string borrower,
             std::shared_ptr<LeaseCacheCounts> counts,
             std::shared_ptr<const RulesInForce> rules_in_force = nullptr);
  // Permits that are still held are lost until their lease ends: see give_all_back.
  ~LeaseCache() override;
  LeaseCache(const LeaseCache&) = delete;
  LeaseCache& operator=(const LeaseCache&) = delete;

  // The lease of a key; null if there is none.
  KeyLease* find(const Fingerprint& key) {
    const auto found = leases_.find(key);
    return found == leases_.end() ? nullptr : found->second.get();
  }

  // Pays for a call that is covered. Borrows more ahead of need, unless the rules have changed
  // since the last call that was not covered.
  void spend(KeyLease& lease, const core::Limit& limit, Permits cost, Instant now) {
    lease.held_ -= cost;
    lease.asked_for_ += cost;
    lease.spent_at_ = now;
    counts_.held.add(-static_cast<std::uint64_t>(cost));
    if (lease.held_ < lease.low_) [[unlikely]]
      borrow_ahead(lease, limit, now);
  }
  // Counts a refused call as demand.
  void refuse(KeyLease& lease, Permits cost) { lease.asked_for_ += cost; }

  // Requests permits from the store for a call that is not covered. `waiter` is notified once,
  // perhaps before this returns: when the store has answered, or at `deadline` (monotonic time).
  // The request stays pending after the deadline.
  void ask(const LimitInRules& limit, const Fingerprint& key, std::string_view name, Permits cost,
           Nanos deadline, LeaseWaiter& waiter);

  // Corrects what was spent. A positive correction is taken from the lease, or owed to the store. A
  // negative one is given back to the lease, but only if the permits have not been reported to the
  // store as spent since: `mark` is the value of mark() from before they were spent.
  void settle(const LimitInRules& limit, const Fingerprint& key, std::string_view name,
              Permits correction, std::uint64_t mark);
  static std::uint64_t mark(const KeyLease& lease) { return lease.question_.number; }

  // Adds the held permits to the store's decision about a peek.
  void add_to(core::Decision& decision, const Fingerprint& key, Permits cost, Instant now);

  // Ends the backoff of a key, for example after a reset.
  void reopen(const Fingerprint& key);

  // Returns all permits to the store and reports all spending: before this object is destroyed.
  // Skips leases with a pending request.
  void give_all_back();
  // True while requests are pending.
  bool is_asking() const { return open_ > 0; }

  bool has_work() const override { return !leases_.empty(); }
  void run_maintenance() override;
  Nanos due_in() const override;
  void on_due() override;

 private:
  struct Hash {
    std::size_t operator()(const Fingerprint& key) const { return key.high ^ key.low >> 48; }
  };
  friend class KeyLease;

  void ask_for_waiting(KeyLease& lease);
  void notify_waiting(KeyLease& lease, const LeaseResponse* error);
  void borrow_ahead(KeyLease& lease, const core::Limit& limit, Instant now);
  void maintain(KeyLease& lease, Instant now);
  struct Demand {
    Permits least = 0;
    Permits wanted = 0;
    Permits returned = 0;
  };
  void send_request(KeyLease& lease, const Demand& demand, Instant now);
  void on_lease(KeyLease& lease, LeaseResponse& answer);
  void apply(KeyLease& lease, const LeaseResponse& answer);
  void time_out(KeyLease& lease, std::uint64_t ticket);
  void expire(KeyLease& lease, Instant now);
  static void cancel_stale_repetition(KeyLease& lease, Instant now);
  static void set_limit(KeyLease& lease, const LimitInRules& limit, std::string_view name);
  bool is_outdated(const KeyLease& lease, Instant now) const;
  Permits need(const KeyLease& lease) const;
  bool should_report(const KeyLease& lease, Instant now) const;
  Nanos spent_ago(const KeyLease& lease, Instant now) const;
  void change_held(KeyLease& lease, Permits by);
  static bool is_idle(const KeyLease& lease);
  void evict_idle();
  KeyLease& lease_for(const Fingerprint& key);

  // The deadline of a waiter, if it is before the timeout of its request.
  struct Expiry {
    Nanos at{};
    Fingerprint key{};
    std::uint64_t ticket = 0;
    bool operator>(const Expiry& other) const { return at > other.at; }
  };

  SharedStore& store_;
  const Fleet& fleet_;
  const LeaseClock time_;
  const std::string borrower_;
  const std::shared_ptr<LeaseCacheCounts> shared_counts_;
  LeaseCacheCounts& counts_;
  const std::shared_ptr<const RulesInForce> rules_in_force_;  // null: the rules never change
  std::uint64_t last_number_;
  std::uint64_t last_ticket_ = 0;
  std::size_t open_ = 0;  // pending requests
  std::unordered_map<Fingerprint, std::unique_ptr<KeyLease>, Hash> leases_;
  std::size_t next_bucket_ = 0;  // of leases_, where evict_idle continues
  // The earliest first. Entries of waiters that were notified already stay until their time.
  std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> expiries_;
};

}  // namespace weir::store::lease
