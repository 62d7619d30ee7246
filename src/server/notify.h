#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "net/file_descriptor.h"

namespace weir::server {

// Reports the daemon's state to its supervisor, such as systemd, by the protocol of sd_notify(3):
// datagrams to the socket that NOTIFY_SOCKET names. Without that variable it sends nothing.
class Notifier {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  static Notifier from_environment();
  // A path, or an abstract name after '@'; empty: sends nothing.
  explicit Notifier(std::string socket);

  // All listeners are open, or a reload is complete.
  void ready(std::string_view status);
  void reloading();
  void stopping();
  // The watchdog's keep-alive message. To be sent more often than every `watchdog_interval`.
  void ping_watchdog();

  // The supervisor's watchdog timeout; none: no watchdog.
  std::optional<std::chrono::microseconds> watchdog_interval() const { return watchdog_interval_; }

 private:
  void send(std::string_view message);

  std::string socket_name_;
  net::FileDescriptor socket_;
  std::optional<std::chrono::microseconds> watchdog_interval_;
  bool has_warned_ = false;
};

}  // namespace weir::server
