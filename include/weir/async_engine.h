#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/engine.h"
#include "weir/fleet.h"

namespace weir {

namespace engine {
struct Throttle;
}  // namespace engine

inline namespace v0 {

// The error of an operation that is not a decision: leave, reset, explain.
struct OperationError {
  std::string message;
  Fault fault = Fault::none;  // none: the request itself is valid
  bool fleet = false;         // the fleet was unavailable or misconfigured
};

// The state of every limit of a policy, and the verdict that follows from them.
struct Explanation {
  Verdict verdict{};
  std::vector<LimitState> limits{};
};

// The operations of an Engine as non-blocking calls with callbacks, for event loops. A call that
// this node can decide alone completes at once. Other calls are sent with the next `flush` of the
// link and complete on the thread that runs the link. If the fleet does not answer within its
// timeout, the policy's failure mode decides.
//
//   AsyncEngine async(engine, *link);
//   async.take({.policy = "login", .key = "alice"}, [](const Verdict& verdict) { … });
//
// A request may go out of scope as soon as the call returns. `done` is called exactly once, perhaps
// before the call returns. The engine and the link must outlive all calls that are pending.
// Not thread-safe: only for the thread that owns the link.
class AsyncEngine {
 public:
  AsyncEngine(Engine& engine, Link& link) noexcept : engine_(&engine), link_(&link) {}

  using VerdictCallback = std::function<void(const Verdict&)>;

  void take(const Request& request, VerdictCallback done);
  // Returns the verdict if it is known at once. Otherwise returns nothing, and the callback that
  // `later` creates receives the verdict. `later` is only called in that case.
  std::optional<Verdict> take_now_or(const Request& request,
                                     const std::function<VerdictCallback()>& later);
  void take(const Request& request, std::function<void(const Verdict&, Receipt)> done);
  void peek(const Request& request, std::string_view holder, VerdictCallback done);
  // The receipt must live until `done`.
  void settle(const Request& request, Receipt& receipt, VerdictCallback done);
  void settle(const Request& request, VerdictCallback done);
  void enter(const Request& request, std::string_view holder, VerdictCallback done);
  void throttle(const Limit& limit, std::string_view key, Permits permits,
                std::optional<Nanos> max_wait, VerdictCallback done);

  void leave(const Request& request, std::string_view holder,
             std::function<void(Result<bool, OperationError>)> done);
  void reset(const Request& request, std::function<void(std::optional<OperationError>)> done);
  void explain(const Request& request,
               std::function<void(Result<Explanation, OperationError>)> done);

  // Returns the unspent permits of leased limits that this link holds, so that other nodes can use
  // them. FleetCall it before the link is destroyed; otherwise they stay reserved until their lease
  // expires. Blocks until the fleet has answered, at most for its timeout. Must not be called from
  // `done`.
  void return_leases();

 private:
  friend struct detail::EngineAccess;
  class FleetCall;
  class ThrottleCall;
  static OperationError no_answer(const std::string& why);
  void settle(const Request& request, Receipt* receipt, VerdictCallback done);
  static void throttle(Engine::Impl& engine, Link& link, engine::Throttle throttle,
                       std::string_view key, VerdictCallback done);
  Engine* engine_;
  Link* link_;
};

}  // namespace v0
}  // namespace weir
