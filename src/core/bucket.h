#pragma once

#include <cstdint>

#include "core/choice.h"
#include "core/rate.h"

namespace weir::core {

// Token bucket, meter and queue: one algorithm, the generic cell rate algorithm (GCRA).
//
// Instead of counting tokens that drip into a bucket, it remembers a single instant, the
// theoretical arrival time (tat): the moment at which everything admitted so far will have been
// paid for at one price per permit. `tat - now` is the debt. A call of cost c raises the debt by
// c prices and passes if it stays within the depth, capacity × price:
//
//        now            tat                 now + depth
//   ──────┼──────────────┼────────────────────────┼──────▶ time
//         │◀─── debt ───▶│◀── what may be taken ─▶│
//
// Nothing has to be refilled: time passing lowers the debt by itself, to the nanosecond, with no
// drift. 20/s burst 30: price 50 ms, depth 1.5 s; thirty calls at once bring the debt to 1.5 s, the
// next one passes 50 ms later.
//
// A bucket admits whatever fits its depth at once. A queue has the same depth but releases only
// `at_once` permits immediately; whoever is early beyond those waits for its turn. A bucket's
// caller that is willing to wait may go into debt beyond the depth, and waits until it is back.
//
// The state is the tat (nanoseconds and parts of one) and the price it was reckoned with, so that
// after a change of the limit the debt in *permits* stays: 10/min used up and raised to 20/min
// leaves 10.
struct Bucket {
  Rate rate{};
  Permits capacity = 1;
  Permits at_once = 1;  // released without waiting; the capacity for a bucket or with nodelay
  bool queue = false;
  // When this limit took effect, for stores that cannot visit all states on a change: debts from
  // before are re-priced as of then when they are next looked at. Zero: as of that look.
  Instant since{};

  // Derived from the above.
  Pace pace{};
  Int128 depth = 0;       // capacity, in parts of a nanosecond
  Int128 free = 0;        // at_once, likewise
  Int128 ceiling = 0;     // the debt that no admission exceeds, likewise
  std::uint64_t tag = 0;  // the price as the state remembers it

  static Result<Bucket, Flaw> make(const Rate& rate, Permits burst);
  static Result<Bucket, Flaw> make_queue(const Rate& rate, Permits places, Permits undelayed);
};

Choice decide(const Bucket& limit, const State& state, Instant now, const Ask& ask);
Permits remaining(const Bucket& limit, const State& state, Instant now);
Instant rest_at(const Bucket& limit, const State& state, Instant now);
State debit(const Bucket& limit, const State& state, Instant now, Permits cost);
State refund(const Bucket& limit, const State& state, Instant now, Receipt& receipt, Permits back);
// The state as this limit's price has it from `now` on, for whoever changes a limit and can visit
// its states there and then.
State reprice(const Bucket& limit, const State& state, Instant now);
inline Permits capacity(const Bucket& limit) { return limit.capacity; }

}  // namespace weir::core
