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

#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/top/draw.h"
#include "cli/top/snapshot.h"
#include "cli/top/terminal.h"
#include "policy/units.h"

namespace weir::cli {

namespace {

using Steady = std::chrono::steady_clock;
using top::Wish;

struct TopOptions {
  HttpClient client{.url = "http://127.0.0.1:7380", .patience = std::chrono::seconds{2}};
  std::string policy;
  std::string interval = "1s";
  bool once = false;
};

// Everything but letters and digits as %41.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && std::isalnum(byte) != 0;
    out += plain ? std::string{c} : fmt::format("%{:02X}", byte);
  }
  return out;
}

// What the daemon says, and what of it is new since the last time.
class Watch {
 public:
  explicit Watch(const TopOptions& options) : options_(options) {
    view_.address = options.client.url;
    view_.selected = options.policy;
  }

  // Why it will not answer the next time either; trouble that may pass is shown.
  std::optional<std::string> ask(std::size_t keys) {
    view_.trouble.clear();
    const auto answer = options_.client.ask("GET", path(keys));
    const auto now = Steady::now();
    if (!answer) {
      trouble(answer.error().message);
      return std::nullopt;
    }
    if (answer->status != 200) return refused(*answer);
    auto snapshot = top::read_snapshot(answer->body);
    if (!snapshot) return snapshot.error().message;
    use(*std::move(snapshot), now);
    return std::nullopt;
  }

  // The next policy, or the one before.
  void select(bool next) {
    if (view_.rows.empty()) return;
    const std::size_t now = top::selected_row(view_);
    const std::size_t last = view_.rows.size() - 1;
    const std::size_t row = next ? (now == last ? 0 : now + 1) : (now == 0 ? last : now - 1);
    view_.selected = top::name_of(view_.rows[row].policy);
  }

  top::View& view() { return view_; }

 private:
  std::string path(std::size_t keys) const {
    std::string path = fmt::format("/v1/top?limit={}", std::clamp<std::size_t>(keys, 1, 64));
    if (options_.policy.empty()) return path;
    const bool has_name = options_.policy != top::name_of({});
    return path + "&policy=" + (has_name ? escaped(options_.policy) : "");
  }

  void trouble(const std::string& what) { view_.trouble = what + " (trying again)"; }

  std::optional<std::string> refused(const HttpAnswer& answer) {
    const auto said = nlohmann::json::parse(answer.body, nullptr, false);
    std::string why = fmt::format("status {}", answer.status);
    if (said.is_object()) why = said.value("detail", why);
    if (answer.status >= 400 && answer.status <= 501 && !last_) return why;
    trouble(why);
    return std::nullopt;
  }

  void use(top::Snapshot snapshot, Steady::time_point now) {
    const double seconds = std::chrono::duration<double>(now - asked_).count();
    view_.rows = top::rows_between(last_ ? *last_ : snapshot, snapshot, seconds);
    view_.uptime = snapshot.uptime;
    view_.generation = snapshot.generation;
    view_.seconds = snapshot.seconds;
    last_ = std::move(snapshot);
    asked_ = now;
  }

  const TopOptions& options_;
  top::View view_;
  std::optional<top::Snapshot> last_;
  Steady::time_point asked_{};
};

int show_once(const TopOptions& options, Nanos interval) {
  constexpr std::size_t keys = 10;
  Watch watch(options);
  for (const Nanos pause : {interval, Nanos{0}}) {
    if (const auto refused = watch.ask(keys)) return fail(*refused);
    if (!watch.view().trouble.empty()) return fail(watch.view().trouble);
    std::this_thread::sleep_for(pause);
  }
  top::Style style = top::terminal_style();
  style.for_ever = false;
  const std::size_t columns = top::terminal_size().columns;
  const top::Size size{.columns = columns, .rows = top::rows_for(watch.view(), columns)};
  for (const std::string& line : top::draw(watch.view(), size, style)) std::cout << line << '\n';
  return kSuccess;
}

// Whether to go on.
bool obey(Wish wish, Watch& watch) {
  if (wish == Wish::pause) watch.view().paused = !watch.view().paused;
  if (wish == Wish::next || wish == Wish::previous) watch.select(wish == Wish::next);
  return wish != Wish::quit;
}

int show_for_ever(const TopOptions& options, Nanos interval) {
  Watch watch(options);
  if (const auto refused = watch.ask(top::terminal_size().rows)) return fail(*refused);
  const top::Style style = top::terminal_style();
  top::Terminal terminal;
  auto next = Steady::now() + interval;
  for (;;) {
    const top::Size size = top::terminal_size();
    terminal.show(top::draw(watch.view(), size, style));
    for (const Wish wish : terminal.wait_until(next)) {
      if (!obey(wish, watch)) return kSuccess;
    }
    if (Steady::now() < next) continue;
    if (!watch.view().paused) (void)watch.ask(size.rows);
    next = Steady::now() + interval;
  }
}

int run(const TopOptions& options) {
  std::setlocale(LC_CTYPE, "");
  const auto interval = policy::parse_period({.text = options.interval, .place = {}});
  if (!interval || *interval < std::chrono::milliseconds{100} ||
      *interval > std::chrono::hours{1}) {
    return fail("--interval is a time from 100ms to 1h, such as 1s", kUsage);
  }
  if (options.once) return show_once(options, *interval);
  if (isatty(STDOUT_FILENO) == 0) {
    return fail("this is no terminal to draw on: use --once to print", kUsage);
  }
  return show_for_ever(options, *interval);
}

}  // namespace

void add_top_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* command = app.add_subcommand("top", "Watch which keys are asked for most");
  add_client_options(command, options->client);
  command->add_option("--policy", options->policy, "Only this policy");
  command->add_option("--interval", options->interval, "How often to look")
      ->capture_default_str()
      ->type_name("TIME");
  command->add_flag("--once", options->once, "Print what there is after one interval, and end");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace weir::cli
