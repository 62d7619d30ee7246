#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pictures.h"
#include "plot.h"
#include "run.h"

namespace weir::pictures {

namespace {

using namespace std::chrono_literals;

constexpr core::Rate kRate{.count = 100, .period = 60s};
constexpr Nanos kAgain = 90s;
constexpr Nanos kEnd = 180s;

// A hundred calls within ten seconds of the first minute, and a hundred more at 90 s.
std::vector<Nanos> arrivals(Nanos burst_at) {
  std::vector<Nanos> times = evenly(burst_at, 100, 100ms);
  times.insert(times.end(), 100, kAgain);
  return times;
}

struct Lines {
  std::vector<Point> estimate;  // the usage that the limit estimates
  std::vector<Point> truth;     // the calls that really passed in the past minute
};

// Steps are drawn with vertical lines.
void extend(std::vector<Point>& line, Nanos t, double y) {
  const double before = line.empty() ? y : line.back().y;
  if (std::abs(y - before) > 20) line.push_back({seconds(t), before});
  line.push_back({seconds(t), y});
}

Lines follow(const core::Limit& limit, const std::vector<Nanos>& times) {
  Key key(limit);
  std::vector<Call> calls;
  Lines lines;
  auto next = times.begin();
  for (Nanos t{0}; t <= kEnd; t += 500ms) {
    for (; next != times.end() && *next <= t; ++next) calls.push_back(key.take(*next));
    const core::Decision seen = key.peek(t);
    extend(lines.estimate, t, static_cast<double>(seen.limit - seen.remaining));
    extend(lines.truth, t, released_within(calls, t, 60s));
  }
  return lines;
}

// The number of the hundred calls at 90 s that pass.
int pass_again(const core::Limit& limit, const std::vector<Nanos>& times) {
  const std::vector<Call> calls = run(limit, times);
  return static_cast<int>(std::ranges::count_if(
      calls, [](const Call& call) { return call.at == kAgain && call.passed(); }));
}

constexpr Stroke kTruth{.colour = ink::passed, .width = 2.2};
constexpr Stroke kEstimate{.colour = ink::waited, .width = 2, .dashes = "5 3"};

void panel(Svg& svg, double top, Nanos burst_at, std::string_view title) {
  const Plot plot{.corner = {76, top + 40},
                  .width = 690,
                  .height = 170,
                  .x = {0, seconds(kEnd)},
                  .y = {0, 175}};
  const auto sliding = sound(core::SlidingCounter::make(kRate));
  const auto exact = sound(core::SlidingLog::make(kRate));
  const std::vector<Nanos> times = arrivals(burst_at);
  svg.text({76, top + 8}, title, {.size = 14, .bold = true});
  svg.text({76, top + 27},
           fmt::format("Of the hundred at 90 s, two counters let {} pass, the log {}.",
                       pass_again(sliding, times), pass_again(exact, times)),
           {.colour = ink::quiet});
  x_axis(svg, plot, {.step = 30, .label = "time [s]"});
  y_axis(svg, plot, {.step = 50, .label = "calls in the past minute"});
  const Lines lines = follow(sliding, times);
  fill_below(svg, plot, lines.truth, kTruth.colour);
  level(svg, plot, 100);
  curve(svg, plot, lines.truth, kTruth);
  curve(svg, plot, lines.estimate, kEstimate);
}

}  // namespace

std::string sliding_estimate() {
  Svg svg(800, 640, "Two counters: the price of constant memory");
  heading(svg, "Two counters: the price of constant memory",
          "100/min sliding: a hundred calls within ten seconds of the first minute, a hundred more "
          "at 90 s.");
  panel(svg, 90, 5s, "A burst early in its minute is forgotten too late");
  panel(svg, 352, 48s, "A burst late in its minute is forgotten too early");
  svg.line({76, 616}, {100, 616}, kTruth);
  svg.text({108, 620}, "passed within the past minute", {.size = 12, .colour = ink::quiet});
  svg.line({330, 616}, {354, 616}, kEstimate);
  svg.text({362, 620}, "the estimate", {.size = 12, .colour = ink::quiet});
  svg.line({480, 616}, {504, 616}, {.colour = ink::limit, .width = 1.2, .dashes = "6 4"});
  svg.text({512, 620}, "the limit", {.size = 12, .colour = ink::quiet});
  return svg.finish();
}

}  // namespace weir::pictures
