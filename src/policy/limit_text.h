#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/limit.h"
#include "policy/source.h"

namespace weir::policy {

// A word of a text, with its position.
struct Word {
  std::string text;
  SourcePosition place;
};

// The words of a limit, parsed from a text ("100/s burst 20") or from the fields of a map
// ({rate: 100/s, burst: 20}).
struct LimitWords {
  SourcePosition place;          // of the whole limit
  std::optional<Word> amount{};  // the N of N/s
  std::optional<Word> per{};     // the s of N/s, or the duration of N per 90s
  std::optional<Word> burst{};
  std::optional<Word> window{};   // "window", or "from first" for one that opens with the first hit
  std::optional<Word> sliding{};  // "sliding", or "exact"
  std::optional<Word> queue{};
  std::optional<Word> delay{};
  std::optional<Word> nodelay{};
  std::optional<Word> smooth{};
  std::optional<Word> warmup{};
  std::optional<Word> zone{};
  std::optional<Word> from_day{};
  std::optional<Word> concurrent{};  // "concurrent"
  std::optional<Word> lease{};
  std::optional<Word> like{};
};

// Splits a text form into words; `place` is the position of the text.
Result<LimitWords, Problem> split_limit(std::string_view text, SourcePosition place);

// Splits a rate alone: "100/s", "100 per 90s". For the map form.
Result<LimitWords, Problem> split_rate(std::string_view text, SourcePosition place);

Result<core::Limit, Problem> build_limit(const LimitWords& words);

// split_limit and build_limit: "100/s burst 20" → a bucket.
Result<core::Limit, Problem> parse_limit(std::string_view text, SourcePosition place = {});

// A message for invalid numbers of a limit: what is wrong, and what to write.
std::string explain(core::Flaw flaw);

// "30s", "1.5h", "100ms".
Result<Nanos, Problem> parse_duration(std::string_view text, SourcePosition place = {});

// A time span of the command line: 90s, 10min or 10m, 1d, 2h30min. Policy files use parse_duration,
// which refuses "m": there it could mean months.
Result<Nanos, Problem> parse_span(std::string_view text);

// The shortest text form of a limit, which parse_limit reads back as the same limit. `like: nginx`,
// which only the map form has, is left out.
std::string to_text(const core::Limit& limit);

}  // namespace weir::policy
