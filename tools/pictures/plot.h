#pragma once

#include <string_view>
#include <vector>

#include "svg.h"

namespace weir::pictures {

struct Range {
  double low = 0;
  double high = 1;
};

// A rectangle of the picture with a scale on each axis.
struct Plot {
  Point corner{};  // top left, in pixels
  double width = 0;
  double height = 0;
  Range x{};
  Range y{};

  double px(double value) const { return corner.x + width * (value - x.low) / (x.high - x.low); }
  double py(double value) const {
    return corner.y + height - height * (value - y.low) / (y.high - y.low);
  }
  Point at(double x_value, double y_value) const { return {px(x_value), py(y_value)}; }
  double bottom() const { return corner.y + height; }
  double right() const { return corner.x + width; }
};

struct Axis {
  double step = 1;
  int decimals = 0;
  std::string_view label = "";
};

// Grid lines, numbers and a label with its unit.
void x_axis(Svg& svg, const Plot& plot, const Axis& axis);
void y_axis(Svg& svg, const Plot& plot, const Axis& axis);

// A dashed line across the plot.
void level(Svg& svg, const Plot& plot, double y);

// The points in plot coordinates, joined.
void curve(Svg& svg, const Plot& plot, const std::vector<Point>& points, const Stroke& stroke);
void fill_below(Svg& svg, const Plot& plot, const std::vector<Point>& points,
                std::string_view colour);

// The heading, and below it a description.
void heading(Svg& svg, std::string_view title, std::string_view subtitle);

struct LegendEntry {
  enum class Mark { passed, waited, refused } mark;
  std::string_view words;
  double width;  // distance to the next entry
};
void legend(Svg& svg, Point at, const std::vector<LegendEntry>& entries);

}  // namespace weir::pictures
