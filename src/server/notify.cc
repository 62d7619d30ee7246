#include "server/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "server/log.h"

namespace weir::server {

namespace {

using std::chrono::microseconds;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

// Parses a number above zero.
std::optional<std::int64_t> positive_number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

// WATCHDOG_PID guards against a watchdog that is meant for a parent process.
std::optional<microseconds> watchdog_interval_of_environment() {
  const auto pid = positive_number(variable("WATCHDOG_PID"));
  if (pid && *pid != getpid()) return std::nullopt;
  const auto micros = positive_number(variable("WATCHDOG_USEC"));
  if (!micros) return std::nullopt;
  return microseconds{*micros};
}

// The clock that sd_notify(3) wants for RELOADING=1: it orders the reload after its request.
std::int64_t monotonic_micros() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1'000;
}

struct UnixAddress {
  sockaddr_un bytes{};
  socklen_t size = 0;
};

std::optional<UnixAddress> address_of(const std::string& name) {
  UnixAddress address;
  const bool known = name.starts_with('/') || name.starts_with('@');
  if (!known || name.size() < 2 || name.size() >= sizeof address.bytes.sun_path) return {};
  address.bytes.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.bytes.sun_path);
  if (name.front() == '@') address.bytes.sun_path[0] = '\0';
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return address;
}

net::FileDescriptor open_socket() {
  net::FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // A supervisor that does not read its socket must not block the shutdown.
  const timeval timeout{.tv_sec = 1, .tv_usec = 0};
  setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  return socket;
}

// A line end in a status would start another assignment of the protocol.
std::string one_line(std::string_view text) {
  std::string line{text};
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace

Notifier Notifier::from_environment() {
  Notifier notifier(variable("NOTIFY_SOCKET"));
  if (!notifier.socket_name_.empty()) {
    notifier.watchdog_interval_ = watchdog_interval_of_environment();
  }
  return notifier;
}

Notifier::Notifier(std::string socket) : socket_name_(std::move(socket)) {
  if (!socket_name_.empty()) socket_ = open_socket();
}

void Notifier::ready(std::string_view status) { send("READY=1\nSTATUS=" + one_line(status)); }

void Notifier::reloading() {
  send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reading the policy file again",
                   monotonic_micros()));
}

void Notifier::stopping() {
  send("STOPPING=1\nSTATUS=answering the requests that have arrived, then ending");
}

void Notifier::ping_watchdog() { send("WATCHDOG=1"); }

void Notifier::send(std::string_view message) {
  if (!socket_.is_open()) return;
  const auto address = address_of(socket_name_);
  const auto sent = address
                        ? sendto(socket_.fd(), message.data(), message.size(), MSG_NOSIGNAL,
                                 reinterpret_cast<const sockaddr*>(&address->bytes), address->size)
                        : ssize_t{-1};
  if (sent >= 0 || has_warned_) return;
  has_warned_ = true;
  log(LogLevel::warning,
      "cannot notify the supervisor: NOTIFY_SOCKET is \"{}\": {}. Unset it, or set it to the "
      "supervisor's socket",
      socket_name_,
      address ? std::generic_category().message(errno) : "it is neither a path nor @name");
}

}  // namespace weir::server
