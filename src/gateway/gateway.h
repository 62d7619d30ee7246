#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config.h"
#include "gateway/house.h"
#include "net/loops.h"
#include "policy/policy_file.h"
#include "weir/engine.h"
#include "weir/result.h"
#include "wire/exposition.h"

namespace weir::gateway {

// Where a gateway lives: what of it belongs to somebody else. All of it outlives the loops.
struct Surroundings {
  Engine& engine;
  net::Loops& loops;  // that have not started
  std::size_t threads = 1;
  std::function<Link&()> link;                    // of the thread that calls
  std::function<policy::PolicySet()> policies{};  // that are in force
  const net::CurrentTls* tls = nullptr;           // none: clients come without
  std::function<void(const net::Peer&, std::string_view why)> no_tls{};
  ServerChanged server_changed{};
};

// A reverse proxy that limits: a door of its own on the loops of a daemon, and an engine that
// others may ask, too. For the thread that made it; its work is done on the loops'.
class Gateway {
 public:
  // Looks up servers, opens the log and binds the door. Nobody is let in before the loops start.
  static Result<std::unique_ptr<Gateway>, Error> open(Config config, Surroundings surroundings);

  std::uint16_t port() const { return common_->port; }

  // Other routes from now on; requests under way keep theirs. What cannot change while running
  // stays, and the names of such fields that did change are returned. The error of a server or a
  // log that cannot be found: nothing changes then.
  Result<std::vector<std::string>, Error> reload(Config config);

  // To be called now and then: follows policies that have changed and logs that were moved.
  void look_around();

  void append_to(wire::Exposition& to) const { common_->counts.append_to(to); }

 private:
  Gateway(Config config, Surroundings surroundings);
  std::optional<Error> use(std::shared_ptr<const Config> config);

  const Surroundings surroundings_;
  std::shared_ptr<const Config> config_;
  std::shared_ptr<Common> common_;
  Backends backends_;
  std::shared_ptr<AccessLogFile> log_;
  std::uint64_t generation_ = 0;
};

}  // namespace weir::gateway
