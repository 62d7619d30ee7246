#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/loops.h"
#include "policy/config.h"
#include "weir/engine.h"
#include "weir/result.h"
#include "wire/exposition.h"

namespace weir::server {

struct DaemonOptions {
  int threads = 0;  // 0: one for each processor
  int spin = 0;     // microseconds: see net::LoopOptions
  int gather = 0;   // microseconds: see net::LoopOptions
  bool metrics = true;
  bool top = true;  // count the busiest keys
  // The process also runs a gateway, where each client connection may need one to an upstream: half
  // as many clients are accepted.
  bool has_gateway = false;
};

// weir as a service: an engine behind the listeners of a configuration.
//
// Used by one thread. `note_tls_failure` and `generation` are thread-safe. A job of `run_blocking`
// may also call `run_maintenance`, `reload` and `note_failed_reload`.
class Daemon {
 public:
  // Opens the state and binds all listeners. Connections are not accepted before `start`.
  static Result<std::unique_ptr<Daemon>, Error> open(policy::DaemonConfig config,
                                                     const DaemonOptions& options = {});
  ~Daemon();

  struct Ports {
    std::optional<std::uint16_t> resp;
    std::optional<std::uint16_t> http;
    std::optional<std::uint16_t> grpc;
  };
  Ports ports() const;

  // For a gateway in the same process, which shares the engine and the loops. Before `start`.
  struct Internals {
    Engine& engine;
    net::Loops& loops;
    std::size_t threads;
  };
  Internals internals();
  policy::PolicySet policies_in_force() const;
  // Appends metrics to those of GET /metrics. Called on any loop's thread. Before `start`.
  void add_metrics(std::function<void(wire::Exposition&)> metrics);
  // Counts a failed TLS handshake or connection, and logs it (rate limited). Thread-safe.
  void note_tls_failure(const net::Peer& peer, std::string_view why);

  // Accepts connections from now on.
  void start();

  // Runs a job that may block on the job thread, behind the jobs before it.
  void run_blocking(std::function<void()> job);

  // Replaces the policies, and reads Envoy's rules and the certificate again. Returns the names of
  // changed fields that need a restart (listeners, memory, secrets); these keep their old values.
  // If Envoy's rules cannot be read, nothing changes, and the error says why. May block.
  Result<std::vector<std::string>, Error> reload(policy::DaemonConfig config);
  // Counts a reload that failed before `reload`: the policy file could not be read.
  void note_failed_reload();
  std::uint64_t generation() const;

  // Periodic maintenance, to be called about twice a second: frees memory, refreshes slow metrics,
  // logs ended orders, and reloads a changed certificate. May block.
  void run_maintenance();

  // True once every loop has completed an iteration since this last returned true. For the
  // watchdog.
  bool all_loops_progressed();

  // Reports not ready to health checks from now on, and goes on serving.
  void report_not_ready();

  // Stops accepting, answers the requests that have arrived, flushes, and returns within `grace`.
  void stop(std::chrono::milliseconds grace);

 private:
  struct Impl;
  explicit Daemon(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::server
