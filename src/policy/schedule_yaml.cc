#include "policy/schedule_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/ascii.h"
#include "base/suggest.h"
#include "policy/values.h"
#include "policy/zone.h"

namespace weir::policy {

namespace {

constexpr std::array<std::string_view, 7> kDays{"mon", "tue", "wed", "thu", "fri", "sat", "sun"};

// The day for a misspelling such as "monday" or "Mon", for the suggestion.
std::string day_meant_by(std::string_view written) {
  const std::string small = lowered(written.substr(0, 3));
  if (std::ranges::find(kDays, small) == kDays.end()) return did_you_mean(written, kDays);
  return fmt::format(" (did you mean \"{}\"?)", small);
}

std::optional<int> read_day(std::string_view text, SourcePosition place, Problems& problems) {
  const auto day = std::ranges::find(kDays, text);
  if (day != kDays.end()) return static_cast<int>(day - kDays.begin());
  problems.push_back({place, fmt::format("{} is not a day: write mon, tue, wed, thu, fri, sat "
                                         "or sun, a range like mon-fri or a list of them{}",
                                         in_quotes(text), day_meant_by(text))});
  return std::nullopt;
}

// A day, or a range of days, which may wrap around the end of the week.
std::uint8_t read_range(const YamlNode& node, Problems& problems) {
  if (!node.is_scalar()) {
    problems.push_back({node.place, fmt::format("\"days\" is a day, a range like mon-fri or a list "
                                                "of them, not {}",
                                                node.describe())});
    return 0;
  }
  const std::string_view text = node.text;
  const std::size_t dash = text.find('-');
  const auto first = read_day(text.substr(0, dash), node.text_place(), problems);
  auto last = first;
  if (dash != std::string_view::npos) {
    last = read_day(text.substr(dash + 1), node.text_place().moved(dash + 1), problems);
  }
  if (!first || !last) return 0;
  std::uint8_t days = 0;
  for (int day = *first;; day = (day + 1) % 7) {
    days = static_cast<std::uint8_t>(days | 1 << day);
    if (day == *last) return days;
  }
}

std::uint8_t read_days(const YamlNode& node, Problems& problems) {
  if (!node.is_list()) return read_range(node, problems);
  if (node.items.empty())
    problems.push_back({node.place, "\"days\" names no day: write one, or leave it out"});
  std::uint8_t days = 0;
  for (const auto& item : node.items) {
    days = static_cast<std::uint8_t>(days | read_range(*item, problems));
  }
  return days;
}

std::optional<int> number_in(std::string_view text, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || text.size() > 2 || text.front() == '-' || value > most) return std::nullopt;
  return value;
}

// Parses 09:30; 00:00 to 24:00.
std::optional<std::chrono::minutes> time_in(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.size() - colon != 3) return std::nullopt;
  const auto hours = number_in(text.substr(0, colon), 24);
  const auto minutes = number_in(text.substr(colon + 1), 59);
  if (!hours || !minutes || (*hours == 24 && *minutes != 0)) return std::nullopt;
  return std::chrono::hours{*hours} + std::chrono::minutes{*minutes};
}

void read_times(const YamlNode& node, Hours& hours, Problems& problems) {
  const std::string_view text = node.text;
  const std::size_t dash = text.find('-');
  const bool has_both = node.is_scalar() && dash != std::string_view::npos;
  const auto from = has_both ? time_in(text.substr(0, dash)) : std::nullopt;
  const auto to = has_both ? time_in(text.substr(dash + 1)) : std::nullopt;
  if (!from || !to || *from == std::chrono::hours{24}) {
    problems.push_back(
        {node.place, fmt::format("\"hours\" are written like 09:00-18:00, from 00:00 "
                                 "to 24:00, not {}",
                                 node.describe())});
    return;
  }
  if (*from == *to) {
    problems.push_back(
        {node.place, fmt::format("the time from {0} to {0} is empty: leave \"hours\" "
                                 "out for the whole day",
                                 text.substr(0, dash))});
    return;
  }
  hours.from = *from;
  hours.to = *to;
}

void read_zone(const YamlNode& node, Hours& hours, Problems& problems) {
  const std::size_t before = problems.size();
  const std::string name = read_text(node, "in", problems);
  if (problems.size() > before) return;
  const auto zone = load_zone(name);
  if (zone) {
    hours.zone = *zone;
  } else {
    problems.push_back({node.text_place(), zone.error()});
  }
}

}  // namespace

Hours read_hours(const YamlNode& shift, Problems& problems) {
  Hours hours;
  const YamlNode* days = shift.find("days");
  const YamlNode* times = shift.find("hours");
  if (days == nullptr && times == nullptr) {
    problems.push_back({shift.place,
                        "days or hours are missing: write days: mon-fri, hours: 09:00-18:00 or "
                        "both"});
  }
  if (days != nullptr) hours.days = read_days(*days, problems);
  if (times != nullptr) read_times(*times, hours, problems);
  if (const YamlNode* zone = shift.find("in")) read_zone(*zone, hours, problems);
  return hours;
}

}  // namespace weir::policy
