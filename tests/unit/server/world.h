#pragma once

#include "server/service.h"

namespace weir::server {

// A daemon without sockets, on a clock that stands still.
struct World {
  explicit World(PolicySet set, Fleet* fleet = nullptr)
      : engine(std::move(set), {.clock = &clock, .sink = &metrics, .fleet = fleet}) {
    service.has_fleet = fleet != nullptr;
  }

  ManualClock clock{};
  Metrics metrics{{.clock = &clock}};
  Engine engine;
  Policies policies{""};
  net::Loops loops{{.threads = 0}};
  MemoryGauge memory{};
  Service service{.engine = engine,
                  .policies = policies,
                  .loops = loops,
                  .metrics = metrics,
                  .memory = memory,
                  .access = {}};
};

}  // namespace weir::server
