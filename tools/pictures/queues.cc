#include <fmt/format.h>

#include <algorithm>

#include "pictures.h"
#include "plot.h"
#include "run.h"

namespace weir::pictures {

namespace {

using namespace std::chrono_literals;

constexpr core::Rate kRate{.count = 5, .period = 1s};
constexpr Permits kPlaces = 5;

// Eight calls at once, four more half a second later.
std::vector<Nanos> arrivals() {
  std::vector<Nanos> times(8, 0ms);
  times.insert(times.end(), 4, 500ms);
  return times;
}

void draw_call(Svg& svg, const Plot& plot, double row, const Call& call) {
  const Point arrived = plot.at(seconds(call.at), row);
  if (!call.passed()) return svg.refused(arrived);
  if (!call.waited()) return svg.passed(arrived);
  const Point left = plot.at(seconds(call.released()), row);
  svg.line(arrived, left, {.colour = ink::waited, .width = 2});
  svg.waited(left);
}

void draw_call_numbers(Svg& svg, const Plot& plot) {
  for (int call = 1; call <= 12; ++call) {
    svg.text({plot.corner.x - 10, plot.py(call) + 4}, fmt::format("{}", call),
             {.size = 12, .colour = ink::quiet, .anchor = Anchor::end});
  }
  svg.vertical_text({plot.corner.x - 36, plot.corner.y + plot.height / 2},
                    "calls, in the order they came",
                    {.size = 12, .colour = ink::quiet, .anchor = Anchor::middle});
}

Plot panel(Svg& svg, double left, std::string_view form, std::string_view remark,
           Permits undelayed) {
  const Plot plot{
      .corner = {left, 128}, .width = 212, .height = 288, .x = {-0.1, 1.6}, .y = {12.7, 0.3}};
  svg.text({left, 96}, form, {.size = 13, .bold = true, .code = true});
  svg.text({left, 115}, remark, {.size = 12, .colour = ink::quiet});
  x_axis(svg, plot, {.step = 0.4, .decimals = 1, .label = "time [s]"});
  const auto limit = sound(core::Bucket::make_queue(kRate, kPlaces, undelayed));
  double row = 1;
  for (const Call& call : run(limit, arrivals(), kForever)) draw_call(svg, plot, row++, call);
  return plot;
}

}  // namespace

std::string queues() {
  Svg svg(800, 496, "One burst, three ways to queue it");
  heading(svg, "One burst, three ways to queue it",
          "Eight calls at 0 s, four more at 0.5 s. The same calls pass; when they leave differs.");
  const Plot first = panel(svg, 68, "5/s queue 5", "evenly spaced, always", 0);
  panel(svg, 316, "5/s queue 5 delay 2", "two more need not wait", 2);
  panel(svg, 564, "5/s queue 5 nodelay", "no call waits", kPlaces);
  draw_call_numbers(svg, first);
  legend(svg, {68, 474},
         {{LegendEntry::Mark::passed, "left at once", 120},
          {LegendEntry::Mark::waited, "waited, and left here", 180},
          {LegendEntry::Mark::refused, "refused: all six places taken", 180}});
  return svg.finish();
}

}  // namespace weir::pictures
