#include <fmt/format.h>
#include <signal.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <iostream>
#include <map>
#include <optional>

#include "base/out_of_memory.h"
#include "cli/commands.h"
#include "envoy/read_rules.h"
#include "gateway/config_yaml.h"
#include "gateway/gateway.h"
#include "policy/config.h"
#include "policy/limit_text.h"
#include "server/certificates.h"
#include "server/daemon.h"
#include "server/file_stamp.h"
#include "server/log.h"
#include "server/notify.h"
#include "server/thread_link.h"
#include "weir/limiter.h"
#include "weir/quota.h"

namespace weir::cli {

namespace {

using server::FileStamp;
using server::log;
using server::LogLevel;

// Interval of the checks for changed files.
constexpr Nanos kCheckInterval = std::chrono::milliseconds{500};
constexpr Nanos kMinPause = std::chrono::milliseconds{1};
// Interval of the checks whether a maintenance job has ended.
constexpr Nanos kBusyInterval = std::chrono::milliseconds{5};
// Maximum time of the shutdown. Services behind a gateway may take longer than a decision does.
constexpr std::chrono::milliseconds kGrace{4'000};
constexpr std::chrono::milliseconds kProxyGrace{25'000};

struct ServeOptions {
  std::string config;
  server::DaemonOptions daemon{};
  server::LogFormat log = server::LogFormat::text;
  std::string drain = "0s";
  Nanos drain_time{0};
};

// Reads the configuration file; the error lists all its problems. Warnings go to the log.
Result<gateway::FullConfig, Error> load(const std::string& path) {
  if (path.empty()) return gateway::FullConfig{};
  const auto source = policy::Source::read(path);
  if (!source) return Error{source.error()};
  policy::Problems problems;
  policy::Problems warnings;
  gateway::FullConfig file = gateway::read_config(*source, problems, warnings);
  server::log_warnings(*source, warnings);
  if (problems.empty()) return file;
  return Error{source->render_all(problems)};
}

// The address of a listener, with the port that it got (the configured one may be 0).
std::string address_of(const policy::Endpoint& listener, std::uint16_t port) {
  return policy::to_text({listener.host, port});
}

void log_change(const gateway::Upstream& server, bool up) {
  if (up) {
    log(LogLevel::info, "gateway: upstream {} is up again", server.text);
  } else {
    log(LogLevel::warning,
        "gateway: upstream {} is down: requests or health checks fail; it gets fewer for now",
        server.text);
  }
}

// The reverse proxy of the `gateway` section. It runs on the event loops of the daemon, so the
// daemon must be stopped before the proxy is destroyed.
class Proxy {
 public:
  static Result<std::unique_ptr<Proxy>, Error> open(const gateway::GatewayConfig& config,
                                                    server::Daemon& daemon) {
    std::unique_ptr<Proxy> proxy(new Proxy);
    if (config.tls) {
      auto certificates = server::Certificates::open(*config.tls);
      if (!certificates) return certificates.error();
      proxy->certificates_ = *std::move(certificates);
    }
    const server::Daemon::Internals internals = daemon.internals();
    auto opened = gateway::Gateway::open(
        config,
        {.engine = internals.engine,
         .loops = internals.loops,
         .threads = internals.threads,
         .link = [&]() -> Link& { return server::link_of_this_thread(); },
         .policies = [&daemon] { return daemon.policies_in_force(); },
         .tls = proxy->certificates_ ? &proxy->certificates_->current() : nullptr,
         .on_tls_failure = [&daemon](const net::Peer& peer,
                                     std::string_view why) { daemon.note_tls_failure(peer, why); },
         .on_server_state = log_change});
    if (!opened) return opened.error();
    proxy->gateway_ = *std::move(opened);
    daemon.add_metrics(
        [&gateway = *proxy->gateway_](wire::Exposition& to) { gateway.append_to(to); });
    log(LogLevel::info, "gateway on {}://{}, with {} {}", config.tls ? "https" : "http",
        address_of(config.listen, proxy->gateway_->port()), config.routes.size(),
        config.routes.size() == 1 ? "route" : "routes");
    return proxy;
  }

  // Returns the settings that need a restart to change. After an error, which is logged, the routes
  // stay as they were.
  std::vector<std::string> reload(gateway::GatewayConfig config) {
    if (certificates_ && config.tls) certificates_->use(*config.tls);
    auto unchanged = gateway_->reload(std::move(config));
    if (unchanged) return *std::move(unchanged);
    log(LogLevel::error, "the gateway's routes stay as they are: {}", unchanged.error().message);
    return {};
  }

  // Runs the periodic work of certificates and gateway. May block.
  void on_tick() {
    if (certificates_) certificates_->reload_if_changed();
    gateway_->on_tick();
  }

 private:
  Proxy() = default;
  std::unique_ptr<server::Certificates> certificates_;  // none: no TLS
  std::unique_ptr<gateway::Gateway> gateway_;
};

std::string status_of(const server::Daemon& daemon) {
  return fmt::format("serving generation {}", daemon.generation());
}

// Detects changes of the policy file and of the files that it names.
class WatchedFiles {
 public:
  explicit WatchedFiles(std::string path) : path_(std::move(path)) {}

  // Sets the files that the policy file names. Call it before they are read, so that a change
  // during reading is noticed.
  void set_named_files(const policy::DaemonConfig& config) {
    envoy_ = config.envoy.path;
    seen_.resize(1);
    add_envoy(seen_);
  }

  // True if a file has changed since the last call.
  bool check_changed() {
    std::vector<FileStamp> seen{FileStamp::of(path_)};
    add_envoy(seen);
    // A missing file is about to be replaced: wait until it exists again.
    const bool whole = std::ranges::all_of(seen, &FileStamp::exists);
    const bool changed = whole && seen != seen_;
    if (changed) seen_ = std::move(seen);
    return changed;
  }

 private:
  void add_envoy(std::vector<FileStamp>& stamps) const {
    if (envoy_.empty()) return;
    const auto files = envoy::files_of(envoy_);
    if (!files) return;
    for (const std::string& file : *files) stamps.push_back(FileStamp::of(file));
  }

  const std::string path_;
  std::string envoy_;  // a file or a directory
  std::vector<FileStamp> seen_;
};

// Reloads the policy file. Returns the result as a status line for the supervisor (systemd).
std::string reload(server::Daemon& daemon, Proxy* proxy, const std::string& path,
                   WatchedFiles& watched) {
  if (path.empty()) {
    log(LogLevel::info, "reload requested, but there is no policy file to read again");
    return "serving, without a policy file";
  }
  const auto not_used = [&](const Error& error) {
    log(LogLevel::error, "{} is not used, the policies stay as they are:\n{}", path, error.message);
    return fmt::format("{}: {} has mistakes, see the log", status_of(daemon), path);
  };
  auto file = load(path);
  if (!file) {
    daemon.note_failed_reload();
    return not_used(file.error());
  }
  watched.set_named_files(file->config);
  auto unchanged = daemon.reload(std::move(file->config));
  if (!unchanged) return not_used(unchanged.error());
  if ((proxy != nullptr) != file->gateway.has_value()) {
    unchanged->emplace_back("gateway");
  } else if (proxy != nullptr) {
    const auto more = proxy->reload(*std::move(file->gateway));
    unchanged->insert(unchanged->end(), more.begin(), more.end());
  }
  log(LogLevel::info, "{} read again: generation {}", path, daemon.generation());
  if (!unchanged->empty()) {
    log(LogLevel::warning, "needs a restart to change: {}", fmt::join(*unchanged, ", "));
  }
  return status_of(daemon);
}

// Sends the watchdog notification of systemd at a quarter of its period, as long as every serving
// thread completes iterations of its event loop.
class Watchdog {
 public:
  explicit Watchdog(server::Notifier& notifier) : notifier_(notifier) {}

  void look(server::Daemon& daemon) {
    const auto patience = notifier_.watchdog_interval();
    const auto now = std::chrono::steady_clock::now();
    if (!patience || now < next_ || !daemon.all_loops_progressed()) return;
    notifier_.ping_watchdog();
    next_ = now + *patience / 4;
  }

  // How long to sleep until the next check is due; at most `left`.
  timespec pause(Nanos left) const {
    const auto patience = notifier_.watchdog_interval();
    const Nanos until_alive = patience ? std::max<Nanos>(*patience / 4, kMinPause) : kCheckInterval;
    return {.tv_sec = 0, .tv_nsec = std::min({until_alive, kCheckInterval, left}).count()};
  }

 private:
  server::Notifier& notifier_;
  std::chrono::steady_clock::time_point next_{};
};

// The postponed job runs at the next interval; a reload, at the next change of the file or SIGHUP.
void note_no_memory() noexcept {
  catch_bad_alloc([] {
    static Limiter lines{per(1, std::chrono::seconds{10})};
    if (lines.try_acquire())
      log(LogLevel::error, "out of memory: maintenance or a reload is postponed");
  });
}

// Runs maintenance and reloads while the daemon serves. They may block on a disk or on a DNS
// lookup, so they run on the daemon's thread for blocking work, one job at a time, while the thread
// of the watchdog continues. Its methods are for the watchdog's thread only.
class BackgroundMaintenance {
 public:
  BackgroundMaintenance(server::Daemon& daemon, Proxy* proxy, std::string path,
                        WatchedFiles& watched)
      : daemon_(daemon), proxy_(proxy), path_(std::move(path)), watched_(watched) {}
  ~BackgroundMaintenance() { (void)wait(); }

  bool is_busy() const { return done_.valid(); }
  // True if the job has ended, and `wait` will not block.
  bool has_ended() const {
    return is_busy() && done_.wait_for(Nanos{0}) == std::future_status::ready;
  }

  // Starts the regular maintenance. Its result: whether a file has changed.
  void look() {
    begin([this] {
      daemon_.run_maintenance();
      if (proxy_ != nullptr) proxy_->on_tick();
      return MaintenanceResult{.has_changed = watched_.check_changed()};
    });
  }
  // Starts a reload of the policy file. Its result: the status line.
  void read_again() {
    begin([this] { return MaintenanceResult{.status = reload(daemon_, proxy_, path_, watched_)}; });
  }

  struct MaintenanceResult {
    bool has_changed = false;
    std::string status{};  // empty: there was no reload
  };
  // Blocks until the job has ended.
  MaintenanceResult wait() { return is_busy() ? done_.get() : MaintenanceResult{}; }

 private:
  template <typename Work>
  void begin(Work work) {
    auto promise = std::make_shared<std::promise<MaintenanceResult>>();
    daemon_.run_blocking([work, promise] {
      MaintenanceResult result;
      if (!catch_bad_alloc([&] { result = work(); })) note_no_memory();
      promise->set_value(std::move(result));
    });
    done_ = promise->get_future();
  }

  server::Daemon& daemon_;
  Proxy* const proxy_;
  const std::string path_;
  WatchedFiles& watched_;
  std::future<MaintenanceResult> done_;
};

// The loop of the main thread: watchdog, maintenance, reloads. Returns on SIGTERM, on SIGINT, or at
// `end`. `watched` holds the state of the files from before they were read, so a change during the
// start is noticed, too.
void watch(
    server::Daemon& daemon, Proxy* proxy, server::Notifier& notifier, const std::string& path,
    WatchedFiles& watched, const sigset_t& signals,
    std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max()) {
  Watchdog watchdog(notifier);
  BackgroundMaintenance maintenance(daemon, proxy, path, watched);
  bool must_reload = false;
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return;
    const timespec pause = watchdog.pause(maintenance.is_busy() ? kBusyInterval : end - now);
    const int signal = sigtimedwait(&signals, nullptr, &pause);
    if (signal == SIGTERM || signal == SIGINT) return;
    must_reload |= signal == SIGHUP;
    const bool done = catch_bad_alloc([&] {
      watchdog.look(daemon);
      if (maintenance.is_busy() && !maintenance.has_ended()) return;
      const bool is_due = !maintenance.is_busy();
      const BackgroundMaintenance::MaintenanceResult result = maintenance.wait();
      if (!result.status.empty()) notifier.ready(result.status);
      if (std::exchange(must_reload, false) || result.has_changed) {
        notifier.reloading();
        maintenance.read_again();
      } else if (is_due) {
        maintenance.look();
      }
    });
    if (!done) note_no_memory();
  }
}

void log_listeners(const server::Daemon::Ports& ports, const policy::DaemonConfig& config) {
  const policy::ListenAddresses& listen = config.listen;
  if (ports.resp) {
    log(LogLevel::info, "RESP on {}{}", config.tls ? "rediss://" : "",
        address_of(*listen.resp, *ports.resp));
  }
  if (ports.http) {
    log(LogLevel::info, "HTTP on {}://{}", config.tls ? "https" : "http",
        address_of(*listen.http, *ports.http));
  }
  if (ports.grpc) {
    log(LogLevel::info, "gRPC on {}{}", config.tls ? "https://" : "",
        address_of(*listen.grpc, *ports.grpc));
  }
}

int serve(const ServeOptions& options) {
  // Blocked before any thread starts, so that all threads inherit the mask: only `watch` gets them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  server::use_log_format(options.log);

  // A policy file that is a pipe cannot be read again.
  std::error_code ignored;
  const std::string reload_path =
      std::filesystem::is_regular_file(options.config, ignored) ? options.config : std::string{};
  WatchedFiles watched(reload_path);
  (void)watched.check_changed();
  const auto cannot = [](const Error& error) {
    // An error with positions in a file names the file and ends each line itself.
    const bool has_place = error.message.ends_with('\n');
    std::cerr << (has_place ? error.message : fmt::format("weir: {}\n", error.message));
    return kFailed;
  };
  const auto file = load(options.config);
  if (!file) return cannot(file.error());
  const policy::DaemonConfig& config = file->config;
  watched.set_named_files(config);
  server::DaemonOptions daemon_options = options.daemon;
  daemon_options.has_gateway = file->gateway.has_value();
  // Declared before the daemon, so that it is destroyed after the daemon's threads have ended.
  std::unique_ptr<Proxy> proxy;
  auto daemon = server::Daemon::open(config, daemon_options);
  if (!daemon) return cannot(daemon.error());
  log_listeners((*daemon)->ports(), config);
  if (file->gateway) {
    auto opened = Proxy::open(*file->gateway, **daemon);
    if (!opened) return cannot(opened.error());
    proxy = *std::move(opened);
  }
  const policy::ListenAddresses& listen = config.listen;
  if (!listen.resp && !listen.http && !listen.grpc && !file->gateway) {
    log(LogLevel::warning, "no listener is enabled: resp, http and grpc are off under `listen`");
  }
  auto notifier = server::Notifier::from_environment();
  (*daemon)->start();
  const std::size_t count = config.policies.size();
  log(LogLevel::info, "ready, with {} {}", count, count == 1 ? "policy" : "policies");
  notifier.ready(status_of(**daemon));
  watch(**daemon, proxy.get(), notifier, reload_path, watched, signals);
  notifier.stopping();
  if (options.drain_time > Nanos{0}) {
    log(LogLevel::info, "draining for {} before ending; a second signal ends at once",
        options.drain);
    (*daemon)->report_not_ready();
    watch(**daemon, proxy.get(), notifier, reload_path, watched, signals,
          std::chrono::steady_clock::now() + options.drain_time);
  }
  log(LogLevel::info, "ending");
  (*daemon)->stop(proxy ? kProxyGrace : kGrace);
  return kSuccess;
}

// Returns an error text; empty if `text` is valid.
std::string read_drain(const std::string& text, Nanos& time) {
  constexpr std::chrono::minutes max_drain{10};
  const auto parsed = policy::parse_span(text);
  if (!parsed) return parsed.error().message;
  if (*parsed > max_drain) return "at most 10min";
  time = *parsed;
  return {};
}

// CLI11's own check for enumerations would show numbers beside the words.
CLI::Validator one_of(std::string first, std::string second) {
  const auto check = [=](const std::string& word) {
    if (word == first || word == second) return std::string{};
    return fmt::format("{} or {}, not \"{}\"", first, second, word);
  };
  return {check, ""};
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "Run the daemon: RESP, HTTP and gRPC");
  command->add_option("--config", options->config, "Policy file; reloaded when it changes")
      ->type_name("FILE");
  command
      ->add_option("--threads", options->daemon.threads,
                   "Number of serving threads. Default: one for each CPU")
      ->check(CLI::Range(1, 1024));
  CLI::Option* spin =
      command
          ->add_option(
              "--spin", options->daemon.spin,
              "Microseconds to poll for more work before sleeping; costs CPU time. Default: 0")
          ->check(CLI::Range(0, 1000));
  command
      ->add_option("--gather", options->daemon.gather,
                   "Microseconds to collect requests before they are read together; adds that much "
                   "latency. Default: 0")
      ->check(CLI::Range(0, 1000))
      ->excludes(spin);
  command
      ->add_option_function<std::string>(
          "--log",
          [options](const std::string& word) {
            options->log = word == "json" ? server::LogFormat::json : server::LogFormat::text;
          },
          "Log format: text (the default) or json")
      ->check(one_of("text", "json"))
      ->type_name("text|json");
  const auto add_switch = [command](const char* name, bool& on, const char* about) {
    command
        ->add_option_function<std::string>(
            name, [&on](const std::string& word) { on = word == "on"; }, about)
        ->check(one_of("on", "off"))
        ->type_name("on|off");
  };
  add_switch("--metrics", options->daemon.metrics,
             "Measure decisions for /metrics: on (the default) or off");
  add_switch("--top", options->daemon.top,
             "Count the most used keys for weir top: on (the default) or off");
  command
      ->add_option(
          "--drain", options->drain,
          "How long to keep serving after SIGTERM or SIGINT, while /readyz and gRPC health "
          "report that the daemon is ending. Default: 0s")
      ->check([options](const std::string& text) { return read_drain(text, options->drain_time); })
      ->type_name("TIME");
  command->callback([options, &exit_code] { exit_code = serve(*options); });
}

}  // namespace weir::cli
