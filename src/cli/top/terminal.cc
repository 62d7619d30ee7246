#include "cli/top/terminal.h"

#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

namespace weir::cli::top {

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};

volatile sig_atomic_t wants_to_end = 0;

void on_signal(int signal) {
  if (signal != SIGWINCH) wants_to_end = 1;
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Alternate screen, no cursor, no line wrapping; and back.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

struct KeyBinding {
  std::string_view bytes;
  UserCommand command;
};
constexpr KeyBinding kKeyBindings[] = {
    {"\x1b[A", UserCommand::previous}, {"\x1bOA", UserCommand::previous},
    {"\x1b[D", UserCommand::previous}, {"\x1bOD", UserCommand::previous},
    {"\x1b[Z", UserCommand::previous}, {"k", UserCommand::previous},
    {"\x1b[B", UserCommand::next},     {"\x1bOB", UserCommand::next},
    {"\x1b[C", UserCommand::next},     {"\x1bOC", UserCommand::next},
    {"\t", UserCommand::next},         {"j", UserCommand::next},
    {"q", UserCommand::quit},          {"Q", UserCommand::quit},
    {"p", UserCommand::pause},         {" ", UserCommand::pause},
};

}  // namespace

std::vector<UserCommand> parse_commands(std::string_view typed) {
  std::vector<UserCommand> commands;
  while (!typed.empty()) {
    const auto is_it = [&](const KeyBinding& each) { return typed.starts_with(each.bytes); };
    const auto found = std::ranges::find_if(kKeyBindings, is_it);
    const bool known = found != std::end(kKeyBindings);
    if (known) commands.push_back(found->command);
    typed.remove_prefix(known ? found->bytes.size() : 1);
  }
  return commands;
}

Size terminal_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {.columns = size.ws_col, .rows = size.ws_row};
}

// https://no-color.org: a NO_COLOR that is not empty turns colours off.
Style terminal_style() {
  const char* no_colour = std::getenv("NO_COLOR");
  const bool plain = no_colour != nullptr && *no_colour != '\0';
  return {.utf8 = std::string_view{nl_langinfo(CODESET)} == "UTF-8",
          .colour = isatty(STDOUT_FILENO) != 0 && !plain};
}

Terminal::Terminal() {
  keys_ = tcgetattr(STDIN_FILENO, &before_) == 0;
  sigset_t signals;
  sigemptyset(&signals);
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int signal : kSignals) {
    sigaddset(&signals, signal);
    sigaction(signal, &action, nullptr);
  }
  // Blocked outside of ppoll: handlers run only in `wait_until`.
  sigprocmask(SIG_BLOCK, &signals, &signals_before_);
  if (keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // Ctrl-Z: the shell would get the terminal in raw mode
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  write_all(kEnter);
}

Terminal::~Terminal() {
  write_all(kLeave);
  if (keys_) tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  sigprocmask(SIG_SETMASK, &signals_before_, nullptr);
}

void Terminal::show(const std::vector<std::string>& lines) {
  std::string screen = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    screen += lines[i] + "\x1b[K" + (i + 1 < lines.size() ? "\r\n" : "");
  }
  write_all(screen + "\x1b[J");
}

std::vector<UserCommand> Terminal::wait_until(std::chrono::steady_clock::time_point then) {
  using std::chrono::nanoseconds;
  const nanoseconds left = std::max(nanoseconds{0}, then - std::chrono::steady_clock::now());
  const timespec timeout{.tv_sec = left.count() / 1'000'000'000,
                         .tv_nsec = left.count() % 1'000'000'000};
  pollfd keyboard{.fd = keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
  const int ready = ppoll(&keyboard, 1, &timeout, &signals_before_);
  if (wants_to_end) return {UserCommand::quit};
  if (ready <= 0) return {};
  std::array<char, 256> typed{};
  const ssize_t count = read(STDIN_FILENO, typed.data(), typed.size());
  if (count <= 0) return {UserCommand::quit};  // the terminal is gone
  return parse_commands({typed.data(), static_cast<std::size_t>(count)});
}

}  // namespace weir::cli::top
