#pragma once

#include "server/server_context.h"

namespace weir::server {

// A daemon without sockets. Its clock moves only when a test advances it.
struct TestServer {
  explicit TestServer(PolicySet set, Fleet* fleet = nullptr)
      : engine(std::move(set), {.clock = &clock, .sink = &metrics, .fleet = fleet}) {
    context.has_fleet = fleet != nullptr;
  }

  ManualClock clock{};
  Metrics metrics{{.clock = &clock}};
  Engine engine;
  Policies policies{""};
  net::Loops loops{{.threads = 0}};
  MemoryGauge memory{};
  ServerContext context{.engine = engine,
                        .policies = policies,
                        .loops = loops,
                        .metrics = metrics,
                        .memory = memory,
                        .access = {}};
};

}  // namespace weir::server
