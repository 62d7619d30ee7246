#include "server/daemon.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include "envoy/read_rules.h"
#include "net/loops.h"
#include "net/tls.h"
#include "server/browser_guard.h"
#include "server/certificates.h"
#include "server/format.h"
#include "server/grpc_session.h"
#include "server/heap_trimmer.h"
#include "server/http_session.h"
#include "server/log.h"
#include "server/policies.h"
#include "server/resp_session.h"
#include "server/server_context.h"
#include "server/thread_link.h"
#include "weir/limiter.h"
#include "weir/quota.h"

namespace weir::server {

namespace {

// The names that Host may have, against DNS rebinding. None: any name. A password or TLS is enough:
// a hostile page in a browser has neither the password nor a certificate of its name for weir.
std::optional<std::vector<std::string>> host_names(const policy::DaemonConfig& config) {
  if (!config.password.empty() || config.tls) return std::nullopt;
  std::vector<std::string> names = config.server_names;
  if (config.listen.http) names.push_back(config.listen.http->host);
  if (std::string own = own_host_name(); !own.empty()) names.push_back(std::move(own));
  return names;
}

// Raises the limit of open files (RLIMIT_NOFILE), and returns how many connections it leaves room
// for: each thread also needs descriptors for its listeners, a timer and epoll.
std::size_t connection_limit(int threads, bool has_gateway) {
  const std::size_t own = 64 + 8 * static_cast<std::size_t>(threads);
  const std::size_t wanted = has_gateway ? 40'000 : 20'000;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, wanted + own);
  setrlimit(RLIMIT_NOFILE, &files);
  const std::size_t available = std::max<std::size_t>(files.rlim_cur, own + 2) - own;
  return has_gateway ? available / 2 : available;
}

int threads_for(const DaemonOptions& options) {
  if (options.threads > 0) return options.threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

net::ListenerOptions resp_listener(ServerContext& context) {
  return {.make_protocol =
              [&context](const net::Peer& peer) {
                return std::make_unique<RespSession>(context, peer);
              },
          .over_limit_reply = "-ERR max number of clients reached\r\n",
          .max_input = wire::RespLimits::kCommandBytes};
}

net::ListenerOptions http_listener(ServerContext& context) {
  return {.make_protocol =
              [&context](const net::Peer& peer) {
                return std::make_unique<HttpSession>(context, peer);
              },
          .over_limit_reply = std::string{HttpSession::kOverloaded},
          .max_input = HttpSession::kMaxInput,
          .idle_seconds = 75,
          .message_seconds = 20};
}

// Without `idle_seconds`: gRPC clients keep an idle connection open.
net::ListenerOptions grpc_listener(ServerContext& context) {
  return {.make_protocol =
              [&context](const net::Peer&) { return std::make_unique<GrpcSession>(context); },
          .over_limit_reply = GrpcSession::overloaded(),
          .max_input = GrpcSession::kMaxInput,
          .message_seconds = 20};
}

// Rate limited: any client can fail a handshake as often as it likes, and must not flood the log.
void note_tls_failure(ServerContext& context, const net::Peer& peer, std::string_view why) {
  static Limiter lines{per_second(1).burst(10)};
  ++context.tls_failures;
  if (lines.try_acquire()) log(LogLevel::warning, "TLS with {} failed: {}", peer.address, why);
}

// `tls_only` is sent in the clear, to clients that do not speak TLS.
net::TlsOptions tls_options(ServerContext& context, std::string_view alpn,
                            std::string_view tls_only) {
  return {.alpn = std::string{alpn},
          .not_tls = std::string{tls_only},
          .refused = [&context](const net::Peer& peer, std::string_view why) {
            note_tls_failure(context, peer, why);
          }};
}

// Rate limited: a store that fails may log the same line for every call.
RedisOptions redis_options(const policy::DaemonConfig& config) {
  RedisOptions options{.timeout = config.store_timeout};
  options.log = [](RedisOptions::Level level, std::string_view text) {
    static Limiter lines{per_second(1).burst(20)};
    if (!lines.try_acquire()) return;
    switch (level) {
      case RedisOptions::Level::info:
        return log(LogLevel::info, "store: {}", text);
      case RedisOptions::Level::warning:
        return log(LogLevel::warning, "store: {}", text);
      case RedisOptions::Level::error:
        return log(LogLevel::error, "store: {}", text);
    }
  };
  return options;
}

std::function<std::unique_ptr<net::LoopService>()> link_maker(Fleet* fleet, Engine& engine) {
  if (fleet == nullptr) return {};
  return [fleet, &engine] { return std::make_unique<ThreadLink>(*fleet, engine); };
}

// Waits until the store answers, at most `timeout`. Without an answer the daemon starts all the
// same, and logs that.
void wait_for_store(RedisFleet& fleet, Nanos timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  const auto link = fleet.connect();
  while (!fleet.is_member() && std::chrono::steady_clock::now() < until) {
    link->wait(std::chrono::milliseconds{1});
  }
  if (fleet.counts().connected == 0) {
    log(LogLevel::warning,
        "the store does not answer: policies follow on_store_failure until it does");
  }
}

// The Envoy rules that the configuration names; null if it names none.
Result<std::shared_ptr<const envoy::RuleSet>, Error> read_envoy_rules(
    const policy::DaemonConfig& config) {
  if (config.envoy.path.empty()) return std::shared_ptr<const envoy::RuleSet>{};
  const envoy::ReadRulesResult loaded = envoy::read_rules(
      config.envoy.path,
      {.merge_domains = config.envoy.merge_domains, .sharing = policy::sharing_of(config)});
  for (const envoy::FileReport& file : loaded.files) log_warnings(file.source, file.warnings);
  if (!loaded.warning.empty()) {
    log(LogLevel::warning, "{}", config.render({config.envoy_path_at, loaded.warning}));
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

EnvoyService envoy_service_of(envoy::RateLimitService& rules) {
  return {
      .should_rate_limit =
          [&rules](const envoy::RateLimitRequest& call, Link& link, EnvoyService::Callback done) {
            rules.should_rate_limit(call, link, std::move(done));
          },
      .is_configured = [&rules] { return rules.is_configured(); }};
}

}  // namespace

struct Daemon::Impl {
  Impl(policy::DaemonConfig the_config, std::unique_ptr<Certificates> the_certificates,
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
               .max_connections = connection_limit(threads_for(options), options.has_gateway),
               .connection_memory = config.connection_memory,
               .spin = std::chrono::microseconds{options.spin},
               .gather = std::chrono::microseconds{options.gather},
               .make_service = link_maker(fleet.get(), engine)}) {}

  // Stops the loops first: sessions use the other members.
  ~Impl() { loops.stop(std::chrono::milliseconds{0}); }

  std::optional<Error> bind(const std::optional<policy::Endpoint>& endpoint,
                            net::ListenerOptions listener, net::TlsOptions tls,
                            std::optional<std::uint16_t>& bound_port) {
    if (!endpoint) return std::nullopt;
    if (certificates) {
      listener = net::with_tls(std::move(listener), certificates->current(), std::move(tls));
    }
    const auto port = loops.bind(endpoint->host, endpoint->port, std::move(listener));
    if (!port) return port.error();
    bound_port = *port;
    return std::nullopt;
  }

  std::optional<Error> bind_listeners() {
    const policy::ListenAddresses& listen = config.listen;
    if (auto error = bind(listen.resp, resp_listener(context),
                          tls_options(context, {}, RespSession::kTlsOnly), ports.resp)) {
      return error;
    }
    if (auto error = bind(listen.http, http_listener(context),
                          tls_options(context, "h2 http/1.1", HttpSession::kTlsOnly), ports.http)) {
      return error;
    }
    return bind(listen.grpc, grpc_listener(context),
                tls_options(context, "h2", GrpcSession::tls_only()), ports.grpc);
  }

  // Warns once of each split limit with fewer permits than nodes: some nodes have no share of it.
  void warn_about_small_splits() {
    std::set<std::string> small;
    if (fleet == nullptr || !fleet->is_member()) return;
    const std::uint32_t nodes = fleet->nodes();
    for (const SplitLimit& limit : engine.split_limits()) {
      if (limit.share.whole >= nodes) continue;
      const auto name = fmt::format("{}/{}", limit.policy, limit.name);
      small.insert(name);
      if (warned_splits.contains(name)) continue;
      log(LogLevel::warning,
          "{}: the split limit {} has {} permits for {} nodes: some nodes have none and refuse; "
          "write scope: fleet, or a higher limit",
          in_quotes(limit.policy), in_quotes(limit.name), limit.share.whole, nodes);
    }
    warned_splits = std::move(small);
  }

  // Logs connections that were closed to free memory, at most once in ten seconds.
  void log_closed_for_memory() {
    static Limiter lines{per(1, std::chrono::seconds{10})};
    const net::MemoryCounts now = loops.memory();
    if ((now.shed == logged_memory.shed && now.out_of_memory == logged_memory.out_of_memory) ||
        !lines.try_acquire()) {
      return;
    }
    log(LogLevel::warning,
        "closed {} connections because connection_memory ({} bytes) was exceeded, the largest ones "
        "first, and {} because an allocation had failed",
        now.shed - logged_memory.shed, now.limit, now.out_of_memory - logged_memory.out_of_memory);
    logged_memory = now;
  }

  void count_reload(bool succeeded) {
    ++(succeeded ? context.reloads.succeeded : context.reloads.failed);
    context.reloads.last_succeeded = succeeded;
  }

  policy::DaemonConfig config;
  std::unique_ptr<Certificates> certificates;  // none: no TLS
  std::unique_ptr<RedisFleet> fleet;           // none: all limits are of this node
  std::unique_ptr<Metrics> metrics;
  Engine engine;
  std::unique_ptr<Policies> policies;
  envoy::RateLimitService envoy_rules;
  MemoryGauge memory;
  HeapTrimmer heap_trimmer;
  net::MemoryCounts logged_memory{};
  std::set<std::string> warned_splits;
  const std::size_t threads;
  net::Loops loops;
  JobThread job_thread;  // its jobs use the members above; sessions use it
  ServerContext context{.engine = engine,
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
                        .job_thread = &job_thread,
                        .envoy = envoy_service_of(envoy_rules),
                        .envoy_rules = &envoy_rules};
  Ports ports;
};

Daemon::Daemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>, Error> Daemon::open(policy::DaemonConfig config,
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
  // Before the state file is touched: a daemon that holds the port may be using the file.
  for (const auto& endpoint : {config.listen.resp, config.listen.http, config.listen.grpc}) {
    if (!endpoint) continue;
    if (auto error = net::Loops::cannot_bind(endpoint->host, endpoint->port)) {
      return *std::move(error);
    }
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
  if (auto error = impl->bind_listeners()) return *std::move(error);
  return std::unique_ptr<Daemon>(new Daemon(std::move(impl)));
}

Daemon::Ports Daemon::ports() const { return impl_->ports; }

Daemon::Internals Daemon::internals() { return {impl_->engine, impl_->loops, impl_->threads}; }

policy::PolicySet Daemon::policies_in_force() const { return impl_->policies->in_force(); }

void Daemon::add_metrics(std::function<void(wire::Exposition&)> metrics) {
  impl_->context.extra_metrics = std::move(metrics);
}

void Daemon::note_tls_failure(const net::Peer& peer, std::string_view why) {
  server::note_tls_failure(impl_->context, peer, why);
}

void Daemon::start() {
  if (impl_->config.state.empty()) {
    log(LogLevel::info,
        "no state file: a restart forgets what was used (write `state: FILE` to keep it)");
  } else {
    log(impl_->engine.state_intact() ? LogLevel::info : LogLevel::warning, "{}",
        impl_->engine.opening_note());
  }
  run_maintenance();
  if (impl_->fleet) wait_for_store(*impl_->fleet, impl_->config.store_timeout);
  impl_->loops.start();
}

Result<std::vector<std::string>, Error> Daemon::reload(policy::DaemonConfig config) {
  const auto envoy_rules = read_envoy_rules(config);
  if (!envoy_rules) {
    impl_->envoy_rules.note_failed_reload();
    impl_->count_reload(false);
    return envoy_rules.error();
  }
  std::vector<std::string> unchanged;
  const policy::DaemonConfig& now = impl_->config;
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

void Daemon::run_blocking(std::function<void()> job) { impl_->job_thread.run(std::move(job)); }

void Daemon::note_failed_reload() { impl_->count_reload(false); }

void Daemon::run_maintenance() {
  impl_->heap_trimmer.trim_if_worthwhile(impl_->loops);
  impl_->log_closed_for_memory();
  impl_->memory.refresh(impl_->engine);
  impl_->warn_about_small_splits();
  for (const GivenOrder& given : impl_->policies->ended_orders(impl_->engine)) {
    log(LogLevel::info, "order {} has ended: {}", given.id, to_text(given));
  }
  if (!impl_->certificates) return;
  if (const auto loaded = impl_->certificates->reload_if_changed()) impl_->count_reload(*loaded);
}

bool Daemon::all_loops_progressed() { return impl_->loops.all_loops_progressed(); }

std::uint64_t Daemon::generation() const { return impl_->engine.generation(); }

void Daemon::report_not_ready() { impl_->context.is_draining = true; }

void Daemon::stop(std::chrono::milliseconds grace) {
  report_not_ready();
  impl_->loops.stop(grace);
}

}  // namespace weir::server
