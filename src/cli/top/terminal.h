#pragma once

#include <signal.h>
#include <termios.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/draw.h"

namespace weir::cli::top {

// What somebody at the terminal wants.
enum class Wish { none, quit, previous, next, pause };

// The wishes in what was typed: letters, tabs and arrows. Anything else is none.
std::vector<Wish> wishes_in(std::string_view typed);

// How much of it a terminal shows; 80 x 24 if it is none.
Size terminal_size();
Style terminal_style();

// The whole screen of a terminal, and what is typed there. Gives it back as it was when it is
// destroyed; Ctrl-C and other signals to end are wishes to quit. One at a time.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void show(const std::vector<std::string>& lines);

  // Waits until that time, or until there are wishes or the size has changed.
  std::vector<Wish> wait_until(std::chrono::steady_clock::time_point then);

 private:
  bool keys_ = false;  // there is a keyboard
  termios before_{};
  sigset_t signals_before_{};
};

}  // namespace weir::cli::top
