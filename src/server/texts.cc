#include "server/texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/utf8.h"

namespace weir::server {

namespace {

// As much as somebody wants to know: 250ms, 4.2s, 3h 20min.
std::string duration(Nanos time) {
  const std::int64_t ms = wire::millis_up(time);
  if (ms < 1000) return fmt::format("{}ms", ms);
  if (ms < 60'000) return fmt::format("{:g}s", static_cast<double>(ms) / 1000);
  const std::int64_t minutes = (ms + 59'999) / 60'000;
  if (minutes < 60) return fmt::format("{}min", minutes);
  if (minutes < 48 * 60) return fmt::format("{}h {}min", minutes / 60, minutes % 60);
  return fmt::format("{} days", (minutes + 24 * 60 - 1) / (24 * 60));
}

std::string outcome(const Decision& decision, Permits cost) {
  switch (decision.outcome) {
    case Outcome::allowed:
      return decision.wait > Nanos{0} ? "passes, to wait " + duration(decision.wait) : "passes";
    case Outcome::limited:
      return "refuses, would pass in " + duration(decision.retry_after);
    case Outcome::impossible:
      return fmt::format("can never pass: {} are more than it ever holds", cost);
  }
  return {};
}

std::string of_origin(const LimitOrigin& origin) {
  switch (origin.kind) {
    case LimitOrigin::Kind::policy:
      break;
    case LimitOrigin::Kind::override_of_key:
      return fmt::format(", override of {}", in_quotes(shortened(origin.text)));
    case LimitOrigin::Kind::schedule:
      return fmt::format(", schedule of {}", origin.text);
  }
  return {};
}

}  // namespace

std::string lower(std::string_view text) {
  std::string lowered{text};
  std::transform(lowered.begin(), lowered.end(), lowered.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lowered;
}

std::string in_quotes(std::string_view text) {
  std::string out;
  wire::append_json_string(out, text);
  return out;
}

std::string subject_of(const Request& request) {
  if (request.parts.empty()) return in_quotes(shortened(request.key));
  std::string all;
  for (const Part& part : request.parts.all()) {
    all += fmt::format("{}{}={}", all.empty() ? "" : " ", in_quotes(shortened(part.name)),
                       in_quotes(shortened(part.value)));
  }
  return all;
}

std::string explained(const LimitState& limit) {
  const Decision& decision = limit.decision;
  std::string line = fmt::format("{}: {}", limit.name, limit.limit);
  line += of_origin(limit.origin);
  if (limit.share) {
    line += fmt::format(", this node's part {} of {}", limit.share->part, limit.share->whole);
  }
  line += fmt::format(": {} of {} left", decision.remaining, decision.limit);
  if (decision.reset_after > Nanos{0}) {
    line += ", at rest in " + duration(decision.reset_after);
  }
  line += fmt::format("; a cost of {} {}", limit.cost, outcome(decision, limit.cost));
  if (limit.shadow) line += " (a shadow: never refuses)";
  return line;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

}  // namespace weir::server
