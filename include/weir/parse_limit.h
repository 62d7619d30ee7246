#pragma once

#include <string>
#include <string_view>

#include "weir/limit.h"
#include "weir/result.h"

namespace weir {
inline namespace v0 {

// Parses the text of a limit: "20/s burst 30", "5/min sliding", "10/s queue 50", "1000/day in
// Asia/Shanghai", "200/s warmup 10s", "8 concurrent lease 30s". All forms: docs/limits.md.
// Thread-safe. The error says what is wrong, where, and what to write.
Result<Limit, Error> parse_limit(std::string_view text);

// The shortest text of a limit; parse_limit reads it back as the same limit.
std::string to_string(const Limit& limit);

}  // namespace v0
}  // namespace weir
