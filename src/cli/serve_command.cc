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
#include "envoy/load.h"
#include "gateway/config_yaml.h"
#include "gateway/gateway.h"
#include "policy/config.h"
#include "policy/limit_text.h"
#include "server/certificates.h"
#include "server/daemon.h"
#include "server/file_stamp.h"
#include "server/links.h"
#include "server/log.h"
#include "server/notify.h"
#include "weir/limiter.h"
#include "weir/quota.h"

namespace weir::cli {

namespace {

using server::FileStamp;
using server::Level;
using server::log;

// How often the policy file is looked at.
constexpr Nanos kLook = std::chrono::milliseconds{500};
constexpr Nanos kLeastPause = std::chrono::milliseconds{1};
// How often it is asked whether that has ended.
constexpr Nanos kWhileBusy = std::chrono::milliseconds{5};
constexpr std::chrono::milliseconds kGrace{4'000};
// Services behind a gateway may take longer than a decision does.
constexpr std::chrono::milliseconds kProxyGrace{25'000};

struct ServeOptions {
  std::string config;
  server::DaemonOptions daemon{};
  server::LogFormat log = server::LogFormat::text;
  std::string drain = "0s";
  Nanos drains_for{0};
};

// The configuration of a file, or all that is wrong with it. Warnings go to the log.
Result<gateway::WholeFile, Error> load(const std::string& path) {
  if (path.empty()) return gateway::WholeFile{};
  const auto source = policy::Source::read(path);
  if (!source) return Error{source.error()};
  policy::Problems problems;
  policy::Problems warnings;
  gateway::WholeFile file = gateway::read_config(*source, problems, warnings);
  server::log_warnings(*source, warnings);
  if (problems.empty()) return file;
  return Error{source->render_all(problems)};
}

// Where a door is, now that its port is known.
std::string place_of(const policy::Endpoint& door, std::uint16_t port) {
  return policy::to_text({door.host, port});
}

void log_change(const gateway::Upstream& server, bool up) {
  if (up) {
    log(Level::info, "gateway: upstream {} is up again", server.text);
  } else {
    log(Level::warning,
        "gateway: upstream {} is down: it fails requests or health checks, and gets fewer for now",
        server.text);
  }
}

// The reverse proxy of a file, if it has one, on the loops of its daemon.
class Proxy {
 public:
  static Result<std::unique_ptr<Proxy>, Error> open(const gateway::Config& config,
                                                    server::Daemon& daemon) {
    std::unique_ptr<Proxy> proxy(new Proxy);
    if (config.tls) {
      auto certificates = server::Certificates::open(*config.tls);
      if (!certificates) return certificates.error();
      proxy->certificates_ = *std::move(certificates);
    }
    const server::Daemon::Inside inside = daemon.inside();
    auto opened = gateway::Gateway::open(
        config, {.engine = inside.engine,
                 .loops = inside.loops,
                 .threads = inside.threads,
                 .link = [&]() -> Link& { return server::link_of_this_thread(); },
                 .policies = [&daemon] { return daemon.policies_in_force(); },
                 .tls = proxy->certificates_ ? &proxy->certificates_->current() : nullptr,
                 .no_tls = [&daemon](const net::Peer& peer,
                                     std::string_view why) { daemon.note_tls_failure(peer, why); },
                 .server_changed = log_change});
    if (!opened) return opened.error();
    proxy->gateway_ = *std::move(opened);
    daemon.add_metrics(
        [&gateway = *proxy->gateway_](wire::Exposition& to) { gateway.append_to(to); });
    log(Level::info, "gateway on {}://{}, with {} {}", config.tls ? "https" : "http",
        place_of(config.listen, proxy->gateway_->port()), config.routes.size(),
        config.routes.size() == 1 ? "route" : "routes");
    return proxy;
  }

  // What needs a restart to change. What is wrong is logged, and nothing changes then.
  std::vector<std::string> reload(gateway::Config config) {
    if (certificates_ && config.tls) certificates_->use(*config.tls);
    auto unchanged = gateway_->reload(std::move(config));
    if (unchanged) return *std::move(unchanged);
    log(Level::error, "the gateway's routes stay as they are: {}", unchanged.error().message);
    return {};
  }

  void look_around() {
    if (certificates_) certificates_->look();
    gateway_->look_around();
  }

 private:
  Proxy() = default;
  std::unique_ptr<server::Certificates> certificates_;  // none: no TLS
  std::unique_ptr<gateway::Gateway> gateway_;
};

std::string status_of(const server::Daemon& daemon) {
  return fmt::format("serving generation {}", daemon.generation());
}

// The files that a daemon goes by, as they are: the policy file, and those that it names.
class Watched {
 public:
  explicit Watched(std::string path) : path_(std::move(path)) {}

  // Those that it names now, as they are before they are read.
  void also(const policy::Config& config) {
    envoy_ = config.envoy.path;
    seen_.resize(1);
    add_envoy(seen_);
  }

  // Whether something is there that was not when it was last called.
  bool have_changed() {
    std::vector<FileStamp> seen{FileStamp::of(path_)};
    add_envoy(seen);
    // (A file that is gone is about to be replaced.)
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

// What became of reading the policy file again, in a line for supervisors.
std::string reload(server::Daemon& daemon, Proxy* proxy, const std::string& path,
                   Watched& watched) {
  if (path.empty()) {
    log(Level::info, "there is no policy file to read again");
    return "serving, without a policy file";
  }
  const auto not_used = [&](const Error& error) {
    log(Level::error, "{} is not used, the policies stay as they are:\n{}", path, error.message);
    return fmt::format("{}: {} has mistakes, see the log", status_of(daemon), path);
  };
  auto file = load(path);
  if (!file) {
    daemon.note_failed_reload();
    return not_used(file.error());
  }
  watched.also(file->config);
  auto unchanged = daemon.reload(std::move(file->config));
  if (!unchanged) return not_used(unchanged.error());
  if ((proxy != nullptr) != file->gateway.has_value()) {
    unchanged->emplace_back("gateway");
  } else if (proxy != nullptr) {
    const auto more = proxy->reload(*std::move(file->gateway));
    unchanged->insert(unchanged->end(), more.begin(), more.end());
  }
  log(Level::info, "{} read again: generation {}", path, daemon.generation());
  if (!unchanged->empty()) {
    log(Level::warning, "needs a restart to change: {}", fmt::join(*unchanged, ", "));
  }
  return status_of(daemon);
}

// Says that the daemon lives, as often as the supervisor wants to hear it, and as long as every
// thread that serves does.
class Watchdog {
 public:
  explicit Watchdog(server::Notifier& notifier) : notifier_(notifier) {}

  void look(server::Daemon& daemon) {
    const auto patience = notifier_.patience();
    const auto now = Clock::now();
    if (!patience || now < next_ || !daemon.all_came_around()) return;
    notifier_.alive();
    next_ = now + *patience / 4;
  }

  // How long nobody needs to look, if there is so much time.
  timespec pause(Nanos left) const {
    const auto patience = notifier_.patience();
    const Nanos until_alive = patience ? std::max<Nanos>(*patience / 4, kLeastPause) : kLook;
    return {.tv_sec = 0, .tv_nsec = std::min({until_alive, kLook, left}).count()};
  }

 private:
  using Clock = std::chrono::steady_clock;
  server::Notifier& notifier_;
  Clock::time_point next_{};
};

using Moment = std::chrono::steady_clock::time_point;

// (What was to be done is done the next time; a policy file, when it changes again or on SIGHUP.)
void note_no_memory() noexcept {
  with_memory([] {
    static Limiter lines{per(1, std::chrono::seconds{10})};
    if (lines.try_acquire()) log(Level::error, "out of memory: maintenance or a reload is put off");
  });
}

// What is looked at and read again while the daemon serves. It may block: on a disk, or on looking
// a name up. So it is done on the daemon's thread for that, one thing at a time, and the thread of
// the watchdog goes on.
class Upkeep {
 public:
  Upkeep(server::Daemon& daemon, Proxy* proxy, std::string path, Watched& watched)
      : daemon_(daemon), proxy_(proxy), path_(std::move(path)), watched_(watched) {}
  ~Upkeep() { (void)wait(); }

  bool is_busy() const { return done_.valid(); }
  // Whether what was begun has ended.
  bool has_ended() const {
    return is_busy() && done_.wait_for(Nanos{0}) == std::future_status::ready;
  }

  // Looks at all there is. The result: whether there is something to read again.
  void look() {
    begin([this] {
      daemon_.look_around();
      if (proxy_ != nullptr) proxy_->look_around();
      return Seen{.has_changed = watched_.have_changed()};
    });
  }
  // Reads the policy file again. The result: what became of it.
  void read_again() {
    begin([this] { return Seen{.status = reload(daemon_, proxy_, path_, watched_)}; });
  }

  struct Seen {
    bool has_changed = false;
    std::string status{};  // empty: nothing was read
  };
  Seen wait() { return is_busy() ? done_.get() : Seen{}; }

 private:
  template <typename Work>
  void begin(Work work) {
    auto promise = std::make_shared<std::promise<Seen>>();
    daemon_.run_blocking([work, promise] {
      Seen seen;
      if (!with_memory([&] { seen = work(); })) note_no_memory();
      promise->set_value(std::move(seen));
    });
    done_ = promise->get_future();
  }

  server::Daemon& daemon_;
  Proxy* const proxy_;
  const std::string path_;
  Watched& watched_;
  std::future<Seen> done_;
};

// Until somebody wants it to end, or it is time to. The files were looked at before they were read:
// a change while the daemon started is one.
void watch(server::Daemon& daemon, Proxy* proxy, server::Notifier& notifier,
           const std::string& path, Watched& watched, const sigset_t& signals,
           Moment end = Moment::max()) {
  Watchdog watchdog(notifier);
  Upkeep upkeep(daemon, proxy, path, watched);
  bool to_read = false;  // the policy file again
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return;
    const timespec pause = watchdog.pause(upkeep.is_busy() ? kWhileBusy : end - now);
    const int signal = sigtimedwait(&signals, nullptr, &pause);
    if (signal == SIGTERM || signal == SIGINT) return;
    to_read |= signal == SIGHUP;
    const bool done = with_memory([&] {
      watchdog.look(daemon);
      if (upkeep.is_busy() && !upkeep.has_ended()) return;
      const bool is_due = !upkeep.is_busy();
      const Upkeep::Seen seen = upkeep.wait();
      if (!seen.status.empty()) notifier.ready(seen.status);
      if (std::exchange(to_read, false) || seen.has_changed) {
        notifier.reloading();
        upkeep.read_again();
      } else if (is_due) {
        upkeep.look();
      }
    });
    if (!done) note_no_memory();
  }
}

void say_where(const server::Daemon::Ports& ports, const policy::Config& config) {
  const policy::Listen& listen = config.listen;
  if (ports.resp) {
    log(Level::info, "RESP on {}{}", config.tls ? "rediss://" : "",
        place_of(*listen.resp, *ports.resp));
  }
  if (ports.http) {
    log(Level::info, "HTTP on {}://{}", config.tls ? "https" : "http",
        place_of(*listen.http, *ports.http));
  }
  if (ports.grpc) {
    log(Level::info, "gRPC on {}{}", config.tls ? "https://" : "",
        place_of(*listen.grpc, *ports.grpc));
  }
}

int serve(const ServeOptions& options) {
  // Blocked here, before there are threads: only `watch` hears of them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  server::use_log_format(options.log);

  // (What came by a pipe cannot be read again.)
  std::error_code not_there;
  const std::string again =
      std::filesystem::is_regular_file(options.config, not_there) ? options.config : std::string{};
  Watched watched(again);
  (void)watched.have_changed();
  const auto cannot = [](const Error& error) {
    // (What has a place, and lines of its own, says where it comes from.)
    const bool has_place = error.message.ends_with('\n');
    std::cerr << (has_place ? error.message : fmt::format("weir: {}\n", error.message));
    return kFailed;
  };
  const auto file = load(options.config);
  if (!file) return cannot(file.error());
  const policy::Config& config = file->config;
  watched.also(config);
  server::DaemonOptions daemon_options = options.daemon;
  daemon_options.doubles = file->gateway.has_value();
  // (Declared before the daemon, whose threads use it until they end.)
  std::unique_ptr<Proxy> proxy;
  auto daemon = server::Daemon::open(config, daemon_options);
  if (!daemon) return cannot(daemon.error());
  say_where((*daemon)->ports(), config);
  if (file->gateway) {
    auto opened = Proxy::open(*file->gateway, **daemon);
    if (!opened) return cannot(opened.error());
    proxy = *std::move(opened);
  }
  const policy::Listen& listen = config.listen;
  if (!listen.resp && !listen.http && !listen.grpc && !file->gateway) {
    log(Level::warning, "nobody can ask: resp, http and grpc are off under listen:");
  }
  auto notifier = server::Notifier::from_environment();
  (*daemon)->start();
  const std::size_t count = config.policies.size();
  log(Level::info, "ready, with {} {}", count, count == 1 ? "policy" : "policies");
  notifier.ready(status_of(**daemon));
  watch(**daemon, proxy.get(), notifier, again, watched, signals);
  notifier.stopping();
  if (options.drains_for > Nanos{0}) {
    log(Level::info, "ending in {}, or at once if told again", options.drain);
    (*daemon)->announce_end();
    watch(**daemon, proxy.get(), notifier, again, watched, signals,
          std::chrono::steady_clock::now() + options.drains_for);
  }
  log(Level::info, "ending");
  (*daemon)->stop(proxy ? kProxyGrace : kGrace);
  return kSuccess;
}

// What is wrong with it, if something is.
std::string read_drain(const std::string& text, Nanos& time) {
  constexpr std::chrono::minutes longest{10};
  const auto parsed = policy::parse_span(text);
  if (!parsed) return parsed.error().message;
  if (*parsed > longest) return "at most 10min";
  time = *parsed;
  return {};
}

// (CLI11's own names the numbers behind the words.)
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
  CLI::App* command = app.add_subcommand("serve", "Decide for others: RESP, HTTP and gRPC");
  command->add_option("--config", options->config, "The policy file; read again when it changes")
      ->type_name("FILE");
  command->add_option("--threads", options->daemon.threads, "Default: one for each processor")
      ->check(CLI::Range(1, 1024));
  CLI::Option* spin =
      command
          ->add_option(
              "--spin", options->daemon.spin,
              "Microseconds to look for more work before sleeping, at the cost of processor "
              "time. Default: 0")
          ->check(CLI::Range(0, 1000));
  command
      ->add_option(
          "--gather", options->daemon.gather,
          "Microseconds to let requests come before they are read together, at the cost of "
          "that much latency. Default: 0")
      ->check(CLI::Range(0, 1000))
      ->excludes(spin);
  command
      ->add_option_function<std::string>(
          "--log",
          [options](const std::string& word) {
            options->log = word == "json" ? server::LogFormat::json : server::LogFormat::text;
          },
          "How to write the log: text (the default) or json")
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
             "Count decisions and their time, for /metrics: on (the default) or off");
  add_switch("--top", options->daemon.top,
             "Count which keys are asked for most, for weir top: on (the default) or off");
  command
      ->add_option("--drain", options->drain,
                   "How long to go on serving when told to end, while /readyz and the health of "
                   "gRPC say that it will. Default: 0s")
      ->check([options](const std::string& text) { return read_drain(text, options->drains_for); })
      ->type_name("TIME");
  command->callback([options, &exit_code] { exit_code = serve(*options); });
}

}  // namespace weir::cli
