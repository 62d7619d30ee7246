#include "policy/identity.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/calendar.h"

namespace weir::policy {

namespace {

// Texts of unknown content, one after the other, so that no two lists look the same.
void append(std::string& identity, std::string_view text) {
  identity += fmt::format("{}:{};", text.size(), text);
}

std::string period_of(const core::Quota& limit) {
  const auto* calendar = dynamic_cast<const ZoneCalendar*>(limit.calendar.get());
  if (calendar == nullptr) return "calendar";
  return fmt::format("{} {} {}", static_cast<int>(calendar->unit()), calendar->zone(),
                     calendar->anchor());
}
std::string period_of(const core::Concurrency&) { return {}; }
std::string period_of(const core::Cell&) { return {}; }
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
  append(text, algorithm_of(limit.rule));
  if (!limit.name.empty()) {
    append(text, "name");
    append(text, limit.name);
    return text;
  }
  append(text, std::visit([](const auto& rule) { return period_of(rule); }, limit.rule));
  for (const std::string& part : limit.by) append(text, part);
  return text;
}

}  // namespace

std::vector<std::string> identities_of(std::string_view policy, const std::vector<Limit>& limits) {
  std::vector<std::string> equals;
  std::vector<std::string> identities;
  for (const Limit& limit : limits) {
    equals.push_back(known_by(limit));
    std::string identity;
    append(identity, policy);
    append(identity, equals.back());
    append(identity, fmt::format("{}", std::ranges::count(equals, equals.back())));
    identities.push_back(std::move(identity));
  }
  return identities;
}

}  // namespace weir::policy
