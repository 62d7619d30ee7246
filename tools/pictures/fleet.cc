#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "fleet_data.h"
#include "pictures.h"
#include "plot.h"

// Drawn from measurements of real daemons: tools/pictures/measure-fleet.

namespace weir::pictures {

namespace {

constexpr double kLimit = 1000;  // a second

// ---- Nearly all callers at one daemon

struct Uneven {
  std::string_view scope;
  std::span<const int> admitted;  // a second, by each daemon
  int questions;                  // to Redis, a second
  std::string_view remark;
};

const Uneven kUneven[] = {
    {"fleet", measured::fleet_uneven, measured::fleet_questions, "each call asks"},
    {"leased", measured::leased_uneven, measured::leased_questions, "borrowed where it is needed"},
    {"split", measured::split_uneven, measured::split_questions,
     "what is idle elsewhere stays unused"},
    {"node", measured::node_uneven, measured::node_questions, "each daemon has all of the limit"},
};

void draw_bar(Svg& svg, const Plot& plot, double top, const Uneven& of) {
  constexpr double height = 26;
  svg.text({plot.corner.x - 12, top + 18}, of.scope,
           {.size = 13, .anchor = Anchor::end, .code = true});
  double from = 0;
  for (std::size_t i = 0; i < of.admitted.size(); ++i) {
    const double to = from + of.admitted[i];
    svg.box({plot.px(from), top}, plot.px(to) - plot.px(from), height,
            i == 0 ? ink::passed : ink::waited, i % 2 == 0 ? 1 : 0.72);
    from = to;
  }
  svg.text({plot.right() + 16, top + 11},
           fmt::format("{:.0f}/s, {} questions/s", from, of.questions), {.size = 12});
  svg.text({plot.right() + 16, top + 27}, of.remark, {.size = 12, .colour = ink::quiet});
}

// ---- A daemon that is killed, and started again

struct Change {
  std::string_view scope;
  std::span<const int> rates;  // total rate of admissions, in each step
  std::string_view remark;
};

const Change kChanges[] = {
    {"fleet", measured::fleet_change, "who is asked does not matter"},
    {"leased", measured::leased_change, "lost is what it had borrowed and not spent"},
    {"split", measured::split_change,
     "its part is idle until the others may use it; a new node starts with nothing"},
};

std::vector<Point> steps(std::span<const int> rates) {
  std::vector<Point> line;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double from = static_cast<double>(i) * measured::step;
    line.push_back({from, static_cast<double>(rates[i])});
    line.push_back({from + measured::step, static_cast<double>(rates[i])});
  }
  return line;
}

void mark(Svg& svg, const Plot& plot, double when, std::string_view words) {
  svg.line(plot.at(when, plot.y.low), plot.at(when, plot.y.high),
           {.colour = ink::refused, .width = 1.2, .dashes = "3 3"});
  if (words.empty()) return;
  svg.text({plot.px(when), plot.corner.y - 6}, words,
           {.size = 12, .colour = ink::refused, .anchor = Anchor::middle});
}

void draw_change(Svg& svg, double top, const Change& of, bool first, bool last) {
  const Plot plot{.corner = {92, top}, .width = 660, .height = 96, .x = {0, 20}, .y = {0, 1500}};
  x_axis(svg, plot, {.step = 2, .label = last ? "time [s]" : ""});
  y_axis(svg, plot, {.step = 500, .label = "admitted/s"});
  fill_below(svg, plot, steps(of.rates), ink::passed);
  curve(svg, plot, steps(of.rates), {.colour = ink::passed, .width = 1.8});
  level(svg, plot, kLimit);
  mark(svg, plot, measured::killed_at, first ? "one of four is killed" : "");
  mark(svg, plot, measured::started_at, first ? "and started again" : "");
  svg.text({plot.corner.x + 10, plot.bottom() - 28}, of.scope,
           {.size = 13, .bold = true, .code = true});
  svg.text({plot.corner.x + 10, plot.bottom() - 11}, of.remark, {.size = 12, .colour = ink::text});
}

}  // namespace

std::string fleet_uneven() {
  Svg svg(800, 350, "One limit, four daemons, and nearly all callers at one of them");
  heading(svg, "One limit, four daemons, and nearly all callers at one of them",
          "1000/s; 1500/s are asked for, nine tenths of that of one daemon. Measured.");
  const Plot plot{.corner = {92, 92}, .width = 440, .height = 180, .x = {0, 1200}, .y = {0, 1}};
  x_axis(svg, plot, {.step = 200, .label = "admitted a second"});
  double top = plot.corner.y + 10;
  for (const Uneven& one : kUneven) {
    draw_bar(svg, plot, top, one);
    top += 43;
  }
  svg.line({plot.px(kLimit), plot.corner.y - 8}, {plot.px(kLimit), plot.bottom()},
           {.colour = ink::limit, .width = 1.2, .dashes = "6 4"});
  svg.text({plot.px(kLimit), plot.corner.y - 12}, "the limit",
           {.size = 12, .anchor = Anchor::middle});
  svg.box({92, 322}, 14, 14, ink::passed);
  svg.text({112, 334}, "the busy daemon", {.size = 12, .colour = ink::quiet});
  svg.box({240, 322}, 14, 14, ink::waited);
  svg.text({260, 334}, "the three others", {.size = 12, .colour = ink::quiet});
  return svg.finish();
}

std::string fleet_change() {
  Svg svg(800, 510, "A daemon that is killed, and started again");
  heading(svg, "A daemon that is killed, and started again",
          "1000/s on four daemons, evenly loaded; 1500/s are asked for. Measured, by quarters of a "
          "second.");
  double top = 104;
  for (const Change& change : kChanges) {
    draw_change(svg, top, change, &change == &kChanges[0], &change == std::end(kChanges) - 1);
    top += 134;
  }
  return svg.finish();
}

}  // namespace weir::pictures
