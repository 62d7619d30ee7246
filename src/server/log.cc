#include "server/log.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <chrono>

namespace weir::server {

void write_log(Level level, std::string_view text) {
  using std::chrono::system_clock;
  constexpr std::string_view names[] = {"info   ", "warning", "error  "};
  const auto now = system_clock::now();
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  const std::string line =
      fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z {} {}\n", fmt::gmtime(system_clock::to_time_t(now)),
                  millis.count() % 1000, names[static_cast<int>(level)], text);
  // If nobody listens any more there is nobody to tell.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace weir::server
