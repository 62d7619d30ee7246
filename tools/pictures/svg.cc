#include "svg.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace weir::pictures {

namespace {

// Two decimals at most, no trailing zeros, no negative zero.
std::string number(double x) {
  const auto hundredths = std::llround(x * 100);
  std::string text = fmt::format("{:.2f}", static_cast<double>(hundredths) / 100);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string escaped(std::string_view words) {
  std::string safe;
  for (const char c : words) {
    if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string_view name(Anchor anchor) {
  switch (anchor) {
    case Anchor::middle:
      return "middle";
    case Anchor::end:
      return "end";
    case Anchor::start:
      break;
  }
  return "start";
}

std::string attributes(const Font& font) {
  return fmt::format(R"(font-size="{}" fill="{}" text-anchor="{}"{}{})", number(font.size),
                     font.colour, name(font.anchor), font.bold ? R"( font-weight="600")" : "",
                     font.code ? R"( class="code")" : "");
}

std::string attributes(const Stroke& stroke) {
  const std::string dashes =
      stroke.dashes.empty() ? "" : fmt::format(R"( stroke-dasharray="{}")", stroke.dashes);
  return fmt::format(R"(stroke="{}" stroke-width="{}"{})", stroke.colour, number(stroke.width),
                     dashes);
}

std::string coordinates(std::span<const Point> points) {
  std::string list;
  for (const Point& p : points) {
    fmt::format_to(std::back_inserter(list), "{}{},{}", list.empty() ? "" : " ", number(p.x),
                   number(p.y));
  }
  return list;
}

constexpr std::string_view kStyle =
    "text{font-family:'Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif}"
    ".code{font-family:'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace}";

}  // namespace

Svg::Svg(double width, double height, std::string_view title) {
  body_ = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img">)"
      "\n<title>{2}</title>\n<style>{3}</style>\n",
      number(width), number(height), escaped(title), kStyle);
  body_ += fmt::format(R"(<rect width="{}" height="{}" rx="8" fill="{}"/>)"
                       "\n",
                       number(width), number(height), ink::paper);
}

void Svg::text(Point at, std::string_view words, const Font& font) {
  body_ += fmt::format("<text x=\"{}\" y=\"{}\" {}>{}</text>\n", number(at.x), number(at.y),
                       attributes(font), escaped(words));
}

void Svg::vertical_text(Point at, std::string_view words, const Font& font) {
  body_ += fmt::format("<text transform=\"translate({} {}) rotate(-90)\" {}>{}</text>\n",
                       number(at.x), number(at.y), attributes(font), escaped(words));
}

void Svg::line(Point from, Point to, const Stroke& stroke) {
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {}/>\n", number(from.x),
                       number(from.y), number(to.x), number(to.y), attributes(stroke));
}

void Svg::polyline(std::span<const Point> points, const Stroke& stroke) {
  body_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke-linejoin=\"round\" {}/>\n",
                       coordinates(points), attributes(stroke));
}

void Svg::area(std::span<const Point> outline, std::string_view colour, double opacity) {
  body_ += fmt::format("<polygon points=\"{}\" fill=\"{}\" fill-opacity=\"{}\"/>\n",
                       coordinates(outline), colour, number(opacity));
}

void Svg::box(Point corner, double width, double height, std::string_view colour, double opacity) {
  body_ += fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" fill-opacity=\"{}\"/>\n",
      number(corner.x), number(corner.y), number(width), number(height), colour, number(opacity));
}

void Svg::passed(Point at) {
  body_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{}\"/>\n", number(at.x),
                       number(at.y), ink::passed);
}

void Svg::waited(Point at) {
  const Point diamond[] = {
      {at.x, at.y - 5.5}, {at.x + 5.5, at.y}, {at.x, at.y + 5.5}, {at.x - 5.5, at.y}};
  area(diamond, ink::waited, 1);
}

void Svg::refused(Point at) {
  const Stroke stroke{.colour = ink::refused, .width = 1.8};
  line({at.x - 3.5, at.y - 3.5}, {at.x + 3.5, at.y + 3.5}, stroke);
  line({at.x - 3.5, at.y + 3.5}, {at.x + 3.5, at.y - 3.5}, stroke);
}

std::string Svg::finish() const { return body_ + "</svg>\n"; }

}  // namespace weir::pictures
