#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/config.h"
#include "weir/result.h"

namespace weir::server {

struct DaemonOptions {
  int threads = 0;  // 0: one for each processor
  bool metrics = true;
  bool top = true;  // count keys, too
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
  };
  Ports ports() const;

  // Lets callers in.
  void start();

  // Other policies from now on, and the certificate as its files are. What cannot change while
  // running (doors, memory, secrets) stays; the names of such fields that did change are returned.
  std::vector<std::string> reload(policy::Config config);
  // Somebody wanted other policies, but they could not be read: it is counted.
  void note_failed_reload();
  std::uint64_t generation() const;

  // To be called now and then: finds out what takes a while, and whether certificates have changed.
  void look_around();

  // Whether every thread that serves has come around since this was last true.
  bool all_came_around();

  // Lets nobody in, answers what has arrived, flushes, and returns within `grace`.
  void stop(std::chrono::milliseconds grace);

 private:
  struct Impl;
  explicit Daemon(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::server
