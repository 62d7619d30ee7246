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

// Why a verb could not do what it was asked for.
struct Trouble {
  std::string message;
  Fault fault = Fault::none;  // none: nothing is wrong with the request
  bool fleet = false;         // the fleet could not be asked
};

// Every limit of a policy, its state and what it would say, and what comes of it.
struct Explanation {
  Verdict verdict{};
  std::vector<LimitState> limits{};
};

// An Engine's verbs for programs that must not wait for the fleet. What can be decided on this node
// is decided at once. Otherwise the question goes out with the next `flush` of the link, and
// whoever asked is told later, on the thread that runs the link: by the fleet's answer, or, when
// there is none within the fleet's time, by what the policy says about that.
//
//   AsyncEngine async(engine, *link);
//   async.take({.policy = "login", .key = "alice"}, [](const Verdict& verdict) { … });
//
// Requests may go out of scope at once. `done` is called exactly once, perhaps before the verb
// returns. Engine and link must outlive what was asked.
// For the thread that owns the link.
class AsyncEngine {
 public:
  AsyncEngine(Engine& engine, Link& link) noexcept : engine_(&engine), link_(&link) {}

  using Done = std::function<void(const Verdict&)>;

  void take(const Request& request, Done done);
  // For those who do not want to be told what they can know at once: the verdict, or nothing, and
  // then whoever `later` names is told.
  std::optional<Verdict> take_now_or(const Request& request, const std::function<Done()>& later);
  void take(const Request& request, std::function<void(const Verdict&, Receipt)> done);
  void peek(const Request& request, std::string_view holder, Done done);
  // The receipt must live until `done`.
  void settle(const Request& request, Receipt& receipt, Done done);
  void settle(const Request& request, Done done);
  void enter(const Request& request, std::string_view holder, Done done);
  void throttle(const Limit& limit, std::string_view key, Permits permits,
                std::optional<Nanos> max_wait, Done done);

  void leave(const Request& request, std::string_view holder,
             std::function<void(Result<bool, Trouble>)> done);
  void reset(const Request& request, std::function<void(std::optional<Trouble>)> done);
  void explain(const Request& request, std::function<void(Result<Explanation, Trouble>)> done);

  // Gives back what was borrowed for leased limits by way of this link, for others to use: before
  // the link ends, or else it is theirs only when its term has passed. Waits for the fleet's word,
  // not longer than for an answer. Not from within `done`.
  void return_leases();

 private:
  friend struct detail::EngineAccess;
  class Call;
  class ThrottleCall;
  static Trouble no_answer(const std::string& why);
  void settle(const Request& request, Receipt* receipt, Done done);
  static void throttle(Engine::Impl& engine, Link& link, engine::Throttle throttle,
                       std::string_view key, Done done);
  Engine* engine_;
  Link* link_;
};

}  // namespace v0
}  // namespace weir
