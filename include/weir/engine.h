#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/clock.h"
#include "weir/decision.h"
#include "weir/limit.h"
#include "weir/memory.h"
#include "weir/parts.h"
#include "weir/policy_set.h"
#include "weir/result.h"

namespace weir {
inline namespace v0 {

class AsyncEngine;
class Fleet;

namespace detail {
struct EngineAccess;
}  // namespace detail

// A call to decide about. It borrows its texts for the duration of the call.
struct Request {
  std::string_view policy;
  // Either a key of 1 to 4096 bytes, or named parts, of which each limit counts by some.
  std::string_view key{};
  Parts parts{};
  Permits permits = 1;
  // How long the caller would wait for its turn. Default: forever under queues, else not at all.
  std::optional<Nanos> max_wait{};
  // Skips the limits that count by something which the request does not have (an empty key, a
  // missing or empty part); the others decide. Default: such a request is an error.
  bool skip_missing = false;
};

// The part of a request that makes it invalid.
enum class Fault : std::uint8_t {
  none,
  policy,  // there is no such policy
  key,     // empty or too long
  parts,   // empty, too long, missing, given twice, too many
  verb,    // the policy's limits do not support it: `take` of a concurrency limit
};

// The answer to a Request.
struct [[nodiscard]] Verdict {
  // The decision of the tightest limit. When refused: the one with the longest retry_after. When
  // admitted: the one with the least remaining. `wait` is the longest of all limits.
  Decision decision{};
  // The tightest limit: its name, or its position. Lives as long as the engine.
  std::string_view limited_by{};
  // Bit i: limit i of the limits that were checked, counted from 0, would refuse. If the call was
  // admitted, that limit is a shadow. Zero for a call that was refused because the store was
  // unavailable.
  std::uint32_t refusing = 0;
  // The policy's failure mode decided: the store was unavailable, or does not know this node.
  bool degraded = false;
  // An operator has blocked the key: no limit was checked.
  bool blocked = false;
  Fault fault = Fault::none;
  // The reason why there is no decision: no such policy, a missing part, a key that is too long.
  // Nothing was taken. Empty otherwise.
  std::string error{};

  // True only when the call was decided and allowed.
  explicit operator bool() const noexcept { return decision && error.empty(); }
};

// The record of a take, needed to give permits back with `settle`.
// Not thread-safe. Movable, not copyable: permits can be given back only once.
// Void after a reset of its key, and for an engine that was reopened.
class Receipt {
 public:
  Receipt() noexcept;
  ~Receipt();
  Receipt(Receipt&& other) noexcept;
  Receipt& operator=(Receipt&& other) noexcept;

  // Heap bytes in addition to its own size; grows with the number of limits that were checked.
  std::size_t memory() const noexcept;

 private:
  friend class AsyncEngine;
  friend class Engine;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// This node's part of a limit with scope `split`, in permits.
struct LimitShare {
  Permits part = 0;
  Permits whole = 0;
};

// Where a limit comes from: the policy itself, or an override or schedule that replaces its limit.
struct LimitOrigin {
  enum class Kind : std::uint8_t { policy, override_of_key, schedule };
  Kind kind = Kind::policy;
  std::string text{};  // the key of the override, or the hours of the schedule, as in a policy file
};

// The state of one limit of a policy for a key, for people to read.
struct LimitState {
  std::string name;   // or position
  std::string limit;  // its text
  Permits cost = 0;   // of the request
  bool shadow = false;
  Decision decision{};
  // Only of a split limit: `limit` is the text of the whole, `decision` is about this node's part.
  std::optional<LimitShare> share{};
  LimitOrigin origin{};
};

// A split limit of a policy, as it applies to keys without an override.
struct SplitLimit {
  std::string policy;
  std::string name;   // of the limit, or position
  std::string limit;  // its text
  LimitShare share{};
  Permits granted = 0;  // the part that this node is to have
  Nanos grows_in{0};    // if `granted` is more than the present part: the time until it is in force
};

// A decision as it is reported to a DecisionSink. Its texts live as long as the engine, but the
// request's texts only for the duration of the call.
struct DecisionEvent {
  std::string_view policy;  // empty for an ad-hoc limit that came with the call
  const Request& request;
  const Verdict& verdict;
  std::span<const std::string_view> limits{};  // names of the limits that were checked, by position
  Permits permits = 0;
};

// Receives every take and enter right after the decision, on the calling thread. For metrics.
class DecisionSink {
 public:
  virtual ~DecisionSink() = default;
  virtual void on_decision(const DecisionEvent& event) noexcept = 0;
};

// Permits of leased limits that an engine has borrowed from its fleet ahead of need. The limits are
// never exceeded; permits that are held but not spent are permits that other nodes cannot use.
struct LeaseUse {
  std::uint64_t keys = 0;  // with a lease, now
  std::uint64_t held = 0;  // permits of all keys, now
  // Since the start:
  std::uint64_t asked = 0;     // requests to the fleet
  std::uint64_t borrowed = 0;  // permits
  std::uint64_t returned = 0;  // permits
  std::uint64_t lapsed = 0;    // permits whose lease expired before they were spent or returned
};

struct EngineOptions {
  MemoryOptions memory{};
  // Must outlive the engine.
  const Clock* clock = &system_clock();
  // Optional. Must outlive the engine.
  DecisionSink* sink = nullptr;
  // Optional: the shared store for limits with scope `fleet` and `leased`, and the membership by
  // which limits with scope `split` are divided. Without it all limits count on this node alone.
  // Must outlive the engine.
  Fleet* fleet = nullptr;
};

// Decides requests by the policies of a set. A request may be subject to several limits with
// different keys and costs: either all of them are charged, or none. State lives in memory of a
// fixed size, and in a file if one is given.
// Thread-safe. Starts no threads: a scheduled change takes effect with the first call after its
// time. Calls under fleet limits block for at most the fleet's timeout; AsyncEngine does not block.
// Not for a single limit in one program: a Limiter or KeyedLimiter is simpler and faster.
class Engine {
 public:
  // Keeps state in the memory of this process. Throws std::invalid_argument if the options name a
  // state file: use `open`, which reports errors.
  explicit Engine(PolicySet policies, EngineOptions options = {});

  // Keeps state in a file if the options name one. Errors: it is in use, the disk is full, …
  static Result<Engine, Error> open(PolicySet policies, EngineOptions options);

  ~Engine();
  Engine(Engine&& other) noexcept;
  Engine& operator=(Engine&& other) noexcept;

  // The events while the state file was opened, for a log: it is new, a damaged one was set aside,
  // the machine had lost power. Empty without a state file.
  const std::string& opening_note() const noexcept;
  // True if, as far as can be detected, no state of the file was lost.
  bool state_intact() const noexcept;

  // Takes the permits from every limit of the request's policy, or from none.
  Verdict take(const Request& request);
  Verdict take(const Request& request, Receipt& receipt);

  // Takes a batch of requests in order. Cheaper than one call each.
  void take_all(std::span<const Request> requests, std::span<Verdict> verdicts);

  // The verdict that `take` would give, with the present remaining permits. Takes nothing. Under a
  // concurrency limit: whether `holder` could enter.
  Verdict peek(const Request& request, std::string_view holder = {});

  // Corrects an earlier take by `request.permits`. A positive correction takes more permits, into
  // debt if necessary. A negative one gives permits back and needs the receipt: at most what was
  // taken, and only what has not drained since. Limits with a fixed cost do not change. The outcome
  // is always `allowed`.
  // If the verdict is degraded, it is unknown whether the correction was applied. Settle again with
  // the same receipt: permits are given back exactly once, but a positive correction may be counted
  // twice.
  Verdict settle(const Request& request, Receipt& receipt);
  Verdict settle(const Request& request);

  // Enters as `holder`, a name that the caller chooses (any bytes). All limits of the policy are
  // checked. A permit of each concurrency limit is held until `leave`, or until its hold time has
  // expired. Entering again renews the hold time and takes nothing, so a retry is safe.
  Verdict enter(const Request& request, std::string_view holder);
  // Returns whether the holder held a permit.
  bool leave(const Request& request, std::string_view holder);

  // Takes under an ad-hoc limit that comes with the call and is in no policy. Its state is found by
  // the key, the algorithm and the period, so the numbers may change between calls. Not for
  // concurrency limits.
  Verdict throttle(const Limit& limit, std::string_view key, Permits permits = 1,
                   std::optional<Nanos> max_wait = std::nullopt);

  // Forgets the usage of the request's keys. Returns the error if the request is invalid.
  std::optional<Error> reset(const Request& request);

  // The state of every limit of the policy. Takes nothing.
  Result<std::vector<LimitState>, Error> explain(const Request& request);

  // Replaces the policies. A limit keeps its usage if the new policies have the same limit: the
  // same policy and name, or the same part, algorithm and period.
  void replace(PolicySet policies);
  // The number of the present policies, from 1; each `replace` adds one.
  std::uint64_t generation() const noexcept;

  // This node's parts of split limits: the whole while it is the only node of its fleet, nothing
  // until the other nodes know of it.
  std::vector<SplitLimit> split_limits();

  // The time of decisions: the clock's, or the last time in the state file where that is later.
  Instant now() const noexcept;

  // The fill level of the table. Scans all of it: not for every call.
  MemoryUse memory() const;

  // The permits borrowed for leased limits.
  LeaseUse leases() const;

 private:
  friend class AsyncEngine;
  friend struct detail::EngineAccess;
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace weir
