#include <algorithm>

#include "pictures.h"
#include "plot.h"
#include "run.h"

namespace weir::pictures {

namespace {

using namespace std::chrono_literals;
using core::Smooth;

constexpr core::Rate kRate{.count = 5, .period = 1s};
constexpr Nanos kWarmup = 4s;
constexpr Nanos kEnd = 6990ms;
constexpr Instant kCreated{std::chrono::hours{24}};

Smooth smooth() { return *Smooth::make(kRate); }
Smooth warming() { return *Smooth::make_warming(kRate, kWarmup); }

// The cost of one permit with the given savings: the wait of the next caller.
Nanos price(const Smooth& limit, Nanos saved) {
  const core::Ask patient{.max_wait = kForever};
  const Instant now = kCreated + saved;
  const core::State after = take(limit, core::created_empty(kCreated), now, patient).next;
  return take(limit, after, now, patient).decision.wait;
}

std::vector<Point> price_by_savings(const Smooth& limit, Nanos most) {
  std::vector<Point> line;
  for (Nanos saved{0}; saved <= most; saved += 20ms) {
    line.push_back({seconds(saved), seconds(price(limit, saved))});
  }
  return line;
}

// The times at which a caller that always takes the next permit gets it, after a long rest.
std::vector<Nanos> releases(const Smooth& limit, Nanos end) {
  std::vector<Nanos> times;
  for (core::State state{};;) {
    const core::StepResult taken = take(limit, state, kCreated, {.max_wait = kForever});
    if (taken.decision.wait > end) return times;
    times.push_back(taken.decision.wait);
    state = taken.next;
  }
}

std::vector<Point> steps(const std::vector<Nanos>& times, Nanos end) {
  std::vector<Point> line{{0, 0}};
  for (const Nanos t : times) {
    line.push_back({seconds(t), line.back().y});
    line.push_back({seconds(t), line.back().y + 1});
  }
  line.push_back({seconds(end), line.back().y});
  return line;
}

constexpr Stroke kSmoothLine{.colour = ink::waited, .width = 2.2};
constexpr Stroke kWarmingLine{.colour = ink::passed, .width = 2.2};

void draw_prices(Svg& svg) {
  const Plot plot{.corner = {76, 112}, .width = 290, .height = 250, .x = {0, 4}, .y = {0, 0.7}};
  svg.text({76, 96}, "What the next permit costs", {.size = 14, .bold = true});
  x_axis(svg, plot, {.step = 1, .label = "time saved up without calls [s]"});
  y_axis(svg, plot, {.step = 0.1, .decimals = 1, .label = "price of a permit [s]"});
  curve(svg, plot, price_by_savings(smooth(), 1s), kSmoothLine);
  curve(svg, plot, price_by_savings(warming(), kWarmup), kWarmingLine);
  svg.text(plot.at(0.5, 0.22), "once the price", {.size = 12, .colour = kWarmingLine.colour});
  svg.text(plot.at(3.75, 0.615), "nearly three times",
           {.size = 12, .colour = kWarmingLine.colour, .anchor = Anchor::end});
  svg.text(plot.at(0.3, 0.025), "free, one second’s worth",
           {.size = 12, .colour = kSmoothLine.colour});
}

void draw_releases(Svg& svg) {
  const Plot plot{.corner = {470, 112}, .width = 300, .height = 250, .x = {0, 7}, .y = {0, 45}};
  svg.text({470, 96}, "A caller that never pauses", {.size = 14, .bold = true});
  x_axis(svg, plot, {.step = 1, .label = "time since the first call [s]"});
  y_axis(svg, plot, {.step = 10, .label = "permits let in"});
  curve(svg, plot, steps(releases(smooth(), kEnd), kEnd), kSmoothLine);
  curve(svg, plot, steps(releases(warming(), kEnd), kEnd), kWarmingLine);
  svg.text(plot.at(0.25, 21), "six at once,", {.size = 12, .colour = kSmoothLine.colour});
  svg.text(plot.at(0.25, 18.3), "then 5/s", {.size = 12, .colour = kSmoothLine.colour});
  svg.text(plot.at(3.6, 5.6), "ten in the first 4 s,", {.size = 12, .colour = kWarmingLine.colour});
  svg.text(plot.at(3.6, 2.9), "then 5/s", {.size = 12, .colour = kWarmingLine.colour});
}

}  // namespace

std::string warmup() {
  Svg svg(800, 440, "Savings are free, or they are cold");
  heading(svg, "Savings are free, or they are cold",
          "Time without calls pays for later permits; with warm-up it makes them more expensive.");
  draw_prices(svg);
  draw_releases(svg);
  svg.line({76, 418}, {100, 418}, kSmoothLine);
  svg.text({108, 422}, "5/s smooth", {.size = 13, .code = true});
  svg.line({230, 418}, {254, 418}, kWarmingLine);
  svg.text({262, 422}, "5/s warmup 4s", {.size = 13, .code = true});
  return svg.finish();
}

}  // namespace weir::pictures
