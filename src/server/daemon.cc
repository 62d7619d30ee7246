#include "server/daemon.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include "envoy/load.h"
#include "net/loops.h"
#include "net/tls.h"
#include "server/certificates.h"
#include "server/freed_memory.h"
#include "server/grpc_session.h"
#include "server/http_session.h"
#include "server/links.h"
#include "server/log.h"
#include "server/policies.h"
#include "server/resp_session.h"
#include "server/service.h"
#include "server/texts.h"
#include "server/this_machine.h"
#include "weir/limiter.h"
#include "weir/quota.h"

namespace weir::server {

namespace {

// A page that a browser has loaded elsewhere has no password, and no certificate for its name here.
std::optional<std::vector<std::string>> host_names(const policy::Config& config) {
  if (!config.password.empty() || config.tls) return std::nullopt;
  std::vector<std::string> names = config.server_names;
  if (config.listen.http) names.push_back(config.listen.http->host);
  if (std::string own = name_of_this_machine(); !own.empty()) names.push_back(std::move(own));
  return names;
}

// As many connections as the system lets this process have, less what it needs itself: each thread
// has its doors, a timer and what it waits with.
std::size_t most_connections(int threads, bool doubles) {
  const std::size_t own = 64 + 8 * static_cast<std::size_t>(threads);
  const std::size_t enough = doubles ? 40'000 : 20'000;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, enough + own);
  setrlimit(RLIMIT_NOFILE, &files);
  const std::size_t most = std::max<std::size_t>(files.rlim_cur, own + 2) - own;
  return doubles ? most / 2 : most;
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

// Who holds a connection open to ask now and then may do so as long as it likes.
net::Door grpc_listener(Service& service) {
  return {.speak = [&service](const net::Peer&) { return std::make_unique<GrpcSession>(service); },
          .too_many = GrpcSession::too_many(),
          .most_input = GrpcSession::kMostInput,
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

// The store may say the same of every call.
RedisOptions redis_options(const policy::Config& config) {
  RedisOptions options{.timeout = config.store_timeout};
  options.log = [](RedisOptions::Level level, std::string_view text) {
    static Limiter lines{per_second(1).burst(20)};
    if (!lines.try_acquire()) return;
    switch (level) {
      case RedisOptions::Level::info:
        return log(Level::info, "store: {}", text);
      case RedisOptions::Level::warning:
        return log(Level::warning, "store: {}", text);
      case RedisOptions::Level::error:
        return log(Level::error, "store: {}", text);
    }
  };
  return options;
}

std::function<std::unique_ptr<net::Companion>()> companion_for(Fleet* fleet, Engine& engine) {
  if (fleet == nullptr) return {};
  return [fleet, &engine] { return std::make_unique<LinkCompanion>(*fleet, engine); };
}

// Whether it is there before anybody is let in. If not, callers are served without it.
void try_once(RedisFleet& fleet, Nanos longest) {
  const auto until = std::chrono::steady_clock::now() + longest;
  const auto link = fleet.connect();
  while (!fleet.is_member() && std::chrono::steady_clock::now() < until) {
    link->wait(std::chrono::milliseconds{1});
  }
  if (fleet.counts().connected == 0) {
    log(Level::warning, "the store does not answer: policies go by on_store_failure until it does");
  }
}

// What the configuration says of Envoy's rules, or none if it says nothing.
Result<std::shared_ptr<const envoy::Rules>, Error> read_envoy_rules(const policy::Config& config) {
  if (config.envoy.path.empty()) return std::shared_ptr<const envoy::Rules>{};
  const envoy::Loaded loaded = envoy::load(
      config.envoy.path,
      {.merge_domains = config.envoy.merge_domains, .sharing = policy::sharing_of(config)});
  for (const envoy::FileReport& file : loaded.files) log_warnings(file.source, file.warnings);
  if (!loaded.warning.empty()) {
    log(Level::warning, "{}", config.render({config.envoy_path_at, loaded.warning}));
  }
  if (!loaded.error.empty()) return Error{config.render({config.envoy_path_at, loaded.error})};
  if (loaded.rules == nullptr) return Error{loaded.problems()};
  return loaded.rules;
}

envoy::ServiceOptions envoy_options(const policy::EnvoyRatelimit& envoy) {
  return {.as_envoyproxy = envoy.as_envoyproxy,
          .response_headers = envoy.response_headers,
          .header_names = envoy.header_names,
          .dynamic_metadata = envoy.dynamic_metadata,
          .shadow_mode = envoy.shadow_mode,
          .quota_mode = envoy.quota_mode,
          .on_store_failure = envoy.on_store_failure};
}

EnvoyService doors_to(envoy::Service& rules) {
  return {.should_rate_limit =
              [&rules](const envoy::Call& call, Link& link, EnvoyService::Done done) {
                rules.should_rate_limit(call, link, std::move(done));
              },
          .is_configured = [&rules] { return rules.is_configured(); }};
}

}  // namespace

struct Daemon::Impl {
  Impl(policy::Config the_config, std::unique_ptr<Certificates> the_certificates,
       std::unique_ptr<RedisFleet> the_fleet, std::unique_ptr<Metrics> the_metrics,
       Engine the_engine, std::unique_ptr<Policies> the_policies, const DaemonOptions& options)
      : config(std::move(the_config)),
        certificates(std::move(the_certificates)),
        fleet(std::move(the_fleet)),
        metrics(std::move(the_metrics)),
        engine(std::move(the_engine)),
        policies(std::move(the_policies)),
        envoy_rules(engine),
        threads(static_cast<std::size_t>(threads_for(options))),
        loops({.threads = threads_for(options),
               .most_connections = most_connections(threads_for(options), options.doubles),
               .connection_memory = config.connection_memory,
               .spin = std::chrono::microseconds{options.spin},
               .gather = std::chrono::microseconds{options.gather},
               .companion = companion_for(fleet.get(), engine)}) {}

  // (Sessions use everything here.)
  ~Impl() { loops.stop(std::chrono::milliseconds{0}); }

  std::optional<Error> bind(const std::optional<policy::Endpoint>& place, net::Door door,
                            net::TlsManners manners, std::optional<std::uint16_t>& at) {
    if (!place) return std::nullopt;
    if (certificates) {
      door = net::with_tls(std::move(door), certificates->current(), std::move(manners));
    }
    const auto port = loops.bind(place->host, place->port, std::move(door));
    if (!port) return port.error();
    at = *port;
    return std::nullopt;
  }

  std::optional<Error> bind_doors() {
    const policy::Listen& listen = config.listen;
    if (auto error = bind(listen.resp, resp_door(service),
                          tls_manners(service, {}, RespSession::kNotTls), ports.resp)) {
      return error;
    }
    if (auto error = bind(listen.http, http_door(service),
                          tls_manners(service, "h2 http/1.1", HttpSession::kNotTls), ports.http)) {
      return error;
    }
    return bind(listen.grpc, grpc_listener(service),
                tls_manners(service, "h2", GrpcSession::not_tls()), ports.grpc);
  }

  // Who has nothing of a limit for as long as there are so many nodes should know why.
  void note_small_limits() {
    std::set<std::string> small;
    if (fleet == nullptr || !fleet->is_member()) return;
    const std::uint32_t nodes = fleet->nodes();
    for (const SplitLimit& limit : engine.split_limits()) {
      if (limit.share.whole >= nodes) continue;
      const auto name = fmt::format("{}/{}", limit.policy, limit.name);
      small.insert(name);
      if (noted_small.contains(name)) continue;
      log(Level::warning,
          "{}: {} is {} in all, and there are {} nodes: some have nothing of it, and refuse; write "
          "scope: fleet, or a higher limit",
          in_quotes(limit.policy), in_quotes(limit.name), limit.share.whole, nodes);
    }
    noted_small = std::move(small);
  }

  // Each at most once in a while, however many it happens to.
  void note_closed_for_memory() {
    static Limiter lines{per(1, std::chrono::seconds{10})};
    const net::MemoryCounts now = loops.memory();
    if ((now.shed == noted_memory.shed && now.out_of_memory == noted_memory.out_of_memory) ||
        !lines.try_acquire()) {
      return;
    }
    log(Level::warning,
        "closed {} connections that held most of connection_memory ({} bytes), and {} for which "
        "there was no memory",
        now.shed - noted_memory.shed, now.limit, now.out_of_memory - noted_memory.out_of_memory);
    noted_memory = now;
  }

  void count_reload(bool succeeded) {
    ++(succeeded ? service.reloads.succeeded : service.reloads.failed);
    service.reloads.last_succeeded = succeeded;
  }

  policy::Config config;
  std::unique_ptr<Certificates> certificates;  // none: no TLS
  std::unique_ptr<RedisFleet> fleet;           // none: all limits count on this node
  std::unique_ptr<Metrics> metrics;
  Engine engine;
  std::unique_ptr<Policies> policies;
  envoy::Service envoy_rules;
  MemoryGauge memory;
  FreedMemory freed_memory;
  net::MemoryCounts noted_memory{};
  std::set<std::string> noted_small;
  const std::size_t threads;
  net::Loops loops;
  Worker worker;  // its jobs use what is above; sessions use it
  Service service{.engine = engine,
                  .policies = *policies,
                  .loops = loops,
                  .metrics = *metrics,
                  .memory = memory,
                  .access = {.password = config.password,
                             .admin_token = config.admin_token,
                             .host_names = host_names(config)},
                  .headers = config.headers,
                  .legacy_headers = config.legacy_headers,
                  .has_fleet = fleet != nullptr,
                  .redis = fleet.get(),
                  .worker = &worker,
                  .envoy = doors_to(envoy_rules),
                  .envoy_rules = &envoy_rules};
  Ports ports;
};

Daemon::Daemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>, Error> Daemon::open(policy::Config config,
                                                    const DaemonOptions& options) {
  const auto envoy_rules = read_envoy_rules(config);
  if (!envoy_rules) return envoy_rules.error();
  std::unique_ptr<Certificates> certificates;
  if (config.tls) {
    auto opened = Certificates::open(*config.tls);
    if (!opened) return opened.error();
    certificates = *std::move(opened);
  }
  std::unique_ptr<RedisFleet> fleet;
  if (policy::sharing_of(config) == policy::Sharing::fleet) {
    auto opened = RedisFleet::open(config.store, redis_options(config));
    if (!opened) return opened.error();
    fleet = *std::move(opened);
  }
  // Before the state file is touched, which may be that of a daemon that listens there.
  for (const auto& door : {config.listen.resp, config.listen.http, config.listen.grpc}) {
    if (!door) continue;
    if (auto wrong = net::Loops::cannot_bind(door->host, door->port)) return *std::move(wrong);
  }
  auto policies = std::make_unique<Policies>(config.state, policy::sharing_of(config));
  if (auto error = policies->restore()) return *std::move(error);
  policies->use_file(config.policies);
  auto metrics =
      std::make_unique<Metrics>(MetricsOptions{.on = options.metrics, .top = options.top});
  auto engine = Engine::open(policies->merged(),
                             {.memory = {.bytes = config.memory, .state_file = config.state},
                              .sink = options.metrics ? metrics.get() : nullptr,
                              .fleet = fleet.get()});
  if (!engine) return engine.error();

  auto impl =
      std::make_unique<Impl>(std::move(config), std::move(certificates), std::move(fleet),
                             std::move(metrics), *std::move(engine), std::move(policies), options);
  if (*envoy_rules != nullptr) {
    impl->envoy_rules.use(*envoy_rules, envoy_options(impl->config.envoy));
  }
  if (auto error = impl->bind_doors()) return *std::move(error);
  return std::unique_ptr<Daemon>(new Daemon(std::move(impl)));
}

Daemon::Ports Daemon::ports() const { return impl_->ports; }

Daemon::Inside Daemon::inside() { return {impl_->engine, impl_->loops, impl_->threads}; }

policy::PolicySet Daemon::policies_in_force() const { return impl_->policies->in_force(); }

void Daemon::add_metrics(std::function<void(wire::Exposition&)> metrics) {
  impl_->service.more_metrics = std::move(metrics);
}

void Daemon::note_tls_failure(const net::Peer& peer, std::string_view why) {
  server::note_tls_failure(impl_->service, peer, why);
}

void Daemon::start() {
  if (impl_->config.state.empty()) {
    log(Level::info,
        "no state file: a restart forgets what was used (write `state: FILE` to keep it)");
  } else {
    log(impl_->engine.opened_well() ? Level::info : Level::warning, "{}",
        impl_->engine.opening_note());
  }
  look_around();
  if (impl_->fleet) try_once(*impl_->fleet, impl_->config.store_timeout);
  impl_->loops.start();
}

Result<std::vector<std::string>, Error> Daemon::reload(policy::Config config) {
  const auto envoy_rules = read_envoy_rules(config);
  if (!envoy_rules) {
    impl_->envoy_rules.note_failed_load();
    impl_->count_reload(false);
    return envoy_rules.error();
  }
  std::vector<std::string> unchanged;
  const policy::Config& now = impl_->config;
  if (config.listen != now.listen) unchanged.emplace_back("listen");
  if (config.store != now.store) unchanged.emplace_back("store");
  if (config.store_timeout != now.store_timeout) unchanged.emplace_back("store_timeout");
  if (config.memory != now.memory) unchanged.emplace_back("memory");
  if (config.connection_memory != now.connection_memory) {
    unchanged.emplace_back("connection_memory");
  }
  if (config.state != now.state) unchanged.emplace_back("state");
  if (config.password != now.password) unchanged.emplace_back("password");
  if (config.admin_token != now.admin_token) unchanged.emplace_back("admin_token");
  if (config.server_names != now.server_names) unchanged.emplace_back("server_names");
  if (config.headers != now.headers || config.legacy_headers != now.legacy_headers) {
    unchanged.emplace_back("headers");
  }
  if (config.tls.has_value() != now.tls.has_value()) unchanged.emplace_back("tls");
  impl_->policies->use_file(std::move(config.policies), &impl_->engine);
  impl_->envoy_rules.use(*envoy_rules, envoy_options(config.envoy));
  impl_->count_reload(true);
  if (config.tls && impl_->certificates && !impl_->certificates->use(*config.tls)) {
    impl_->count_reload(false);
  }
  return unchanged;
}

void Daemon::run_blocking(std::function<void()> job) { impl_->worker.run(std::move(job)); }

void Daemon::note_failed_reload() { impl_->count_reload(false); }

void Daemon::look_around() {
  impl_->freed_memory.look(impl_->loops);
  impl_->note_closed_for_memory();
  impl_->memory.look(impl_->engine);
  impl_->note_small_limits();
  for (const GivenOrder& given : impl_->policies->ended_orders(impl_->engine)) {
    log(Level::info, "order {} has ended: {}", given.id, to_text(given));
  }
  if (!impl_->certificates) return;
  if (const auto used = impl_->certificates->look()) impl_->count_reload(*used);
}

bool Daemon::all_came_around() { return impl_->loops.all_came_around(); }

std::uint64_t Daemon::generation() const { return impl_->engine.generation(); }

void Daemon::announce_end() { impl_->service.ending = true; }

void Daemon::stop(std::chrono::milliseconds grace) {
  announce_end();
  impl_->loops.stop(grace);
}

}  // namespace weir::server
