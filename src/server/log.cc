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

std::atomic<LogFormat> chosen{LogFormat::text};
std::atomic<std::uint64_t> left_out{0};

// As much as somebody can read, after as much as a start or a reload may have to say.
Limiter& limiter() {
  static Limiter lines{per_second(10).burst(200)};
  return lines;
}

std::string written(Instant time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(time - seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(seconds.time_since_epoch().count())),
                     millis.count());
}

std::string_view name_of(Level level) {
  constexpr std::string_view names[] = {"info", "warning", "error", "audit"};
  return names[static_cast<std::size_t>(level)];
}

}  // namespace

std::string log_line(LogFormat format, Instant time, Level level, std::string_view text,
                     std::uint64_t missing) {
  if (format == LogFormat::text) {
    const std::string note = missing > 0 ? fmt::format("({} lines left out) ", missing) : "";
    return fmt::format("{} {:<7} {}{}\n", written(time), name_of(level), note, text);
  }
  std::string line =
      fmt::format(R"({{"time":"{}","level":"{}","message":)", written(time), name_of(level));
  wire::append_json_string(line, text);
  if (missing > 0) line += fmt::format(R"(,"left_out":{})", missing);
  return line + "}\n";
}

void use_log_format(LogFormat format) { chosen = format; }

void write_log(Level level, std::string_view text) {
  if (level != Level::audit && !limiter().try_acquire()) {
    ++left_out;
    return;
  }
  const auto now = std::chrono::time_point_cast<Nanos>(std::chrono::system_clock::now());
  const std::string line = log_line(chosen, now, level, text, left_out.exchange(0));
  // If nobody listens any more there is nobody to tell.
  [[maybe_unused]] const auto count = write(STDERR_FILENO, line.data(), line.size());
}

void log_warnings(const policy::Source& source, const policy::Problems& warnings) {
  constexpr std::size_t enough = 20;
  for (std::size_t i = 0; i < std::min(warnings.size(), enough); ++i) {
    log(Level::warning, "{}", source.render(warnings[i]));
  }
  if (warnings.size() <= enough) return;
  log(Level::warning, "{} has {} more warnings: `weir validate` shows all", source.name,
      warnings.size() - enough);
}

}  // namespace weir::server
