#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "core/limit.h"
#include "core/price_history.h"

// Several limits in one decision: all are charged at the decision's time, or none is.

namespace weir::core {

// What is remembered of one key under one limit; the kind must be the one the limit uses.
using Memory = std::variant<State*, Log, Holders>;

// One limit's part in a decision.
struct Charge {
  const Limit* limit = nullptr;
  Memory memory{};
  Ask ask{};            // its cost may differ from limit to limit
  bool shadow = false;  // decides and counts, but never refuses
  // Where holders of several keys sit together: what tells those of this key from the others, who
  // may have the same names. It is mixed into the holder's id.
  HolderId among{};
  // Of the key's bucket; none: its price has never changed.
  const PriceHistory* history = nullptr;
};

inline constexpr std::size_t kMaxLimits = 16;

struct Verdict {
  // Of the tightest limit; `wait` is the longest of all.
  Decision decision;
  // When refused, the refusing limit with the longest retry; when passed, the one with the
  // smallest remaining. Ties go to the first. Shadow limits count only among themselves.
  std::size_t tightest = 0;
  // Bit i: limit i would not admit the call, whether it is a shadow or not.
  std::uint32_t refusing = 0;
};

// Picks the tightest of `decisions`, one per charge.
Verdict judge(std::span<const Decision> decisions, std::span<const Charge> charges);

// Decides all, then charges all or none. A shadow limit is charged if it admits and the call is
// admitted. With receipts, one per charge is filled in for a later `settle` when the call is
// admitted; one whose limit was not charged has nothing taken. At most kMaxLimits charges.
//
// `holder` is who enters, where a concurrency limit is among the charges. If it already holds its
// permits in all of those, its leases are renewed and nothing else is charged or asked.
//
// Here and below, states of buckets are first carried over to their present price, also where the
// call is refused or only looks. `each` is told what each limit said, if it has room for them.
Verdict take(std::span<const Charge> charges, Instant now, const HolderId& holder = {},
             std::span<Receipt> receipts = {}, std::span<Decision> each = {});

// Whether it would pass, with what remains as it is. Changes nothing.
Verdict peek(std::span<const Charge> charges, Instant now, const HolderId& holder = {},
             std::span<Decision> each = {});

// Corrects earlier takes by each charge's cost: above zero it is debited, even into debt; below
// zero it is given back by the receipt of that limit. Concurrency limits are left alone. Always
// "allowed". But `refusing` tells which limits would not have admitted what they were debited, and
// `each` what those would have said; of logs, which a store looks at for one cost only, as usual.
Verdict settle(std::span<const Charge> charges, Instant now, std::span<Receipt> receipts,
               std::span<Decision> each = {});

// When the key of a charge will be at rest, if nothing else happens to it.
Instant rest_at(const Charge& charge, Instant now);

// Forgets what is remembered.
void reset(const Memory& memory);

// Whether `holder` held a permit of any of the concurrency limits; it does no longer.
bool leave(std::span<const Charge> charges, Instant now, const HolderId& holder);

}  // namespace weir::core
