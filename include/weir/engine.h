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

// What somebody asks for. Its texts are borrowed for the duration of the call.
struct Request {
  std::string_view policy;
  std::string_view key{};  // 1 to 4096 bytes, or
  Parts parts{};           // parts, of which a limit may count by some
  Permits permits = 1;
  // How long the caller would wait for its turn. Default: any time under queues, else not at all.
  std::optional<Nanos> max_wait{};
  // Leaves out the limits that count by something which the request does not have (an empty key, a
  // missing or empty part); the others decide. Default: such a request is an error.
  bool skip_missing = false;
};

// What about a request is why it cannot be decided.
enum class Fault : std::uint8_t {
  none,
  policy,  // there is no such policy
  key,     // empty or too long
  parts,   // empty, too long, missing, given twice, too many
  verb,    // the policy's limits are not for it: take, where one is entered and left
};

// The answer to a Request.
struct [[nodiscard]] Verdict {
  // Of the tightest limit: when refused the one that refuses for the longest time, else the one
  // with the least remaining. `wait` is the longest of all.
  Decision decision{};
  // The tightest limit: its name, or its position. Lives as long as the engine.
  std::string_view limited_by{};
  // Bit i: limit i of those that were asked, counted from 0, would refuse; it is a shadow if the
  // call passed.
  // None of a call that was refused because the store could not be asked.
  std::uint32_t refusing = 0;
  // The store could not be asked, or does not know that this node is there, and the policy says
  // what to do then.
  bool degraded = false;
  // An operator has blocked the caller: no limit was asked.
  bool blocked = false;
  Fault fault = Fault::none;
  // Why there is no decision: no such policy, a missing part, a key that is too long. Nothing was
  // taken. Empty otherwise.
  std::string error{};

  // True only when the call was decided and allowed.
  explicit operator bool() const noexcept { return decision && error.empty(); }
};

// The proof of a take, with which some of it can be given back later.
// Not thread-safe. Can be moved, not copied: what was given back cannot be given back again.
// Worth nothing after a reset of its key, nor to an engine that was opened again.
class Receipt {
 public:
  Receipt() noexcept;
  ~Receipt();
  Receipt(Receipt&& other) noexcept;
  Receipt& operator=(Receipt&& other) noexcept;

  // Bytes that it takes beside its own size: some for each limit that was asked.
  std::size_t memory() const noexcept;

 private:
  friend class AsyncEngine;
  friend class Engine;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What this node has of a limit that is split among the nodes of a fleet.
struct LimitShare {
  Permits part = 0;
  Permits whole = 0;
};

// Why a limit is asked: it is the policy's own, or stands in for these.
struct LimitOrigin {
  enum class Kind : std::uint8_t { policy, override_of_key, schedule };
  Kind kind = Kind::policy;
  std::string text{};  // which key, or which hours, as in a policy file
};

// What one limit of a policy would say, for people to read.
struct LimitState {
  std::string name;   // or position
  std::string limit;  // its text
  Permits cost = 0;   // of the call asked about
  bool shadow = false;
  Decision decision{};
  // Of a limit that is split: the text is that of the whole, the decision is about the part.
  std::optional<LimitShare> share{};
  LimitOrigin origin{};
};

// A limit of a policy that is split, as most keys have it.
struct SplitLimit {
  std::string policy;
  std::string name;   // of the limit, or position
  std::string limit;  // its text
  LimitShare share{};
  Permits granted = 0;  // what its part will be
  Nanos grows_in{0};    // if that is more: when
};

// A decision as it is reported to a DecisionSink. Its texts live as long as the engine, but those
// of the request only as long as the call.
struct DecisionEvent {
  std::string_view policy;  // empty for a limit that came with the call
  const Request& request;
  const Verdict& verdict;
  std::span<const std::string_view> limits{};  // the names of those that were asked, by position
  Permits permits = 0;
};

// Told of every take and enter, right after the decision, on the thread that asked: for metrics.
class DecisionSink {
 public:
  virtual ~DecisionSink() = default;
  virtual void on_decision(const DecisionEvent& event) noexcept = 0;
};

// Permits of leased limits that an engine has borrowed from its fleet ahead of need. What it holds
// is what the limits may be under-used by because of this node; they are never exceeded.
struct LeaseUse {
  std::uint64_t keys = 0;  // of which it has borrowed
  std::uint64_t held = 0;  // permits, of all keys together
  // Since the start:
  std::uint64_t asked = 0;     // questions to the fleet
  std::uint64_t borrowed = 0;  // permits
  std::uint64_t returned = 0;  // permits
  std::uint64_t lapsed = 0;    // permits that were neither spent nor returned in time
};

struct EngineOptions {
  MemoryOptions memory{};
  // Must outlive the engine.
  const Clock* clock = &system_clock();
  // None unless given. Must outlive the engine.
  DecisionSink* sink = nullptr;
  // Where limits count that nodes share: all whose scope is not `node`. (Of those whose scope is
  // `split` it tells this node's part.) None unless given: then all count on this node. Must
  // outlive the engine.
  Fleet* fleet = nullptr;
};

// An Engine decides requests by the policies of a set: several limits, several keys, different
// costs, all charged or none. What was used is remembered in memory of a fixed size, and in a file
// if one is given.
// Thread-safe: every member, from any thread. Starts no thread of its own: where a policy has a
// schedule, the first call after the hour makes the change. Under limits that count on a fleet the
// verbs wait for it, as long as the fleet says; AsyncEngine has them for those who must not.
// Not for a single limit in one program: a Limiter or KeyedLimiter is simpler and faster.
class Engine {
 public:
  // Remembers in the memory of this process. Throws std::invalid_argument if the options ask for a
  // state file: that can fail in ways worth telling, use `open`.
  explicit Engine(PolicySet policies, EngineOptions options = {});

  // With a state file, if the options name one. Errors: it is in use, the disk is full, …
  static Result<Engine, Error> open(PolicySet policies, EngineOptions options);

  ~Engine();
  Engine(Engine&& other) noexcept;
  Engine& operator=(Engine&& other) noexcept;

  // What there is to say about the state file that was opened: that it is new, that a foreign one
  // was set aside, that the machine had lost power. For a log. Empty without a state file.
  const std::string& opening_note() const noexcept;
  // Whether all that a state file held is remembered, as far as one can know.
  bool opened_well() const noexcept;

  // Takes what the request asks for from every limit of its policy, or from none.
  Verdict take(const Request& request);
  Verdict take(const Request& request, Receipt& receipt);

  // Many at once, one after the other, for less than it costs to take them one by one.
  void take_all(std::span<const Request> requests, std::span<Verdict> verdicts);

  // Whether it would pass, with what remains as it is. Takes nothing. Under a concurrency limit:
  // whether `holder` could enter.
  Verdict peek(const Request& request, std::string_view holder = {});

  // Corrects an earlier take by `request.permits`: above zero they are taken as well, even if that
  // leaves a debt; below zero they are given back, for which it takes the receipt. Only what has
  // not drained since comes back, and no more than was taken. Limits with a fixed cost stay as they
  // are. Always allowed.
  // If the verdict is degraded, permits may or may not have been given back: settle again with the
  // same receipt, and they come back once. Permits that are taken as well may count twice then.
  Verdict settle(const Request& request, Receipt& receipt);
  Verdict settle(const Request& request);

  // Enters as `holder` (any bytes that name it, chosen by the caller): all limits of the policy are
  // asked, and a permit of each concurrency limit is held until `leave`, or until its lease runs
  // out. Entering again while it runs renews it and takes nothing, so a retry is safe.
  Verdict enter(const Request& request, std::string_view holder);
  // Whether the holder was there to leave.
  bool leave(const Request& request, std::string_view holder);

  // Takes under a limit that comes with the call: no policy has to know it. What was used is known
  // by the key, the algorithm and the period, so the limit may be another one next time. Not for
  // concurrent limits: those are entered.
  Verdict throttle(const Limit& limit, std::string_view key, Permits permits = 1,
                   std::optional<Nanos> max_wait = std::nullopt);

  // Forgets what was used of the request's keys. The error of a request that makes no sense.
  std::optional<Error> reset(const Request& request);

  // Every limit of the policy, its state and what it would say. Takes nothing.
  Result<std::vector<LimitState>, Error> explain(const Request& request);

  // Other policies from now on. What was used stays with each limit that goes on: the same policy
  // and name, or the same part, algorithm and period.
  void replace(PolicySet policies);
  // How often they have been replaced, from 1.
  std::uint64_t generation() const noexcept;

  // What this node has of limits that are split: the most while it is the only one of its fleet,
  // nothing while it waits for others to know of it.
  std::vector<SplitLimit> split_limits();

  // The time by which it decides: the clock's, or that of the state file where that is later.
  Instant now() const noexcept;

  // How full the memory is. Looks at all of it: not for every call.
  MemoryUse memory() const;

  // What was borrowed for leased limits.
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
