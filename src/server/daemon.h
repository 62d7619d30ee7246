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
  int gather = 0;   // likewise
  bool metrics = true;
  bool top = true;  // count keys, too
  // Whoever comes may need a connection to somebody else: there is room for half as many.
  bool doubles = false;
};

// weir as a service: an engine behind the doors of a configuration.
class Daemon {
 public:
  // Opens the state and binds all doors. Nobody is let in yet.
  static Result<std::unique_ptr<Daemon>, Error> open(policy::Config config,
                                                     const DaemonOptions& options = {});
  ~Daemon();

  struct Ports {
    std::optional<std::uint16_t> resp;
    std::optional<std::uint16_t> http;
    std::optional<std::uint16_t> grpc;
  };
  Ports ports() const;

  // For others that live in this process and use the same loops and limits: before `start`.
  struct Inside {
    Engine& engine;
    net::Loops& loops;
    std::size_t threads;
  };
  Inside inside();
  policy::PolicySet policies_in_force() const;
  // Asked for its numbers with ours, on any thread.
  void add_metrics(std::function<void(wire::Exposition&)> metrics);
  // TLS with somebody came to nothing: counted, and logged if that is not too often.
  void note_tls_failure(const net::Peer& peer, std::string_view why);

  // Lets callers in.
  void start();

  // Runs a job on the thread for what may block, behind those that came before it.
  void run_blocking(std::function<void()> job);

  // Other policies from now on, Envoy's rules and the certificate as their files are. What cannot
  // change while running (doors, memory, secrets) stays; the names of such fields that did change
  // are returned. If Envoy's rules cannot be read, all stays as it is, and the error says why.
  Result<std::vector<std::string>, Error> reload(policy::Config config);
  // Somebody wanted other policies, but they could not be read: it is counted.
  void note_failed_reload();
  std::uint64_t generation() const;

  // To be called now and then: finds out what takes a while, and whether certificates have changed.
  // May block, as `reload` may.
  void look_around();

  // Whether every thread that serves has come around since this was last true.
  bool all_came_around();

  // Tells who asks for its health that it is about to end, and goes on serving.
  void announce_end();

  // Lets nobody in, answers what has arrived, flushes, and returns within `grace`.
  void stop(std::chrono::milliseconds grace);

 private:
  struct Impl;
  explicit Daemon(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::server
