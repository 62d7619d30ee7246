#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/limit.h"
#include "policy/source.h"

namespace weir::policy {

// A word somebody wrote, and where.
struct Word {
  std::string text;
  Place place;
};

// A limit taken apart into its words, which may come from one text ("100/s burst 20") or from the
// fields of a map ({rate: 100/s, burst: 20}).
struct LimitWords {
  Place place;                   // of the whole
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

// Takes a text form apart; `place` is where the text starts.
Result<LimitWords, Problem> split_limit(std::string_view text, Place place);

// Takes only the rate apart: "100/s", "100 per 90s". For the map form.
Result<LimitWords, Problem> split_rate(std::string_view text, Place place);

Result<core::Limit, Problem> build_limit(const LimitWords& words);

// Both: "100/s burst 20" → a bucket.
Result<core::Limit, Problem> parse_limit(std::string_view text, Place place = {});

// What a flaw in the numbers of a limit means to who wrote them.
std::string explain(core::Flaw flaw);

// "30s", "1.5h", "100ms".
Result<Nanos, Problem> parse_duration(std::string_view text, Place place = {});

// How long something lasts, as operators write it on a command line: 90s, 10min or 10m, 1d,
// 2h30min. A policy file is stricter, where "m" could be meant for months.
Result<Nanos, Problem> parse_span(std::string_view text);

// The shortest text form of a limit; parse_limit makes the same limit of it again. (What only a
// map can say, `like: nginx`, is left out.)
std::string to_text(const core::Limit& limit);

}  // namespace weir::policy
