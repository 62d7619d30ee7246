#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "gateway/config.h"
#include "net/descriptor.h"
#include "weir/result.h"
#include "weir/time.h"

namespace weir::gateway {

// One request, as it is logged. Borrows its texts.
struct Logged {
  Instant time;
  std::string_view client;
  std::string_view method;
  std::string_view target;
  int version = 11;
  int status = 0;              // 499: the client went away
  std::uint64_t received = 0;  // bytes of bodies
  std::uint64_t sent = 0;
  std::string_view referer;
  std::string_view agent;
  std::string_view host;
  std::string_view route;
  std::string_view ruling;
  std::string_view server;  // empty: none was asked
  std::string_view id;
  std::chrono::nanoseconds took{0};
  std::chrono::nanoseconds waited{0};
};

// The line, with its end. What clients choose is escaped: a line is one request.
std::string access_line(bool json, const Logged& logged);

// Where they go. Thread-safe.
class AccessLogFile {
 public:
  // The error of a file that cannot be written.
  static Result<std::shared_ptr<AccessLogFile>, Error> open(const AccessLog& log);

  void write(const Logged& logged);
  // Opens it anew if it was moved away, as log rotation does; and writes out what is there.
  void look();

  ~AccessLogFile();

 private:
  explicit AccessLogFile(AccessLog log) : log_(std::move(log)) {}
  bool reopen();
  void flush_locked();

  const AccessLog log_;
  std::mutex mutex_;
  net::Descriptor file_;
  std::uint64_t inode_ = 0;
  std::string lines_;  // to be written
};

}  // namespace weir::gateway
