#include <fmt/format.h>

#include "pictures.h"
#include "plot.h"
#include "run.h"

namespace weir::pictures {

namespace {

using namespace std::chrono_literals;

constexpr core::Rate kRate{.count = 10, .period = 1s};

// Twenty calls around the edge of a window at 1 s: ten before, ten after.
std::vector<Nanos> arrivals() { return evenly(700ms, 20, 30ms); }

// The number of calls that have passed within the past second, as steps.
std::vector<Point> past_second(const std::vector<Call>& calls, const Range& time) {
  std::vector<Point> steps{{time.low, 0}};
  for (Nanos t = 0s; seconds(t) <= time.high; t += 5ms) {
    const int count = released_within(calls, t, 1s);
    if (count == steps.back().y) continue;
    steps.push_back({seconds(t), steps.back().y});
    steps.push_back({seconds(t), static_cast<double>(count)});
  }
  steps.push_back({time.high, steps.back().y});
  return steps;
}

void draw_marks(Svg& svg, const Plot& plot, const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    const Point at{plot.px(seconds(call.at)), plot.corner.y - 13};
    call.passed() ? svg.passed(at) : svg.refused(at);
  }
}

void draw_edges(Svg& svg, const Plot& plot) {
  for (const double edge : {1.0, 2.0}) {
    svg.line({plot.px(edge), plot.corner.y - 24}, {plot.px(edge), plot.bottom()},
             {.colour = ink::axis, .width = 1.5});
  }
}

void panel(Svg& svg, double top, const core::Limit& limit, std::string_view form,
           std::string_view remark) {
  const Plot plot{
      .corner = {76, top + 52}, .width = 620, .height = 100, .x = {0.5, 2.5}, .y = {0, 22}};
  const std::vector<Call> calls = run(limit, arrivals());
  svg.text({76, top + 16}, form, {.size = 14, .bold = true, .code = true});
  svg.text({250, top + 16}, fmt::format("{} of 20 pass. {}", count_passed(calls), remark));
  x_axis(svg, plot, {.step = 0.25, .decimals = 2});
  y_axis(svg, plot, {.step = 10});
  draw_edges(svg, plot);
  const std::vector<Point> count = past_second(calls, plot.x);
  fill_below(svg, plot, count, ink::passed);
  curve(svg, plot, count, {.colour = ink::passed, .width = 2});
  level(svg, plot, 10);
  svg.text({plot.right() + 8, plot.py(10) + 4}, "the limit", {.size = 12});
  draw_marks(svg, plot, calls);
}

}  // namespace

std::string window_edge() {
  Svg svg(800, 660, "A fixed window admits twice its limit around an edge");
  heading(svg, "A fixed window admits twice its limit around an edge",
          "The same twenty calls, 30 ms apart, asked of three limits of ten a second.");
  panel(svg, 74, sound(core::Window::make(kRate, false)), "10/s window",
        "Ten close one window, ten open the next.");
  panel(svg, 256, sound(core::SlidingCounter::make(kRate)), "10/s sliding",
        "The ten before the edge fade, a tenth each 0.1 s.");
  panel(svg, 438, sound(core::SlidingLog::make(kRate)), "10/s sliding exact",
        "Every call counts for one second.");
  svg.vertical_text({30, 340}, "calls passed within the past second",
                    {.size = 12, .colour = ink::quiet, .anchor = Anchor::middle});
  svg.text({696, 624}, "time [s]", {.size = 12, .colour = ink::quiet, .anchor = Anchor::end});
  legend(svg, {76, 640},
         {{LegendEntry::Mark::passed, "passed", 80}, {LegendEntry::Mark::refused, "refused", 90}});
  svg.line({250, 626}, {250, 644}, {.colour = ink::axis, .width = 1.5});
  svg.text({260, 640}, "edge of a window, aligned to whole seconds",
           {.size = 12, .colour = ink::quiet});
  return svg.finish();
}

}  // namespace weir::pictures
