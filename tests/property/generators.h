#pragma once

#include <rapidcheck.h>

#include <iosfwd>
#include <string>
#include <vector>

#include "core/limit.h"

// Random limits, and random arrivals that prefer edges: the instant at which a call would pass, the
// nanosecond before it, the instant of rest, a step back of the clock.

namespace weir::core {

// A limit and its description for messages.
struct NamedLimit {
  std::string text;
  Limit limit;
};
std::ostream& operator<<(std::ostream& out, const NamedLimit& named);
std::ostream& operator<<(std::ostream& out, const Rate& rate);
std::ostream& operator<<(std::ostream& out, const Decision& decision);

// Rates with whole emission intervals, and rates without.
rc::Gen<Rate> any_rate();
// The rates among them whose emission interval is stored exactly.
rc::Gen<Rate> exact_rate();

rc::Gen<NamedLimit> bucket();
rc::Gen<NamedLimit> queue();
rc::Gen<NamedLimit> nginx();
rc::Gen<NamedLimit> smooth();
rc::Gen<NamedLimit> warming();
rc::Gen<NamedLimit> window();
rc::Gen<NamedLimit> sliding();
rc::Gen<NamedLimit> quota();
rc::Gen<NamedLimit> exact_log();
rc::Gen<NamedLimit> concurrency();
rc::Gen<NamedLimit> any_limit();

// One arrival, described relative to its limit.
struct Step {
  enum class Move { stay, ticks, beats, to_retry, before_retry, to_rest, before_rest, back };
  enum class Size { one, few, share, all, too_many, none, negative };
  enum class Patience { none, beats, forever };

  Move move = Move::stay;
  int amount = 1;  // ticks (nanoseconds), or eighths of beat(), the time of one permit
  Size size = Size::one;
  int part = 1;  // few: this many permits; share: this many thousandths of the capacity
  Patience patience = Patience::none;
  int patience_amount = 0;  // in eighths of beat()
};
std::ostream& operator<<(std::ostream& out, const Step& step);

struct ClockOptions {
  bool steps_back = true;
  bool waits = true;
};
rc::Gen<Step> step(ClockOptions clock_options = {});
rc::Gen<std::vector<Step>> steps(ClockOptions clock_options = {});
// Draws an instant to start at.
Instant start();

// The latest time of any clock here: far enough from the end of time that later instants can be
// represented.
inline constexpr Instant kHorizon = instant(4'000'000'000'000'000'000);

// The time in which the limit grants about one permit.
Nanos beat(const Limit& limit);
// The instant of `step` after `now`, when the last answer of the limit was `last`.
Instant moved(const Step& step, const Limit& limit, Instant now, const Decision& last);
Ask ask_of(const Step& step, const Limit& limit);

}  // namespace weir::core
