#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/saturating.h"
#include "core/plan.h"

// The interface of a store that nodes share. The store is remote: a request is asynchronous, its
// response carries the time of the store's clock, and it may fail to arrive.

namespace weir::store {

enum class StoreVerb : std::uint8_t {
  take,
  peek,
  settle,
  reset,
  enter,
  leave,
  start,  // for tests: creates missing keys with a given state
};

// The proof of an admission by a shared store. `birth` identifies the key's incarnation: after a
// reset the key has another birth, and its old receipts are worth nothing.
struct StoreReceipt {
  core::Receipt receipt{};
  std::uint64_t birth = 0;

  // The fields below are for receipts that have a name. If the response to a refund is lost, the
  // refund may have been made or not. The store keeps the number of the last refund beside the key:
  // the next settle compares it with `refunds`, so nothing is refunded twice.
  std::uint64_t refunds = 0;  // made with this receipt, as far as is known
  // Expiry of that number in the store. Never decreases: a delayed command of an earlier refund
  // must still find the number.
  Instant kept_until{};
  // The same for the oldest refund without a known outcome; zero if there is none.
  Instant unknown_until{};
  // Permits refunded since the last settle that was answered for all items. The caller sets it to
  // zero after such a settle. A repeated settle refunds this much less.
  Permits repeated = 0;

  // The rest of a correction: an earlier attempt may have refunded a part of it.
  Permits left_of(Permits correction) const {
    return correction < 0 ? std::min<Permits>(sat_add(correction, repeated), 0) : correction;
  }
  // Notes a refund, after which `left` remains of the receipt.
  void update(const core::Receipt& left) {
    repeated += receipt.taken - left.taken;
    receipt = left;
  }
};

// One limit in a request, and its key.
struct StoreItem {
  const core::Limit* limit = nullptr;
  std::string_view key{};  // its name in the store, see key_name.h
  core::Ask ask{};         // of `settle`: the cost is the correction
  bool shadow = false;
  core::State start{};                          // of `start`
  const core::PriceHistory* history = nullptr;  // of the key's bucket, as this node knows it
};

// Borrows everything it points to.
struct StoreRequest {
  StoreVerb verb = StoreVerb::take;
  std::span<const StoreItem> items{};  // at most core::kMaxLimits, all with different keys
  std::string_view holder{};           // of enter, leave and peek: any bytes
  bool wants_receipts = false;         // of take
  // Of settle: one for each item, updated as core::Receipt is; one with nothing taken stands for
  // none. Of leave, optional: the holder leaves only where its lease is still that of the receipt,
  // that is, was not renewed since.
  // Changed only by what the store is known to have done, also when the request fails.
  std::span<StoreReceipt> receipts{};
  // Time left for the response, if the caller has waited before. Empty: the store's timeout.
  std::optional<Nanos> within{};
  // For settle: a unique name, the same for all receipts of one take. By it the store recognizes a
  // refund that is repeated because its response was lost. Empty: the caller never repeats this
  // settle.
  std::string_view receipt_name{};
  // For tests: the time. Accepted only for keys of tests. Empty: the store's clock.
  std::optional<Instant> now{};
};

struct StoreResponse {
  enum class Kind : std::uint8_t {
    decided,
    unavailable,    // not sent, or no response: the store may have charged
    misconfigured,  // the store answered with an error that an operator has to fix
  };

  Kind kind = Kind::unavailable;
  std::string error{};  // the reason, unless decided

  Instant now{};                            // of the store's clock
  core::Verdict verdict{};                  // over the items
  std::vector<core::Decision> decisions{};  // of each item
  std::vector<StoreReceipt> receipts{};     // of each item, if wanted and admitted
  bool left = false;                        // of leave: true if the holder held permits
  // Of enter and peek, bit i: the holder already held its permits of item i.
  std::uint32_t held = 0;
};

// Gets the response to a request.
class StoreCallback {
 public:
  // Called exactly once for each request, on the thread that runs the store's link, possibly before
  // `ask` returns. The request and everything it borrows must live until then.
  virtual void on_response(StoreResponse& answer) = 0;

 protected:
  ~StoreCallback() = default;
};

// A request for a lease: permits of one key that a node takes ahead of need, and spends without
// asking. Leased permits occupy the limit until the node reports them as spent, returns them, or
// the lease expires: free and leased permits together never exceed the limit. Permits of a window
// are leased until its end at the latest. So the fleet stays within the limit even if a node
// crashes.
struct LeaseRequest {
  const core::Limit* limit = nullptr;  // a bucket without a queue, or any window or quota
  std::string_view key{};              // its name in the store, see key_name.h
  std::string_view borrower{};         // the lease holder's name, unique in the fleet
  // Makes the request idempotent: different for every request of a holder about a key, and the same
  // when a request without a response is sent again. The store then repeats its response, and
  // changes nothing.
  std::uint64_t number = 0;
  Permits held = 0;      // leased and not spent yet; below zero: spent beyond what was leased
  Permits returned = 0;  // leased, and given back by this request; not included in `held`
  // Minimum time since permits were last spent that are neither held nor returned. A bucket has
  // refilled for this long. Zero is always safe.
  Nanos spent_ago{0};
  Permits least = 0;   // minimum: if fewer are free, none is leased
  Permits wanted = 0;  // maximum; 0: the request only reports what is held
  // After this time the node spends none of these permits any more, held or newly leased. A later
  // end from an earlier response stays valid, because the response to this request may be lost.
  Nanos term{0};
  const core::PriceHistory* history = nullptr;  // of the key's bucket, as this node knows it
  // For tests: the time. Accepted only for keys of tests. Empty: the store's clock.
  std::optional<Instant> now{};
};

struct LeaseResponse {
  StoreResponse::Kind kind = StoreResponse::Kind::unavailable;
  std::string error{};  // the reason, unless decided

  Instant now{};     // of the store's clock
  Permits lent = 0;  // leased in addition to those that were held
  // The permits of `held` that are still leased: all of them; none if their window is over; fewer
  // if the store has lost the lease, or it has expired, and others got the permits since.
  Permits kept = 0;
  // How long `lent` and `kept` may be spent, from `now`; see `term`. It is safe to count it from
  // the time at which the request was sent.
  Nanos lasts{0};
  Permits remaining = 0;    // free, for the next request of any node
  Permits outstanding = 0;  // leased to all nodes, as far as is known
  Nanos retry_after{0};     // until `least` permits are free, if none was leased; or kNever
  Nanos reset_after{0};     // as of a take
};

class LeaseCallback {
 public:
  // As StoreCallback::on_response.
  virtual void on_lease(LeaseResponse& answer) = 0;

 protected:
  ~LeaseCallback() = default;
};

// State that a user of a link attaches to it, with work to be done from time to time on the link's
// thread.
class MaintenanceTask {
 public:
  virtual ~MaintenanceTask() = default;
  // Checked after each run of the link.
  virtual bool has_work() const = 0;
  // Called every kMaintenanceInterval while has_work() is true.
  virtual void run_maintenance() = 0;
  // Time until `on_due` has to be called; kForever for never.
  virtual Nanos due_in() const = 0;
  virtual void on_due() = 0;
};
inline constexpr Nanos kMaintenanceInterval = std::chrono::milliseconds{100};

// The shared store, as one thread reaches it. Not thread-safe: it belongs to the thread of its
// link.
class SharedStore {
 public:
  virtual ~SharedStore() = default;
  virtual void ask(const StoreRequest& request, StoreCallback& callback) = 0;
  virtual void request_lease(const LeaseRequest& request, LeaseCallback& callback) = 0;
  // Maximum time until a request gets its response, or fails as unavailable.
  virtual Nanos timeout() const = 0;

  // Attached by users of the link, each under an id of its own. They live as long as the link.
  struct AttachedTask {
    std::uint64_t id = 0;
    std::unique_ptr<MaintenanceTask> task{};
  };
  std::vector<AttachedTask> tasks{};
};

}  // namespace weir::store
