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

// One request as it is logged. Borrows its strings.
struct AccessLogEntry {
  Instant time;
  std::string_view client;
  std::string_view method;
  std::string_view target;
  int version = 11;
  int status = 0;              // 499: the client closed first
  std::uint64_t received = 0;  // body bytes
  std::uint64_t sent = 0;
  std::string_view referer;
  std::string_view agent;
  std::string_view host;
  std::string_view route;
  std::string_view decision;
  std::string_view limit{};               // the limit that decided; empty: none
  std::optional<std::string_view> key{};  // nullopt: keys are not logged
  bool degraded = false;                  // the store was unreachable
  std::string_view server;                // empty: no server was tried
  std::string_view id;
  std::chrono::nanoseconds duration{0};
  std::chrono::nanoseconds queue_time{0};
};

// One log line with its line feed. Bytes that clients choose are escaped, so that a request cannot
// forge another line.
std::string access_log_line(bool json, const AccessLogEntry& logged);

// Writes the access log from a thread of its own: files and pipes may block, and requests must not
// wait for them. Thread-safe.
class AccessLogFile {
 public:
  // Fails if the file cannot be opened. `dropped` counts the lines that did not fit into the
  // buffer; it outlives the log.
  static Result<std::shared_ptr<AccessLogFile>, Error> open(const AccessLogConfig& log,
                                                            std::atomic<std::uint64_t>& dropped);

  void write(const AccessLogEntry& logged);
  // Writes buffered lines out, and reopens the file if it was rotated.
  void flush_and_reopen();
  // The log is being replaced: its destructor does not wait for the last lines.
  void retire() { waits_at_end_ = false; }

  // Waits a bounded time for the last lines to be written: a pipe may have no reader.
  ~AccessLogFile();

 private:
  class LogWriter;
  AccessLogFile(const AccessLogConfig& log, std::atomic<std::uint64_t>& dropped);

  const bool json_;
  std::atomic<std::uint64_t>& dropped_;
  const std::shared_ptr<LogWriter> writer_;
  std::atomic<bool> waits_at_end_{true};
};

}  // namespace weir::gateway
