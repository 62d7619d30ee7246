#pragma once

#include <signal.h>
#include <termios.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/draw.h"

namespace weir::cli::top {

// A command that the user typed.
enum class UserCommand { none, quit, previous, next, pause };

// Parses typed bytes: letters, tabs and arrow keys. Ignores everything else.
std::vector<UserCommand> parse_commands(std::string_view typed);

// The size of the terminal at stdout; 80 x 24 if stdout is not a terminal.
Size terminal_size();
Style terminal_style();

// Takes over the terminal: alternate screen, raw keyboard, signal handlers. The destructor restores
// the screen, the keyboard and the signal mask. SIGINT, SIGTERM and SIGHUP become
// UserCommand::quit. At most one instance per process at a time.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void show(const std::vector<std::string>& lines);

  // Blocks until that time, or until a command is typed or the size changes.
  std::vector<UserCommand> wait_until(std::chrono::steady_clock::time_point then);

 private:
  bool keys_ = false;  // stdin is a terminal
  termios before_{};
  sigset_t signals_before_{};
};

}  // namespace weir::cli::top
