#include "policy/identity.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/calendar.h"
#include "policy/units.h"

namespace weir::policy {

namespace {

// Length-prefixed, so that different lists of texts never have the same encoding.
void append_text(std::string& identity, std::string_view text) {
  identity += fmt::format("{}:{};", text.size(), text);
}

std::string period_of(const core::CalendarWindow& limit) {
  const auto* calendar = dynamic_cast<const ZoneCalendar*>(limit.calendar.get());
  if (calendar == nullptr) return "calendar";
  return fmt::format("{} {} {}", static_cast<int>(calendar->unit()), calendar->zone(),
                     calendar->anchor());
}
std::string period_of(const core::Concurrency&) { return {}; }
std::string period_of(const core::RedisCell&) { return {}; }
template <typename L>
std::string period_of(const L& limit) {
  if constexpr (requires { limit.rate; }) {
    return fmt::format("{}", limit.rate.period.count());
  } else {
    return fmt::format("{}", limit.period.count());
  }
}

std::string algorithm_of(const core::Limit& limit) {
  const auto* window = std::get_if<core::Window>(&limit);
  return fmt::format("{}{}", limit.index(), window && window->from_first ? "f" : "");
}

std::string known_by(const Limit& limit) {
  std::string text;
  append_text(text, algorithm_of(limit.limit));
  if (!limit.name.empty()) {
    append_text(text, "name");
    append_text(text, limit.name);
    return text;
  }
  append_text(text, std::visit([](const auto& rule) { return period_of(rule); }, limit.limit));
  for (const std::string& part : limit.by) append_text(text, part);
  return text;
}

// ---- Readable identities

// A bucket and a queue have one word: usage survives a change from one to the other.
std::string_view word_for(const core::Bucket&) { return "bucket"; }
std::string_view word_for(const core::NginxQueue&) { return "nginx"; }
std::string_view word_for(const core::Smooth&) { return "smooth"; }
std::string_view word_for(const core::Window& limit) {
  return limit.from_first ? "window-from-first" : "window";
}
std::string_view word_for(const core::SlidingCounter&) { return "sliding"; }
std::string_view word_for(const core::CalendarWindow&) { return "quota"; }
std::string_view word_for(const core::SlidingLog&) { return "exact"; }
std::string_view word_for(const core::Concurrency&) { return "concurrent"; }
std::string_view word_for(const core::RedisCell&) { return "cell"; }

std::string readable_period(const core::CalendarWindow& limit) {
  const auto* calendar = dynamic_cast<const ZoneCalendar*>(limit.calendar.get());
  if (calendar == nullptr) return "calendar";
  const std::string text = fmt::format("{}@{}", unit_name(calendar->unit()), calendar->zone());
  return calendar->anchor() == 1 ? text : fmt::format("{}+{}", text, calendar->anchor());
}
std::string readable_period(const core::Concurrency&) { return {}; }
std::string readable_period(const core::RedisCell&) { return {}; }
template <typename L>
std::string readable_period(const L& limit) {
  if constexpr (requires { limit.rate; }) {
    return to_text(limit.rate.period);
  } else {
    return to_text(limit.period);
  }
}

std::string readable(const Limit& limit) {
  const std::string_view algorithm =
      std::visit([](const auto& rule) { return word_for(rule); }, limit.limit);
  if (!limit.name.empty()) return fmt::format("{}={}", algorithm, limit.name);
  const std::string period =
      std::visit([](const auto& rule) { return readable_period(rule); }, limit.limit);
  return period.empty() ? std::string{algorithm} : fmt::format("{}/{}", algorithm, period);
}

}  // namespace

std::vector<std::string> readable_identities_of(const std::vector<Limit>& limits) {
  std::vector<std::string> equals;
  std::vector<std::string> identities;
  for (const Limit& limit : limits) {
    // Limits by different parts may have equal names here, since keys contain the names of parts.
    std::string known = readable(limit);
    std::string with_parts = known;
    for (const std::string& part : limit.by) append_text(with_parts, part);
    equals.push_back(std::move(with_parts));
    const auto ordinal = std::ranges::count(equals, equals.back());
    identities.push_back(ordinal == 1 ? known : fmt::format("{}/{}", known, ordinal));
  }
  return identities;
}

std::vector<std::string> identities_of(std::string_view policy, const std::vector<Limit>& limits) {
  std::vector<std::string> equals;
  std::vector<std::string> identities;
  for (const Limit& limit : limits) {
    equals.push_back(known_by(limit));
    std::string identity;
    append_text(identity, policy);
    append_text(identity, equals.back());
    append_text(identity, fmt::format("{}", std::ranges::count(equals, equals.back())));
    identities.push_back(std::move(identity));
  }
  return identities;
}

}  // namespace weir::policy
