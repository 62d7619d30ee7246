#include "server/log.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "weir/limiter.h"
#include "weir/quota.h"
#include "wire/json_write.h"

namespace weir::server {

namespace {

std::atomic<LogFormat> log_format{LogFormat::text};
std::atomic<std::uint64_t> dropped_lines{0};

// The burst is for a start or a reload with many warnings.
Limiter& limiter() {
  static Limiter lines{per_second(10).burst(200)};
  return lines;
}

std::string to_text(Instant time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(time - seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(seconds.time_since_epoch().count())),
                     millis.count());
}

std::string_view name_of(LogLevel level) {
  constexpr std::string_view names[] = {"info", "warning", "error", "audit"};
  return names[static_cast<std::size_t>(level)];
}

}  // namespace

std::string log_line(LogFormat format, Instant time, LogLevel level, std::string_view text,
                     std::uint64_t dropped) {
  if (format == LogFormat::text) {
    const std::string note = dropped > 0 ? fmt::format("({} lines left out) ", dropped) : "";
    return fmt::format("{} {:<7} {}{}\n", to_text(time), name_of(level), note, text);
  }
  std::string line =
      fmt::format(R"({{"time":"{}","level":"{}","message":)", to_text(time), name_of(level));
  wire::append_json_string(line, text);
  if (dropped > 0) line += fmt::format(R"(,"left_out":{})", dropped);
  return line + "}\n";
}

void use_log_format(LogFormat format) { log_format = format; }

void write_log(LogLevel level, std::string_view text) {
  if (level != LogLevel::audit && !limiter().try_acquire()) {
    ++dropped_lines;
    return;
  }
  const auto now = std::chrono::time_point_cast<Nanos>(std::chrono::system_clock::now());
  const std::string line = log_line(log_format, now, level, text, dropped_lines.exchange(0));
  // An error of standard error itself cannot be reported anywhere.
  [[maybe_unused]] const auto count = write(STDERR_FILENO, line.data(), line.size());
}

void log_warnings(const policy::Source& source, const policy::Problems& warnings) {
  constexpr std::size_t max_lines = 20;
  for (std::size_t i = 0; i < std::min(warnings.size(), max_lines); ++i) {
    log(LogLevel::warning, "{}", source.render(warnings[i]));
  }
  if (warnings.size() <= max_lines) return;
  log(LogLevel::warning, "{} has {} more warnings: `weir validate` shows all", source.name,
      warnings.size() - max_lines);
}

}  // namespace weir::server
