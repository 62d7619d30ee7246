#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/config.h"
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
  std::string_view limit{};               // that decided; empty: none
  std::optional<std::string_view> key{};  // none: it is not logged
  bool degraded = false;                  // the store could not be asked
  std::string_view server;                // empty: none was asked
  std::string_view id;
  std::chrono::nanoseconds took{0};
  std::chrono::nanoseconds waited{0};
};

// The line, with its end. What clients choose is escaped: a line is one request.
std::string access_line(bool json, const Logged& logged);

// Where they go. A thread of its own writes them: files, and who reads a pipe, may be slow, and
// nobody who is logged waits for them. Thread-safe.
class AccessLogFile {
 public:
  // The error of a file that cannot be written. `dropped`, which outlives it, counts lines for
  // which there was no room.
  static Result<std::shared_ptr<AccessLogFile>, Error> open(const AccessLog& log,
                                                            std::atomic<std::uint64_t>& dropped);

  void write(const Logged& logged);
  // What is there is to be written out, and the file to be opened anew if it was moved away, as log
  // rotation does.
  void look();
  // Another one takes its place: nobody waits for the last lines.
  void retire() { waits_ = false; }

  // Waits for the last lines, but not for long: their reader may never come.
  ~AccessLogFile();

 private:
  class Writer;
  AccessLogFile(const AccessLog& log, std::atomic<std::uint64_t>& dropped);

  const bool json_;
  std::atomic<std::uint64_t>& dropped_;
  const std::shared_ptr<Writer> writer_;
  std::atomic<bool> waits_{true};
};

}  // namespace weir::gateway
