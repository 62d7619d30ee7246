#include "policy/schedule.h"

#include <cctz/civil_time.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/time.h"

namespace weir::policy {

namespace {

using std::chrono::seconds;
using Seconds = std::chrono::sys_time<seconds>;

// Maximum number of missed changes that are applied one by one after a long pause.
constexpr std::size_t kMaxChanges = 16;

// Maximum number of edges without a change that a span extends over. Longer spans are cut there,
// and looked up again.
constexpr int kMaxEdges = 16;

struct Edges {
  Seconds start;
  Seconds end;
};

// The hours that begin on `day`; empty if a transition skips them.
Edges edges_of(const Hours& hours, const cctz::civil_day& day) {
  const auto shown = [&](const cctz::civil_day& date, std::chrono::minutes time) {
    return cctz::convert(cctz::civil_second(date) + seconds{time}.count(), hours.zone);
  };
  const bool over_midnight = hours.to <= hours.from;
  return {shown(day, hours.from), shown(over_midnight ? day + 1 : day, hours.to)};
}

bool is_among(const cctz::civil_day& day, std::uint8_t days) {
  return (days >> static_cast<int>(cctz::get_weekday(day)) & 1) != 0;
}

// Calls `visit` with the edges of all hours that begin `first` to `last` days after the day of `t`.
template <typename Visit>
void visit_days(const Hours& hours, Seconds t, int first, int last, Visit visit) {
  const cctz::civil_day today(cctz::convert(t, hours.zone));
  for (int i = first; i <= last; ++i) {
    if (is_among(today + i, hours.days)) visit(edges_of(hours, today + i));
  }
}

bool lies_in(const Hours& hours, Seconds t) {
  bool found = false;
  // A transition back at midnight may show the previous date again: include the day after.
  visit_days(hours, t, -2, 1, [&](const Edges& e) { found |= e.start <= t && t < e.end; });
  return found;
}

std::optional<std::size_t> shift_at(const Schedule& schedule, Seconds t) {
  const auto found =
      std::ranges::find_if(schedule, [&](const Shift& shift) { return lies_in(shift.hours, t); });
  if (found == schedule.end()) return std::nullopt;
  return static_cast<std::size_t>(found - schedule.begin());
}

constexpr std::chrono::days kEightDays{8};

Seconds next_edge(const Schedule& schedule, Seconds t) {
  Seconds next = t + kEightDays;
  for (const Shift& shift : schedule) {
    visit_days(shift.hours, t, -2, 8, [&](const Edges& e) {
      if (e.start > t) next = std::min(next, e.start);
      if (e.end > t) next = std::min(next, e.end);
    });
  }
  return next;
}

// The last edge that is not after `t`.
Seconds last_edge(const Schedule& schedule, Seconds t) {
  Seconds last = t - kEightDays;
  for (const Shift& shift : schedule) {
    visit_days(shift.hours, t, -9, 1, [&](const Edges& e) {
      if (e.start <= t) last = std::max(last, e.start);
      if (e.end <= t) last = std::max(last, e.end);
    });
  }
  return last;
}

}  // namespace

std::string to_text(const Hours& hours) {
  constexpr std::array<std::string_view, 7> names{"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
  const auto holds = [&](std::size_t day) { return (hours.days >> day & 1) != 0; };
  std::string text;
  for (std::size_t day = 0; day < names.size() && hours.days != Hours::kEveryDay; ++day) {
    if (!holds(day)) continue;
    const std::size_t first = day;
    while (day + 1 < names.size() && holds(day + 1)) ++day;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", names[first]);
    if (day > first) text += fmt::format("-{}", names[day]);
  }
  const bool all_day = hours.from.count() == 0 && hours.to == std::chrono::hours{24};
  if (!all_day) {
    text +=
        fmt::format("{}{:02}:{:02}-{:02}:{:02}", text.empty() ? "" : " ", hours.from.count() / 60,
                    hours.from.count() % 60, hours.to.count() / 60, hours.to.count() % 60);
  }
  if (text.empty()) return "every day";
  return hours.zone.name() == "UTC" ? text : fmt::format("{} in {}", text, hours.zone.name());
}

ActiveShift active_shift_at(const Schedule& schedule, Instant t) {
  constexpr seconds a_second{1};
  const Seconds now = std::chrono::floor<seconds>(in_range(t));
  const auto shift = shift_at(schedule, now);
  Seconds end = next_edge(schedule, now);
  for (int i = 0; i < kMaxEdges && shift_at(schedule, end) == shift; ++i) {
    end = next_edge(schedule, end);
  }
  Seconds start = last_edge(schedule, now);
  for (int i = 0; i < kMaxEdges && shift_at(schedule, start - a_second) == shift; ++i) {
    start = last_edge(schedule, start - a_second);
  }
  // Beyond the representable time nothing changes.
  return {shift,
          {t <= kEarliest ? Instant::min() : Instant{start},
           t >= kLatest ? Instant::max() : Instant{end}}};
}

core::Span steady_span(const Schedules& schedules, Instant t, const Ends& ends) {
  core::Span steady{Instant::min(), Instant::max()};
  for (const Schedule* schedule : schedules) {
    const core::Span span = active_shift_at(*schedule, t).span;
    steady = {std::max(steady.start, span.start), std::min(steady.end, span.end)};
  }
  for (const Instant end : ends) {
    (end <= t ? steady.start : steady.end) =
        end <= t ? std::max(steady.start, end) : std::min(steady.end, end);
  }
  return steady;
}

std::vector<Instant> changes_until(const Schedules& schedules, const core::Span& span, Instant now,
                                   const Ends& ends) {
  if (holds_at(span, now)) return {};
  if (now < span.start) return {now};
  std::vector<Instant> changes;
  for (Instant t = now; t >= span.end && changes.size() < kMaxChanges; t -= Nanos{1}) {
    t = std::max(steady_span(schedules, t, ends).start, span.end);
    changes.push_back(t);
  }
  std::ranges::reverse(changes);
  return changes;
}

}  // namespace weir::policy
