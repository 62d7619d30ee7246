#include <fmt/format.h>
#include <signal.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>

#include "cli/commands.h"
#include "policy/config.h"
#include "server/daemon.h"
#include "server/file_stamp.h"
#include "server/log.h"
#include "server/notify.h"

namespace weir::cli {

namespace {

using server::FileStamp;
using server::Level;
using server::log;

// How often the policy file is looked at.
constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 500'000'000};
constexpr std::chrono::milliseconds kGrace{4'000};

struct Options {
  std::string config;
  server::DaemonOptions daemon{};
  server::LogFormat log = server::LogFormat::text;
};

// The configuration of a file, or all that is wrong with it. Warnings go to the log.
Result<policy::Config, Error> load(const std::string& path) {
  if (path.empty()) return policy::Config{};
  const auto source = policy::Source::read(path);
  if (!source) return Error{source.error()};
  policy::Problems problems;
  policy::Problems warnings;
  policy::Config config = policy::read_config(*source, problems, warnings);
  for (const policy::Problem& warning : warnings)
    log(Level::warning, "{}", source->render(warning));
  if (problems.empty()) return config;
  std::string all;
  for (const policy::Problem& problem : problems) all += source->render(problem);
  return Error{std::move(all)};
}

std::string status_of(const server::Daemon& daemon) {
  return fmt::format("serving generation {}", daemon.generation());
}

// What became of reading the policy file again, in a line for supervisors.
std::string reload(server::Daemon& daemon, const std::string& path) {
  if (path.empty()) {
    log(Level::info, "there is no policy file to read again");
    return "serving, without a policy file";
  }
  auto config = load(path);
  if (!config) {
    daemon.note_failed_reload();
    log(Level::error, "{} is not used, the policies stay as they are:\n{}", path,
        config.error().message);
    return fmt::format("{}: {} has mistakes, see the log", status_of(daemon), path);
  }
  const auto unchanged = daemon.reload(*std::move(config));
  log(Level::info, "{} read again: generation {}", path, daemon.generation());
  if (!unchanged.empty()) {
    log(Level::warning, "needs a restart to change: {}", fmt::join(unchanged, ", "));
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

  // How long nobody needs to look.
  timespec pause() const {
    const auto patience = notifier_.patience();
    if (!patience) return kLook;
    const std::chrono::nanoseconds quarter = *patience / 4;
    if (quarter >= std::chrono::nanoseconds{kLook.tv_nsec}) return kLook;
    return {.tv_sec = 0, .tv_nsec = std::max<std::int64_t>(quarter.count(), 1'000'000)};
  }

 private:
  using Clock = std::chrono::steady_clock;
  server::Notifier& notifier_;
  Clock::time_point next_{};
};

// Until somebody wants it to end. `used` is the file as it was before it was read: a change while
// the daemon started is one.
void watch(server::Daemon& daemon, server::Notifier& notifier, const std::string& path,
           FileStamp used, const sigset_t& signals) {
  Watchdog watchdog(notifier);
  const timespec pause = watchdog.pause();
  for (;;) {
    const int signal = sigtimedwait(&signals, nullptr, &pause);
    if (signal == SIGTERM || signal == SIGINT) return;
    watchdog.look(daemon);
    daemon.look_around();
    const FileStamp seen = FileStamp::of(path);
    if (signal != SIGHUP && (!seen.exists() || seen == used)) continue;
    used = seen;
    notifier.reloading();
    notifier.ready(reload(daemon, path));
  }
}

void say_where(const server::Daemon::Ports& ports, const policy::Config& config) {
  const policy::Listen& listen = config.listen;
  if (ports.resp) {
    log(Level::info, "RESP on {}{}:{}", config.tls ? "rediss://" : "", listen.resp->host,
        *ports.resp);
  }
  if (ports.http) {
    log(Level::info, "HTTP on {}://{}:{}", config.tls ? "https" : "http", listen.http->host,
        *ports.http);
  }
}

int serve(const Options& options) {
  // Blocked here, before there are threads: only `watch` hears of them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  server::use_log_format(options.log);

  const FileStamp used = FileStamp::of(options.config);
  const auto config = load(options.config);
  if (!config) {
    std::cerr << config.error().message;
    return kFailed;
  }
  auto daemon = server::Daemon::open(*config, options.daemon);
  if (!daemon) {
    std::cerr << "weir: " << daemon.error().message << '\n';
    return kFailed;
  }
  say_where((*daemon)->ports(), *config);
  auto notifier = server::Notifier::from_environment();
  (*daemon)->start();
  log(Level::info, "ready, with {} policies", config->policies.size());
  notifier.ready(status_of(**daemon));
  watch(**daemon, notifier, options.config, used, signals);
  log(Level::info, "ending");
  notifier.stopping();
  (*daemon)->stop(kGrace);
  return kSuccess;
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("serve", "Decide for others: RESP and HTTP");
  command->add_option("--config", options->config, "The policy file; read again when it changes")
      ->type_name("FILE");
  command->add_option("--threads", options->daemon.threads, "Default: one for each processor")
      ->check(CLI::Range(1, 1024));
  const std::map<std::string, server::LogFormat> formats{{"text", server::LogFormat::text},
                                                         {"json", server::LogFormat::json}};
  command->add_option("--log", options->log, "How to write the log: text (the default) or json")
      ->transform(CLI::CheckedTransformer(formats))
      ->type_name("FORMAT");
  const std::map<std::string, bool> on_or_off{{"on", true}, {"off", false}};
  command
      ->add_option("--metrics", options->daemon.metrics,
                   "Count decisions and their time, for /metrics: on (the default) or off")
      ->transform(CLI::CheckedTransformer(on_or_off))
      ->type_name("on|off");
  command
      ->add_option("--top", options->daemon.top,
                   "Count which keys are asked for most, for weir top: on (the default) or off")
      ->transform(CLI::CheckedTransformer(on_or_off))
      ->type_name("on|off");
  command->callback([options, &exit_code] { exit_code = serve(*options); });
}

}  // namespace weir::cli
