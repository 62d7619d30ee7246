#pragma once

#include "core/cell.h"
#include "core/state.h"
#include "engine/given.h"
#include "weir/async_engine.h"

namespace weir {
inline namespace v0 {

// What users of an engine have no business with.
struct detail::EngineAccess {
  // For redis-cell's command: keys of their own, whatever the parameters.
  static Verdict throttle(Engine& engine, const core::Cell& limit, std::string_view key,
                          Permits permits);

  static void throttle(AsyncEngine& async, const core::Cell& limit, std::string_view key,
                       Permits permits, AsyncEngine::Done done);

  // Decides over limits that come with the call. `done` is called exactly once: before this
  // returns if they count on this node, or else later, on the thread that runs the link. What the
  // question borrows must live until then.
  static void ask(Engine& engine, Link& link, const engine::GivenQuestion& question,
                  engine::GivenDone done);

  // For timelines. Lets the key of the request start with `state` under the limit at `position`.
  static void start_with(Engine& engine, const Request& request, std::size_t position,
                         const core::State& state);
};

}  // namespace v0
}  // namespace weir
