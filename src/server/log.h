#pragma once

#include <fmt/format.h>

#include <string_view>

namespace weir::server {

enum class Level { info, warning, error };

// A line on standard error, with the time. Safe from any thread: a line is one write.
void write_log(Level level, std::string_view text);

template <typename... Args>
void log(Level level, fmt::format_string<Args...> format, Args&&... args) {
  write_log(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace weir::server
