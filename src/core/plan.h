#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "core/limit.h"
#include "core/price_history.h"

// Decisions over several limits: either all of them are charged, at the same instant, or none.

namespace weir::core {

// The data of one key under one limit. The alternative must be the one that the limit uses.
using Memory = std::variant<State*, AdmissionLog, Holders>;

// One limit in a decision.
struct Charge {
  const Limit* limit = nullptr;
  Memory memory{};
  Ask ask{};            // the cost may differ between limits
  bool shadow = false;  // is evaluated and charged, but never refuses
  // Mixed into the holder's id. Needed where holders of several keys share one record: holders of
  // different keys may have the same name.
  HolderId id_salt{};
  // The price history of the key's bucket; null if its price has never changed.
  const PriceHistory* history = nullptr;
};

inline constexpr std::size_t kMaxLimits = 16;

struct Verdict {
  // The decision of the tightest limit; `wait` is the longest of all.
  Decision decision;
  // When refused: the refusing limit with the longest retry_after. When admitted: the one with the
  // smallest remaining. Ties go to the first. Shadow limits are considered only if there are no
  // others.
  std::size_t tightest = 0;
  // Bit i: limit i would refuse the call, whether it is a shadow or not.
  std::uint32_t refusing = 0;
};

// The verdict over `decisions`, one per charge: the tightest of them.
Verdict judge(std::span<const Decision> decisions, std::span<const Charge> charges);

// Evaluates all limits, then charges all or none. A shadow limit is charged if it would admit and
// the call is admitted. When the call is admitted, `receipts` (one per charge, optional) is filled
// in for a later `settle`; the receipt of a limit that was not charged has nothing taken. At most
// kMaxLimits charges.
//
// `holder` enters the concurrency limits among the charges. If it already holds permits of all of
// them, its hold times are renewed, and no other limit is evaluated or charged.
//
// This and the following functions first convert the states of buckets to their present price, even
// if the call is refused or only peeks. `each` receives the decision of each limit, as far as it
// has room.
Verdict take(std::span<const Charge> charges, Instant now, const HolderId& holder = {},
             std::span<Receipt> receipts = {}, std::span<Decision> each = {});

// The verdict that `take` would give, with the present remaining permits. Takes nothing.
Verdict peek(std::span<const Charge> charges, Instant now, const HolderId& holder = {},
             std::span<Decision> each = {});

// Corrects earlier takes by each charge's cost: a positive cost is debited, into debt if necessary;
// a negative cost is given back by the limit's receipt. Concurrency limits do not change. The
// outcome is always `allowed`. `refusing` tells which limits would have refused the debit, and
// `each` has their refusals. (For exact sliding windows `each` has the decision after the debit,
// because a shared store evaluates a log for one cost only.)
Verdict settle(std::span<const Charge> charges, Instant now, std::span<Receipt> receipts,
               std::span<Decision> each = {});

// The instant at which the key of a charge will be at rest, if it is not used again.
Instant rest_at(const Charge& charge, Instant now);

// Clears the data of a key.
void reset(const Memory& memory);

// Releases the permits of `holder` in all concurrency limits. Returns whether it held any.
bool leave(std::span<const Charge> charges, Instant now, const HolderId& holder);

}  // namespace weir::core
