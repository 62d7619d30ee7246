#pragma once

#include "core/redis_cell.h"
#include "core/state.h"
#include "engine/given.h"
#include "weir/async_engine.h"

namespace weir {
inline namespace v0 {

// Access to an engine for weir's own modules.
struct detail::EngineAccess {
  // For redis-cell's CL.THROTTLE: all its limits share one key space.
  static Verdict throttle(Engine& engine, const core::RedisCell& limit, std::string_view key,
                          Permits permits);

  static void throttle(AsyncEngine& async, const core::RedisCell& limit, std::string_view key,
                       Permits permits, AsyncEngine::VerdictCallback done);

  // Decides limits that the call brings along. Calls `done` exactly once: before it returns if they
  // count on this node, else later on the thread that runs the link. The texts that `question`
  // borrows must live until then.
  static void ask(Engine& engine, Link& link, const engine::GivenQuestion& question,
                  engine::GivenDone done);

  // For timelines. Sets the state of the request's key under the limit at `position`.
  static void start_with(Engine& engine, const Request& request, std::size_t position,
                         const core::State& state);
};

}  // namespace v0
}  // namespace weir
