#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "net/descriptor.h"

namespace weir::server {

// Tells whoever started this process how it goes, in the words of sd_notify(3): datagrams to a
// socket that the environment names. If it names none, nothing is said.
class Notifier {
 public:
  // By NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  static Notifier from_environment();
  // To a path, or to an abstract name after '@'.
  explicit Notifier(std::string socket);

  // All doors are open, or open again after `reloading`.
  void ready(std::string_view status);
  void reloading();
  void stopping();
  // To be said at least as often as `patience` asks for.
  void alive();

  // How long it may be silent before it is taken for dead; none: any time.
  std::optional<std::chrono::microseconds> patience() const { return patience_; }

 private:
  void say(std::string_view words);

  std::string socket_name_;
  net::Descriptor socket_;
  std::optional<std::chrono::microseconds> patience_;
  bool complained_ = false;
};

}  // namespace weir::server
