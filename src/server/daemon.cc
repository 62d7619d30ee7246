#include "server/daemon.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "net/loops.h"
#include "net/tls.h"
#include "server/certificates.h"
#include "server/http_session.h"
#include "server/log.h"
#include "server/policies.h"
#include "server/resp_session.h"
#include "server/service.h"
#include "weir/limiter.h"
#include "weir/quota.h"

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

// Anybody can fail to be let in as often as they like: that must not hide what else is logged.
void note_tls_failure(Service& service, const net::Peer& peer, std::string_view why) {
  static Limiter lines{per_second(1).burst(10)};
  ++service.tls_failures;
  if (lines.try_acquire()) log(Level::warning, "no TLS with {}: {}", peer.address, why);
}

// `not_tls` is said without TLS, to those who have none.
net::TlsManners tls_manners(Service& service, std::string_view alpn, std::string_view not_tls) {
  return {.alpn = std::string{alpn},
          .not_tls = std::string{not_tls},
          .refused = [&service](const net::Peer& peer, std::string_view why) {
            note_tls_failure(service, peer, why);
          }};
}

}  // namespace

struct Daemon::Impl {
  Impl(policy::Config the_config, std::unique_ptr<Certificates> the_certificates,
       std::unique_ptr<Metrics> the_metrics, Engine the_engine,
       std::unique_ptr<Policies> the_policies, const DaemonOptions& options)
      : config(std::move(the_config)),
        certificates(std::move(the_certificates)),
        metrics(std::move(the_metrics)),
        engine(std::move(the_engine)),
        policies(std::move(the_policies)),
        loops({.threads = threads_for(options),
               .most_connections = most_connections(threads_for(options))}) {}

  // (Sessions use everything here.)
  ~Impl() { loops.stop(std::chrono::milliseconds{0}); }

  Result<std::uint16_t, Error> bind(const policy::Endpoint& endpoint, net::Door door,
                                    net::TlsManners manners) {
    if (certificates) {
      door = net::with_tls(std::move(door), certificates->current(), std::move(manners));
    }
    return loops.bind(endpoint.host, endpoint.port, std::move(door));
  }

  void count_reload(bool succeeded) {
    ++(succeeded ? service.reloads.succeeded : service.reloads.failed);
    service.reloads.last_succeeded = succeeded;
  }

  policy::Config config;
  std::unique_ptr<Certificates> certificates;  // none: no TLS
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
  std::unique_ptr<Certificates> certificates;
  if (config.tls) {
    auto opened = Certificates::open(*config.tls);
    if (!opened) return opened.error();
    certificates = *std::move(opened);
  }
  auto policies = std::make_unique<Policies>(config.state);
  if (auto error = policies->restore()) return *std::move(error);
  policies->use_file(config.policies);
  auto metrics =
      std::make_unique<Metrics>(MetricsOptions{.on = options.metrics, .top = options.top});
  auto engine = Engine::open(policies->merged(),
                             {.memory = {.bytes = config.memory, .state_file = config.state},
                              .sink = options.metrics ? metrics.get() : nullptr});
  if (!engine) return engine.error();

  auto impl = std::make_unique<Impl>(std::move(config), std::move(certificates), std::move(metrics),
                                     *std::move(engine), std::move(policies), options);
  const policy::Listen& listen = impl->config.listen;
  if (listen.resp) {
    auto port = impl->bind(*listen.resp, resp_door(impl->service),
                           tls_manners(impl->service, {}, RespSession::kNotTls));
    if (!port) return port.error();
    impl->ports.resp = *port;
  }
  if (listen.http) {
    auto port = impl->bind(*listen.http, http_door(impl->service),
                           tls_manners(impl->service, "http/1.1", HttpSession::kNotTls));
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
  if (config.tls.has_value() != now.tls.has_value()) unchanged.emplace_back("tls");
  impl_->policies->use_file(std::move(config.policies), &impl_->engine);
  impl_->count_reload(true);
  if (config.tls && impl_->certificates && !impl_->certificates->use(*config.tls)) {
    impl_->count_reload(false);
  }
  return unchanged;
}

void Daemon::note_failed_reload() { impl_->count_reload(false); }

void Daemon::look_around() {
  impl_->memory.look(impl_->engine);
  for (const GivenOrder& given : impl_->policies->ended_orders(impl_->engine)) {
    log(Level::info, "order {} has ended: {}", given.id, to_text(given));
  }
  if (!impl_->certificates) return;
  if (const auto used = impl_->certificates->look()) impl_->count_reload(*used);
}

bool Daemon::all_came_around() { return impl_->loops.all_came_around(); }

std::uint64_t Daemon::generation() const { return impl_->engine.generation(); }

void Daemon::stop(std::chrono::milliseconds grace) {
  impl_->service.ending = true;
  impl_->loops.stop(grace);
}

}  // namespace weir::server
