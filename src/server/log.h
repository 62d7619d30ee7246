#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "policy/source.h"
#include "weir/time.h"

namespace weir::server {

// audit: who has changed what, which is never left out.
enum class Level { info, warning, error, audit };
enum class LogFormat { text, json };

// Lines for people, or an object a line for machines. To be chosen before anything is logged.
void use_log_format(LogFormat format);

// A line on standard error, with the time. Whoever has much to say is cut short: what was left out
// is counted and told with the next line. Thread-safe: a line is one write.
void write_log(Level level, std::string_view text);

template <typename... Args>
void log(Level level, fmt::format_string<Args...> format, Args&&... args) {
  write_log(level, fmt::format(format, std::forward<Args>(args)...));
}

// What a file is warned of, with its places: some of it, if it is much.
void log_warnings(const policy::Source& source, const policy::Problems& warnings);

// The line, with its end. `left_out` is how many were, before it.
std::string log_line(LogFormat format, Instant time, Level level, std::string_view text,
                     std::uint64_t left_out);

}  // namespace weir::server
