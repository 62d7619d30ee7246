#include <algorithm>
#include <iterator>

#include "pictures.h"
#include "plot.h"
#include "run.h"

namespace weir::pictures {

namespace {

using namespace std::chrono_literals;

constexpr core::Rate kRate{.count = 10, .period = 1s};
constexpr Nanos kPrice = 100ms;

// A burst, a steady stream at twice the rate, a rest, and a few more.
std::vector<Nanos> arrivals() {
  std::vector<Nanos> times = evenly(100ms, 8, 12ms);
  std::ranges::copy(evenly(300ms, 13, 50ms), std::back_inserter(times));
  std::ranges::copy(evenly(1650ms, 3, 30ms), std::back_inserter(times));
  return times;
}

double millis(Nanos t) { return seconds(t) * 1000; }

// The debt falls continuously until it is paid.
void pay_down(std::vector<Point>& line, Nanos from, Nanos debt, Nanos to) {
  if (from + debt < to) line.push_back({seconds(from + debt), 0});
  line.push_back({seconds(to), millis(std::max(debt - (to - from), Nanos{0}))});
}

// For a bucket, the time until at rest is the debt.
std::vector<Point> debt_over_time(const std::vector<Call>& calls, Nanos end) {
  std::vector<Point> line{{0, 0}};
  Nanos last{0};
  Nanos debt{0};
  for (const Call& call : calls) {
    pay_down(line, last, debt, call.at);
    last = call.at;
    debt = call.decision.reset_after;
    line.push_back({seconds(last), millis(debt)});
  }
  pay_down(line, last, debt, end);
  return line;
}

void draw_calls(Svg& svg, const Plot& plot, const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    const Nanos debt = call.decision.reset_after;
    const double t = seconds(call.at);
    if (call.passed()) {
      svg.passed(plot.at(t, millis(debt)));
    } else {
      svg.line(plot.at(t, millis(debt)), plot.at(t, millis(debt + kPrice)),
               {.colour = ink::refused, .width = 0.8, .dashes = "2 2"});
      svg.refused(plot.at(t, millis(debt + kPrice)));
    }
  }
}

}  // namespace

std::string debt() {
  Svg svg(800, 470, "How the bucket computes: a debt in time");
  heading(svg, "How the bucket computes: a debt in time",
          "10/s burst 5: a call costs 100 ms of debt, at most 5 × 100 ms may be owed.");
  const Plot plot{.corner = {76, 84}, .width = 690, .height = 290, .x = {0, 2}, .y = {0, 700}};
  x_axis(svg, plot, {.step = 0.25, .decimals = 2, .label = "time [s]"});
  y_axis(svg, plot, {.step = 100, .label = "debt: tat − now [ms]"});

  const std::vector<Call> calls = run(sound(core::Bucket::make(kRate, 5)), arrivals());
  const std::vector<Point> line = debt_over_time(calls, 2s);
  fill_below(svg, plot, line, ink::passed);
  level(svg, plot, 500);
  curve(svg, plot, line, {.colour = ink::passed, .width = 2});
  draw_calls(svg, plot, calls);

  svg.text(plot.at(1.995, 512), "depth: 500 ms", {.size = 12, .anchor = Anchor::end});
  svg.text(plot.at(0.3, 640), "beyond the depth: refused, and nothing is owed for it",
           {.size = 12, .colour = ink::refused});
  svg.text(plot.at(1.08, 395), "time passing pays:", {.size = 12});
  svg.text(plot.at(1.08, 358), "one second of debt a second", {.size = 12});
  svg.text(plot.at(1.46, 22), "at rest", {.size = 12});
  svg.text(plot.at(1.62, 150), "each call owes", {.size = 12, .anchor = Anchor::end});
  svg.text(plot.at(1.62, 113), "100 ms more", {.size = 12, .anchor = Anchor::end});
  legend(svg, {76, 440},
         {{LegendEntry::Mark::passed, "passed, at the debt it left", 210},
          {LegendEntry::Mark::refused, "refused, at the debt it would have left", 300}});
  return svg.finish();
}

}  // namespace weir::pictures
