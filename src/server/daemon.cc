#include "server/daemon.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "net/loops.h"
#include "server/http_session.h"
#include "server/log.h"
#include "server/policies.h"
#include "server/resp_session.h"
#include "server/service.h"

namespace weir::server {

namespace {

// As many connections as the system lets this process have, less what it needs itself: each thread
// has its doors, a timer and what it waits with.
std::size_t most_connections(int threads) {
  const std::size_t own = 64 + 8 * static_cast<std::size_t>(threads);
  constexpr std::size_t enough = 20'000;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, enough + own);
  setrlimit(RLIMIT_NOFILE, &files);
  return std::max<std::size_t>(files.rlim_cur, own + 1) - own;
}

int threads_for(const DaemonOptions& options) {
  if (options.threads > 0) return options.threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

net::Door resp_door(Service& service) {
  return {
      .speak = [&service](
                   const net::Peer& peer) { return std::make_unique<RespSession>(service, peer); },
      .too_many = "-ERR max number of clients reached\r\n",
      .most_input = wire::RespLimits::kCommandBytes};
}

net::Door http_door(Service& service) {
  return {
      .speak = [&service](
                   const net::Peer& peer) { return std::make_unique<HttpSession>(service, peer); },
      .too_many = std::string{HttpSession::kTooMany},
      .most_input = HttpSession::kMostInput,
      .idle_seconds = 75,
      .message_seconds = 20};
}

}  // namespace

struct Daemon::Impl {
  Impl(policy::Config the_config, std::unique_ptr<Metrics> the_metrics, Engine the_engine,
       std::unique_ptr<Policies> the_policies, const DaemonOptions& options)
      : config(std::move(the_config)),
        metrics(std::move(the_metrics)),
        engine(std::move(the_engine)),
        policies(std::move(the_policies)),
        loops({.threads = threads_for(options),
               .most_connections = most_connections(threads_for(options))}) {}

  // (Sessions use everything here.)
  ~Impl() { loops.stop(std::chrono::milliseconds{0}); }

  policy::Config config;
  std::unique_ptr<Metrics> metrics;
  Engine engine;
  std::unique_ptr<Policies> policies;
  MemoryGauge memory;
  net::Loops loops;
  Service service{.engine = engine,
                  .policies = *policies,
                  .loops = loops,
                  .metrics = *metrics,
                  .memory = memory,
                  .access = {.password = config.password, .admin_token = config.admin_token},
                  .headers = config.headers};
  Ports ports;
};

Daemon::Daemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>, Error> Daemon::open(policy::Config config,
                                                    const DaemonOptions& options) {
  auto policies =
      std::make_unique<Policies>(config.state.empty() ? std::string{} : config.state + ".policies");
  if (auto error = policies->restore()) return *std::move(error);
  policies->use_file(config.policies);
  auto metrics =
      std::make_unique<Metrics>(MetricsOptions{.on = options.metrics, .top = options.top});
  auto engine = Engine::open(policies->merged(),
                             {.memory = {.bytes = config.memory, .state_file = config.state},
                              .sink = options.metrics ? metrics.get() : nullptr});
  if (!engine) return engine.error();

  auto impl = std::make_unique<Impl>(std::move(config), std::move(metrics), *std::move(engine),
                                     std::move(policies), options);
  const policy::Listen& listen = impl->config.listen;
  if (listen.resp) {
    auto port = impl->loops.bind(listen.resp->host, listen.resp->port, resp_door(impl->service));
    if (!port) return port.error();
    impl->ports.resp = *port;
  }
  if (listen.http) {
    auto port = impl->loops.bind(listen.http->host, listen.http->port, http_door(impl->service));
    if (!port) return port.error();
    impl->ports.http = *port;
  }
  return std::unique_ptr<Daemon>(new Daemon(std::move(impl)));
}

Daemon::Ports Daemon::ports() const { return impl_->ports; }

void Daemon::start() {
  if (impl_->config.state.empty()) {
    log(Level::info,
        "no state file: a restart forgets what was used (write `state: FILE` to keep it)");
  } else {
    log(Level::info, "{}", impl_->engine.opening_note());
  }
  look_around();
  impl_->loops.start();
}

std::vector<std::string> Daemon::reload(policy::Config config) {
  std::vector<std::string> unchanged;
  const policy::Config& now = impl_->config;
  if (config.listen != now.listen) unchanged.emplace_back("listen");
  if (config.store != now.store) unchanged.emplace_back("store");
  if (config.memory != now.memory) unchanged.emplace_back("memory");
  if (config.state != now.state) unchanged.emplace_back("state");
  if (config.password != now.password) unchanged.emplace_back("password");
  if (config.admin_token != now.admin_token) unchanged.emplace_back("admin_token");
  if (config.headers != now.headers) unchanged.emplace_back("headers");
  impl_->policies->use_file(std::move(config.policies), &impl_->engine);
  ++impl_->service.reloads.succeeded;
  return unchanged;
}

void Daemon::note_failed_reload() { ++impl_->service.reloads.failed; }

void Daemon::look_around() { impl_->memory.look(impl_->engine); }

std::uint64_t Daemon::generation() const { return impl_->engine.generation(); }

void Daemon::stop(std::chrono::milliseconds grace) { impl_->loops.stop(grace); }

}  // namespace weir::server
