#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weir::pictures {

struct Point {
  double x = 0;
  double y = 0;
};

// Colours that can be told apart by colour-blind readers and in print; shapes differ as well.
namespace ink {
inline constexpr std::string_view paper = "#ffffff";
inline constexpr std::string_view text = "#1c2733";
inline constexpr std::string_view quiet = "#5b6774";
inline constexpr std::string_view grid = "#e4e8ec";
inline constexpr std::string_view axis = "#98a3ad";
inline constexpr std::string_view passed = "#0a66b5";
inline constexpr std::string_view waited = "#d07c00";
inline constexpr std::string_view refused = "#c22f3d";
inline constexpr std::string_view limit = "#1c2733";
}  // namespace ink

enum class Anchor { start, middle, end };

struct Font {
  double size = 13;
  std::string_view colour = ink::text;
  Anchor anchor = Anchor::start;
  bool bold = false;
  bool code = false;
};

struct Stroke {
  std::string_view colour = ink::text;
  double width = 1;
  std::string_view dashes = "";
};

// An SVG picture under construction, with its own background so that it is readable on any page.
// Numbers are written with at most two decimals: the same picture has the same bytes.
class Svg {
 public:
  Svg(double width, double height, std::string_view title);

  void text(Point at, std::string_view words, const Font& font = {});
  void vertical_text(Point at, std::string_view words, const Font& font = {});
  void line(Point from, Point to, const Stroke& stroke);
  void polyline(std::span<const Point> points, const Stroke& stroke);
  void area(std::span<const Point> outline, std::string_view colour, double opacity);
  void box(Point corner, double width, double height, std::string_view colour, double opacity = 1);

  // The three outcomes of a call.
  void passed(Point at);
  void waited(Point at);
  void refused(Point at);

  std::string finish() const;

 private:
  std::string body_;
};

}  // namespace weir::pictures
