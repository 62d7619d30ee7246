#include <fmt/format.h>
#include <unistd.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <cctype>
#include <clocale>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "cli/api_call.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/top/draw.h"
#include "cli/top/snapshot.h"
#include "cli/top/terminal.h"
#include "policy/units.h"

namespace weir::cli {

namespace {

using std::chrono::steady_clock;
using top::UserCommand;

struct TopOptions {
  HttpClient client{.url = "http://127.0.0.1:7380", .timeout = std::chrono::seconds{2}};
  std::string policy;
  std::string interval = "1s";
  bool once = false;
};

// Percent-encodes everything but ASCII letters and digits.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && std::isalnum(byte) != 0;
    out += plain ? std::string{c} : fmt::format("%{:02X}", byte);
  }
  return out;
}

// Polls the daemon, and derives rates from consecutive snapshots.
class TopSession {
 public:
  explicit TopSession(const TopOptions& options) : options_(options) {
    view_.address = options.client.url;
    view_.selected = options.policy;
  }

  // Returns an error only if it is permanent; an error that may pass becomes part of the view.
  std::optional<std::string> poll(std::size_t keys) {
    view_.error.clear();
    const auto answer = options_.client.call("GET", path(keys));
    const auto now = steady_clock::now();
    if (!answer) {
      note_error(answer.error().message);
      return std::nullopt;
    }
    if (answer->status != 200) return refused(*answer);
    auto snapshot = top::read_snapshot(answer->body);
    if (!snapshot) return snapshot.error().message;
    use(*std::move(snapshot), now);
    return std::nullopt;
  }

  // Selects the next or the previous policy, cyclically.
  void select(bool next) {
    if (view_.rows.empty()) return;
    const std::size_t now = top::selected_row(view_);
    const std::size_t last = view_.rows.size() - 1;
    const std::size_t row = next ? (now == last ? 0 : now + 1) : (now == 0 ? last : now - 1);
    view_.selected = top::name_of(view_.rows[row].policy);
  }

  top::TopView& view() { return view_; }

 private:
  std::string path(std::size_t keys) const {
    std::string path = fmt::format("/v1/top?limit={}", std::clamp<std::size_t>(keys, 1, 64));
    if (options_.policy.empty()) return path;
    const bool has_name = options_.policy != top::name_of({});
    return path + "&policy=" + (has_name ? escaped(options_.policy) : "");
  }

  void note_error(const std::string& text) { view_.error = text + " (trying again)"; }

  std::optional<std::string> refused(const ApiResponse& answer) {
    const auto response = nlohmann::json::parse(answer.body, nullptr, false);
    std::string why = fmt::format("status {}", answer.status);
    if (response.is_object()) why = response.value("detail", why);
    if (answer.status >= 400 && answer.status <= 501 && !last_) return why;
    note_error(why);
    return std::nullopt;
  }

  void use(top::Snapshot snapshot, steady_clock::time_point now) {
    const double seconds = std::chrono::duration<double>(now - polled_at_).count();
    view_.rows = top::rows_between(last_ ? *last_ : snapshot, snapshot, seconds);
    view_.uptime = snapshot.uptime;
    view_.generation = snapshot.generation;
    view_.seconds = snapshot.seconds;
    last_ = std::move(snapshot);
    polled_at_ = now;
  }

  const TopOptions& options_;
  top::TopView view_;
  std::optional<top::Snapshot> last_;
  steady_clock::time_point polled_at_{};
};

int show_once(const TopOptions& options, Nanos interval) {
  constexpr std::size_t keys = 10;
  TopSession session(options);
  for (const Nanos pause : {interval, Nanos{0}}) {
    if (const auto refused = session.poll(keys)) return fail(*refused);
    if (!session.view().error.empty()) return fail(session.view().error);
    std::this_thread::sleep_for(pause);
  }
  top::Style style = top::terminal_style();
  style.is_live = false;
  const std::size_t columns = top::terminal_size().columns;
  const top::Size size{.columns = columns, .rows = top::rows_for(session.view(), columns)};
  for (const std::string& line : top::draw(session.view(), size, style)) std::cout << line << '\n';
  return kSuccess;
}

// Returns false on quit.
bool execute(UserCommand command, TopSession& session) {
  if (command == UserCommand::pause) session.view().paused = !session.view().paused;
  if (command == UserCommand::next || command == UserCommand::previous)
    session.select(command == UserCommand::next);
  return command != UserCommand::quit;
}

int show_live(const TopOptions& options, Nanos interval) {
  TopSession session(options);
  if (const auto refused = session.poll(top::terminal_size().rows)) return fail(*refused);
  const top::Style style = top::terminal_style();
  top::Terminal terminal;
  auto next = steady_clock::now() + interval;
  for (;;) {
    const top::Size size = top::terminal_size();
    terminal.show(top::draw(session.view(), size, style));
    for (const UserCommand command : terminal.wait_until(next)) {
      if (!execute(command, session)) return kSuccess;
    }
    if (steady_clock::now() < next) continue;
    if (!session.view().paused) (void)session.poll(size.rows);
    next = steady_clock::now() + interval;
  }
}

int run(const TopOptions& options) {
  std::setlocale(LC_CTYPE, "");
  const auto interval = policy::parse_period({.text = options.interval, .place = {}});
  if (!interval || *interval < std::chrono::milliseconds{100} ||
      *interval > std::chrono::hours{1}) {
    return fail("--interval must be from 100ms to 1h, such as 1s", kUsage);
  }
  if (options.once) return show_once(options, *interval);
  if (isatty(STDOUT_FILENO) == 0) {
    return fail("stdout is not a terminal: use --once to print a single frame", kUsage);
  }
  return show_live(options, *interval);
}

}  // namespace

void add_top_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* command = app.add_subcommand("top", "Show live which keys are used most");
  add_client_options(command, options->client);
  command->add_option("--policy", options->policy, "Show only this policy");
  command->add_option("--interval", options->interval, "Time between two updates")
      ->capture_default_str()
      ->type_name("TIME");
  command->add_flag("--once", options->once, "Print one frame after one interval, and exit");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace weir::cli
