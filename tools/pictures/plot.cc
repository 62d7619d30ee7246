#include "plot.h"

#include <fmt/format.h>

#include <cmath>

namespace weir::pictures {

namespace {

constexpr Stroke kGrid{.colour = ink::grid, .width = 1};
constexpr Stroke kAxisLine{.colour = ink::axis, .width = 1};

std::vector<double> ticks(const Range& range, double step) {
  std::vector<double> values;
  const auto first = static_cast<int>(std::ceil(range.low / step - 1e-9));
  const auto last = static_cast<int>(std::floor(range.high / step + 1e-9));
  for (int i = first; i <= last; ++i) values.push_back(i * step);
  return values;
}

std::string tick_text(double value, const Axis& axis) {
  return fmt::format("{:.{}f}", value, axis.decimals);
}

std::vector<Point> placed(const Plot& plot, const std::vector<Point>& points) {
  std::vector<Point> on_paper;
  for (const Point& p : points) on_paper.push_back(plot.at(p.x, p.y));
  return on_paper;
}

}  // namespace

void x_axis(Svg& svg, const Plot& plot, const Axis& axis) {
  for (const double value : ticks(plot.x, axis.step)) {
    const double x = plot.px(value);
    svg.line({x, plot.corner.y}, {x, plot.bottom()}, kGrid);
    svg.text({x, plot.bottom() + 16}, tick_text(value, axis),
             {.size = 12, .colour = ink::quiet, .anchor = Anchor::middle});
  }
  svg.line({plot.corner.x, plot.bottom()}, {plot.right(), plot.bottom()}, kAxisLine);
  svg.text({plot.right(), plot.bottom() + 34}, axis.label,
           {.size = 12, .colour = ink::quiet, .anchor = Anchor::end});
}

void y_axis(Svg& svg, const Plot& plot, const Axis& axis) {
  for (const double value : ticks(plot.y, axis.step)) {
    const double y = plot.py(value);
    svg.line({plot.corner.x, y}, {plot.right(), y}, kGrid);
    svg.text({plot.corner.x - 8, y + 4}, tick_text(value, axis),
             {.size = 12, .colour = ink::quiet, .anchor = Anchor::end});
  }
  svg.vertical_text({plot.corner.x - 44, plot.corner.y + plot.height / 2}, axis.label,
                    {.size = 12, .colour = ink::quiet, .anchor = Anchor::middle});
}

void level(Svg& svg, const Plot& plot, double y) {
  svg.line(plot.at(plot.x.low, y), plot.at(plot.x.high, y),
           {.colour = ink::limit, .width = 1.2, .dashes = "6 4"});
}

void curve(Svg& svg, const Plot& plot, const std::vector<Point>& points, const Stroke& stroke) {
  svg.polyline(placed(plot, points), stroke);
}

void fill_below(Svg& svg, const Plot& plot, const std::vector<Point>& points,
                std::string_view colour) {
  std::vector<Point> outline = placed(plot, points);
  outline.push_back({outline.back().x, plot.bottom()});
  outline.push_back({outline.front().x, plot.bottom()});
  svg.area(outline, colour, 0.12);
}

void heading(Svg& svg, std::string_view title, std::string_view subtitle) {
  svg.text({24, 34}, title, {.size = 19, .bold = true});
  svg.text({24, 56}, subtitle, {.size = 13, .colour = ink::quiet});
}

void legend(Svg& svg, Point at, const std::vector<LegendEntry>& entries) {
  for (const LegendEntry& entry : entries) {
    const Point mark{at.x + 5, at.y - 4};
    switch (entry.mark) {
      case LegendEntry::Mark::passed:
        svg.passed(mark);
        break;
      case LegendEntry::Mark::waited:
        svg.waited(mark);
        break;
      case LegendEntry::Mark::refused:
        svg.refused(mark);
        break;
    }
    svg.text({at.x + 16, at.y}, entry.words, {.size = 12, .colour = ink::quiet});
    at.x += entry.width;
  }
}

}  // namespace weir::pictures
