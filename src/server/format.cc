#include "server/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/suggest.h"
#include "base/utf8.h"
#include "policy/limit_text.h"
#include "policy/limit_yaml.h"

namespace weir::server {

std::string duration_text(Nanos time) {
  const std::int64_t ms = wire::millis_up(time);
  if (ms < 1000) return fmt::format("{}ms", ms);
  if (ms < 60'000) return fmt::format("{:g}s", static_cast<double>(ms) / 1000);
  // Two units, rounded up: a client must not retry too early.
  const auto in_two_units = [](std::int64_t all, std::int64_t per_large, std::string_view large,
                               std::string_view small) {
    const std::int64_t rest = all % per_large;
    const std::string first = fmt::format("{}{}", all / per_large, large);
    return rest == 0 ? first : fmt::format("{} {}{}", first, rest, small);
  };
  const std::int64_t seconds = (ms + 999) / 1000;
  if (seconds < 3600) return in_two_units(seconds, 60, "min", "s");
  const std::int64_t minutes = (seconds + 59) / 60;
  if (minutes <= 48 * 60) return in_two_units(minutes, 60, "h", "min");
  return in_two_units((minutes + 59) / 60, 24, " days", "h");
}

namespace {

std::string outcome(const Decision& decision, Permits cost) {
  switch (decision.outcome) {
    case Outcome::allowed:
      return decision.wait > Nanos{0} ? "passes, to wait " + duration_text(decision.wait)
                                      : "passes";
    case Outcome::limited:
      return "is refused, would pass in " + duration_text(decision.retry_after);
    case Outcome::impossible:
      return fmt::format("can never pass: {} are more than it ever holds", cost);
  }
  return {};
}

std::string origin_text(const LimitOrigin& origin) {
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

std::string no_such_policy(std::string_view name, std::span<const std::string_view> known) {
  return fmt::format("there is no policy \"{}\"{}", shortened(name), did_you_mean(name, known));
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

std::string limit_state_text(const LimitState& limit) {
  const Decision& decision = limit.decision;
  std::string line = fmt::format("{}: {}", limit.name, limit.limit);
  line += origin_text(limit.origin);
  if (limit.share) {
    line += fmt::format(", this node's part {} of {}", limit.share->part, limit.share->whole);
  }
  line += fmt::format(": {} of {} left", decision.remaining, decision.limit);
  if (decision.reset_after > Nanos{0}) {
    line += ", full again in " + duration_text(decision.reset_after);
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

std::string limit_text(const policy::Limit& limit) {
  std::string text = limit.name.empty() ? "" : limit.name + ": ";
  text += policy::to_text(limit.limit);
  if (!limit.by.empty()) text += fmt::format(" by {}", fmt::join(limit.by, "+"));
  if (!limit.cost.permits) text += fmt::format(", cost {}", limit.cost.fixed);
  if (limit.scope != policy::Scope::standard) {
    text += fmt::format(", scope {}", policy::to_text(limit.scope));
  }
  return limit.shadow ? text + ", shadow" : text;
}

std::string limit_text(const std::vector<policy::Limit>& limits) {
  std::string text;
  for (const policy::Limit& limit : limits) text += (text.empty() ? "" : "; ") + limit_text(limit);
  return text;
}

}  // namespace weir::server
