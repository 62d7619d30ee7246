#pragma once

#include <rapidcheck.h>

#include <iosfwd>
#include <string>
#include <vector>

#include "core/limit.h"

// Random limits, and random arrivals that like the edges: just when a call would pass, the
// nanosecond before, at rest, at a step back of the clock.

namespace weir::core {

// A limit with what it is, for messages.
struct Named {
  std::string text;
  Limit limit;
};
std::ostream& operator<<(std::ostream& out, const Named& named);
std::ostream& operator<<(std::ostream& out, const Rate& rate);
std::ostream& operator<<(std::ostream& out, const Decision& decision);

// Rates that are easy on arithmetic and rates that are not.
rc::Gen<Rate> any_rate();
// Those of them whose price is kept exactly.
rc::Gen<Rate> exact_rate();

rc::Gen<Named> bucket();
rc::Gen<Named> queue();
rc::Gen<Named> nginx();
rc::Gen<Named> smooth();
rc::Gen<Named> warming();
rc::Gen<Named> window();
rc::Gen<Named> sliding();
rc::Gen<Named> quota();
rc::Gen<Named> exact_log();
rc::Gen<Named> concurrency();
rc::Gen<Named> any_limit();

// What an arrival does, in terms of the limit it meets.
struct Step {
  enum class Move { stay, ticks, beats, to_retry, before_retry, to_rest, before_rest, back };
  enum class Size { one, few, share, all, too_many, none, negative };
  enum class Patience { none, beats, forever };

  Move move = Move::stay;
  int amount = 1;  // of ticks (nanoseconds) or eighths of a beat
  Size size = Size::one;
  int part = 1;  // few: this many; share: this many thousandths of the capacity
  Patience patience = Patience::none;
  int patience_amount = 0;  // eighths of a beat
};
std::ostream& operator<<(std::ostream& out, const Step& step);

struct Clockwork {
  bool steps_back = true;
  bool waits = true;
};
rc::Gen<Step> step(Clockwork clockwork = {});
rc::Gen<std::vector<Step>> steps(Clockwork clockwork = {});
// Draws some instant to start at.
Instant start();

// No clock here goes further: far enough from the end of time that what follows can be told.
inline constexpr Instant kHorizon = instant(4'000'000'000'000'000'000);

// The time in which the limit grants about one permit more.
Nanos beat(const Limit& limit);
// Where `step` leads from `now`, after the limit gave the answer `last`.
Instant moved(const Step& step, const Limit& limit, Instant now, const Decision& last);
Ask ask_of(const Step& step, const Limit& limit);

}  // namespace weir::core
