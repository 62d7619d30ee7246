#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include <chrono>
#include <iostream>
#include <map>
#include <optional>

#include "cli/commands.h"
#include "policy/config.h"
#include "server/daemon.h"
#include "server/log.h"

namespace weir::cli {

namespace {

using server::Level;
using server::log;

// How often the policy file is looked at. (Looking is one system call, and works for files that are
// replaced, linked or mounted, where being notified does not always.)
constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 500'000'000};
constexpr std::chrono::milliseconds kGrace{4'000};

struct Options {
  std::string config;
  server::DaemonOptions daemon{};
  server::LogFormat log = server::LogFormat::text;
};

// By what a change of a file is noticed.
struct Seen {
  ino_t inode = 0;
  off_t size = 0;
  timespec modified{};

  static Seen of(const std::string& path) {
    struct stat file {};
    if (path.empty() || stat(path.c_str(), &file) != 0) return {};
    return {file.st_ino, file.st_size, file.st_mtim};
  }
  bool exists() const { return inode != 0; }
  bool operator==(const Seen& other) const {
    return inode == other.inode && size == other.size && modified.tv_sec == other.modified.tv_sec &&
           modified.tv_nsec == other.modified.tv_nsec;
  }
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

void reload(server::Daemon& daemon, const std::string& path) {
  if (path.empty()) return log(Level::info, "there is no policy file to read again");
  auto config = load(path);
  if (!config) {
    daemon.note_failed_reload();
    return log(Level::error, "{} is not used, the policies stay as they are:\n{}", path,
               config.error().message);
  }
  const auto unchanged = daemon.reload(*std::move(config));
  log(Level::info, "{} read again: generation {}", path, daemon.generation());
  if (!unchanged.empty()) {
    log(Level::warning, "needs a restart to change: {}", fmt::join(unchanged, ", "));
  }
}

// Until somebody wants it to end. `used` is the file as it was before it was read: a change while
// the daemon started is one.
void watch(server::Daemon& daemon, const std::string& path, Seen used, const sigset_t& signals) {
  for (;;) {
    const int signal = sigtimedwait(&signals, nullptr, &kLook);
    if (signal == SIGTERM || signal == SIGINT) return;
    daemon.look_around();
    const Seen seen = Seen::of(path);
    if (signal != SIGHUP && (!seen.exists() || seen == used)) continue;
    used = seen;
    reload(daemon, path);
  }
}

void say_where(const server::Daemon::Ports& ports, const policy::Listen& listen) {
  if (ports.resp) log(Level::info, "RESP on {}:{}", listen.resp->host, *ports.resp);
  if (ports.http) log(Level::info, "HTTP on http://{}:{}", listen.http->host, *ports.http);
}

int serve(const Options& options) {
  // Blocked here, before there are threads: only `watch` hears of them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  server::use_log_format(options.log);

  const Seen used = Seen::of(options.config);
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
  say_where((*daemon)->ports(), config->listen);
  (*daemon)->start();
  log(Level::info, "ready, with {} policies", config->policies.size());
  watch(**daemon, options.config, used, signals);
  log(Level::info, "ending");
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
