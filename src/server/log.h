#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "policy/source.h"
#include "weir/time.h"

namespace weir::server {

// audit: administrative changes. Never dropped by the rate limit.
enum class LogLevel { info, warning, error, audit };
enum class LogFormat { text, json };

// Lines for people, or one JSON object per line. To be set before anything is logged.
void use_log_format(LogFormat format);

// Writes a line with the time to standard error. Rate limited: the number of dropped lines is
// written with the next line. Thread-safe: a line is one write(2).
void write_log(LogLevel level, std::string_view text);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  write_log(level, fmt::format(format, std::forward<Args>(args)...));
}

// Logs the warnings about a file, with their positions: the first 20 of them.
void log_warnings(const policy::Source& source, const policy::Problems& warnings);

// The line as it is written, with its line end. `dropped`: the lines that were dropped before it.
std::string log_line(LogFormat format, Instant time, LogLevel level, std::string_view text,
                     std::uint64_t dropped);

}  // namespace weir::server
