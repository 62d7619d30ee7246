// A tour of the algorithms: one burst of calls under every kind of limit, on a virtual clock.
// Prints which calls pass, wait and are refused.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/plan.h"

namespace {

using namespace std::chrono_literals;
using namespace weir;
using namespace weir::core;

// The burst: thirty calls, 40 ms apart, from 0.8 s on. The limits admit five a second.
constexpr int kCalls = 30;
constexpr Nanos kSpacing = 40ms;
constexpr Nanos kFirst = 800ms;
constexpr Rate kRate{.count = 5, .period = 1s};

// The diagram: one column for each 40 ms, so that every call has its own column.
constexpr Nanos kColumn = kSpacing;
constexpr Nanos kLeftEdge = 600ms;
constexpr std::size_t kColumns = 63;
constexpr std::size_t kLabel = 33;

// Instants are counted from a whole second, as aligned windows are.
constexpr Instant kStart{1'767'225'600s};  // 2026-01-01T00:00:00Z

// ---- The calls -------------------------------------------------------------------------------

struct Call {
  Nanos at{};
  bool passed = false;
  Nanos wait{};

  Nanos released() const { return at + wait; }
  bool at_once() const { return passed && wait == Nanos{0}; }
  bool waited() const { return passed && wait > Nanos{0}; }
};

std::vector<Call> the_burst() {
  std::vector<Call> calls(kCalls);
  for (int i = 0; i < kCalls; ++i) calls[i].at = kFirst + i * kSpacing;
  return calls;
}

// ---- The limits ------------------------------------------------------------------------------

struct Exhibit {
  std::string_view text;  // the limit as written in a policy file
  std::string_view name;
  std::string_view what_to_see;
  Limit limit;
  Nanos patience{0};  // the maximum wait that a caller accepts
};

// These limits are known to be valid.
Limit sound(const auto& made) { return *made; }

Limit queue(Permits undelayed) { return sound(Bucket::make_queue(kRate, 5, undelayed)); }

std::vector<Exhibit> exhibits() {
  return {
      {"5/s window", "fixed window",
       "Ten within 0.4 s: five before the edge at 1 s, five after it.",
       sound(Window::make(kRate, false))},
      {"5/s sliding", "sliding window, two counters",
       "No five more at the edge: the first five fade, one every 0.2 s.",
       sound(SlidingCounter::make(kRate))},
      {"5/s sliding exact", "sliding window, a log",
       "Never more than five in any second: a call counts for 1 s.",
       sound(SlidingLog::make(kRate))},
      {"5/s burst 5", "token bucket", "Five, and what drips in meanwhile; then one every 0.2 s.",
       sound(Bucket::make(kRate, 5))},
      {"5/s queue 5", "leaky bucket as a queue",
       "However they come, they leave evenly: one every 0.2 s.", queue(0), kForever},
      {"5/s queue 5 delay 2", "the first two need not wait",
       "Three leave at once; from then on as evenly as above.", queue(2), kForever},
      {"5/s queue 5 nodelay", "nobody waits",
       "The calls of the queue pass, but at once: the burst goes through.", queue(5), kForever},
      {"5/s queue 5 (like: nginx)", "nginx's own arithmetic",
       "As the queue above; it truncates at rates such as 7/min.",
       sound(NginxQueue::make(kRate, 5, 0)), kForever},
      {"5/s smooth", "Guava's; callers wait ≤ 0.6 s",
       "Savings and one on credit go at once; the rest pay in turn.", sound(Smooth::make(kRate)),
       600ms},
      {"5/s warmup 2s", "Guava's; callers wait ≤ 0.6 s",
       "Cold after a rest: the first gaps are nearly three times as long.",
       sound(Smooth::make_warming(kRate, 2s)), 600ms},
      {"5 concurrent lease 1s", "each works 0.4 s, then leaves",
       "The first one crashed: its lease gives the permit back at 1.8 s.",
       sound(Concurrency::make(5, 1s))},
  };
}

// ---- Taking ----------------------------------------------------------------------------------

// The state of a limit for the single key used here, of whichever kind it needs.
struct Remembered {
  State state{};
  AdmissionLog::Head head{};
  std::vector<LogEntry> ring{};
  std::uint32_t held = 0;
  std::vector<Holder> seats{};
};

Memory memory_for(const Limit& limit, Remembered& remembered) {
  const auto places = static_cast<std::size_t>(capacity(limit));
  if (std::holds_alternative<SlidingLog>(limit)) {
    remembered.ring.resize(places);
    return AdmissionLog{remembered.head, remembered.ring};
  }
  if (std::holds_alternative<Concurrency>(limit)) {
    remembered.seats.resize(places);
    return Holders{remembered.held, remembered.seats};
  }
  return &remembered.state;
}

HolderId holder(std::size_t call) { return {.low = call + 1}; }

// Holders whose work is done leave, except the first, which crashed.
void leave_when_done(std::span<const Charge> charges, std::span<const Call> earlier, Nanos now) {
  constexpr Nanos work = 400ms;
  for (std::size_t i = 1; i < earlier.size(); ++i) {
    if (earlier[i].passed && earlier[i].at + work <= now) {
      leave(charges, kStart + now, holder(i));
    }
  }
}

std::vector<Call> ask(const Exhibit& exhibit) {
  Remembered remembered;
  const std::vector<Charge> charges{{.limit = &exhibit.limit,
                                     .memory = memory_for(exhibit.limit, remembered),
                                     .ask = {.cost = 1, .max_wait = exhibit.patience}}};
  std::vector<Call> calls = the_burst();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    leave_when_done(charges, std::span(calls).first(i), calls[i].at);
    const Decision decision = take(charges, kStart + calls[i].at, holder(i)).decision;
    calls[i].passed = static_cast<bool>(decision);
    calls[i].wait = decision.wait;
  }
  return calls;
}

// ---- Drawing ---------------------------------------------------------------------------------

enum class Mark { none, passed, waited, refused };

std::string_view glyph(Mark mark) {
  switch (mark) {
    case Mark::passed:
      return "█";
    case Mark::waited:
      return "▒";
    case Mark::refused:
      return "·";
    case Mark::none:
      break;
  }
  return " ";
}

std::string_view colour(Mark mark) {
  switch (mark) {
    case Mark::passed:
      return "\033[32m";
    case Mark::waited:
      return "\033[33m";
    case Mark::refused:
      return "\033[31m";
    case Mark::none:
      break;
  }
  return "";
}

// Colours only on terminals, and not if the user has set NO_COLOR (https://no-color.org).
bool wants_colours() {
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
}

std::string paint(Mark mark) {
  static const bool colours = wants_colours();
  if (!colours || mark == Mark::none) return std::string{glyph(mark)};
  return fmt::format("{}{}\033[0m", colour(mark), glyph(mark));
}

using Row = std::vector<Mark>;

std::size_t column(Nanos t) { return static_cast<std::size_t>((t - kLeftEdge) / kColumn); }

void put(Row& row, Nanos t, Mark mark) {
  if (column(t) < row.size()) row[column(t)] = mark;
}

Row arrivals(std::span<const Call> calls) {
  Row row(kColumns);
  for (const Call& call : calls) {
    put(row, call.at, call.at_once() ? Mark::passed : call.passed ? Mark::waited : Mark::refused);
  }
  return row;
}

Row releases(std::span<const Call> calls) {
  Row row(kColumns);
  for (const Call& call : calls) {
    if (call.passed) put(row, call.released(), call.waited() ? Mark::waited : Mark::passed);
  }
  return row;
}

std::string drawn(Row row) {
  while (!row.empty() && row.back() == Mark::none) row.pop_back();
  std::string line;
  for (const Mark mark : row) line += paint(mark);
  return line;
}

void print_line(std::string_view label, std::string_view rest) {
  fmt::print("{:<{}}{}\n", label, kLabel, rest);
}

void print_axis() {
  std::string labels(kColumns, ' ');
  std::string ticks;
  for (std::size_t i = 0; i < kColumns; ++i) {
    const Nanos t = kLeftEdge + i * kColumn;
    ticks += t % 200ms != Nanos{0} ? "─" : t % 1s == Nanos{0} ? "┼" : "┴";
    if (t % 1s == Nanos{0}) labels.replace(i, 3, fmt::format("{} s", t / 1s));
  }
  print_line("", labels.substr(0, labels.find_last_not_of(' ') + 1));
  print_line("", ticks);
}

void print_picture(const Exhibit& exhibit, std::span<const Call> calls) {
  print_line(exhibit.text, drawn(arrivals(calls)));
  std::string label = fmt::format("  {}", exhibit.name);
  if (std::ranges::any_of(calls, &Call::waited)) {
    print_line(label, drawn(releases(calls)) + "  released");
    label.clear();
  }
  print_line(label, exhibit.what_to_see);
  fmt::print("\n");
}

// ---- Counting --------------------------------------------------------------------------------

double seconds(Nanos t) { return std::chrono::duration<double>(t).count(); }

Nanos longest_wait(std::span<const Call> calls) {
  return std::ranges::max(calls, {}, &Call::wait).wait;
}

// The maximum number of calls released within any second.
int busiest_second(std::span<const Call> calls) {
  std::ptrdiff_t most = 0;
  for (const Call& first : calls) {
    most = std::max(most, std::ranges::count_if(calls, [&](const Call& call) {
                      const Nanos since = call.released() - first.released();
                      return call.passed && since >= Nanos{0} && since < Nanos{1s};
                    }));
  }
  return static_cast<int>(most);
}

void print_table_head() {
  fmt::print("{:<{}}{:>9}{:>9}{:>9}{:>14}{:>16}\n", "", kLabel, "at once", "waited", "refused",
             "longest wait", "busiest second");
}

void print_table_row(const Exhibit& exhibit, std::span<const Call> calls) {
  fmt::print("{:<{}}{:>9}{:>9}{:>9}{:>12.2f} s{:>16}\n", exhibit.text, kLabel,
             std::ranges::count_if(calls, &Call::at_once),
             std::ranges::count_if(calls, &Call::waited),
             std::ranges::count_if(calls, [](const Call& call) { return !call.passed; }),
             seconds(longest_wait(calls)), busiest_second(calls));
}

void print_legend() {
  fmt::print(
      "Thirty calls, 40 ms apart, from 0.8 s on; every limit is asked about the same calls.\n\n");
  fmt::print("  {} passed at once    {} waited    {} refused    one column: 40 ms\n\n",
             paint(Mark::passed), paint(Mark::waited), paint(Mark::refused));
}

}  // namespace

int main() {
  const std::vector<Exhibit> all = exhibits();

  print_legend();
  print_axis();
  for (const Exhibit& exhibit : all) print_picture(exhibit, ask(exhibit));

  print_table_head();
  for (const Exhibit& exhibit : all) print_table_row(exhibit, ask(exhibit));
  fmt::print("\nBusiest second: the most calls released within one second, wherever it is laid.\n");
}
