#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/limit.h"
#include "store/shared.h"

// What a store knows of a key that permits are lent from, and what it answers.
//
// What is lent occupies the limit: what may be taken and what is lent are together never more than
// the limit holds.
//
//   a bucket         a loan is a debt that does not drain: while n are lent, the debt is at least
//                    that of n. Once they are reported as spent, it has drained since they were;
//                    once their term has passed, since its end.
//   a window         a loan is counted as used, and ends with the window at the latest.
//
// Whoever spends only what was lent, before it ends, stays within the limit together with all
// others, whoever dies: what nobody tells about counts as spent.

namespace weir::store::lease {

// What one borrower has, and what it was told last.
struct Loan {
  std::string borrower{};
  std::uint64_t number = 0;  // of its last question …
  Permits lent = 0;          // … and what the answer was
  Permits kept = 0;
  Permits outstanding = 0;
  Instant ends{};  // of whole microseconds, in which stores count
};

struct Ledger {
  core::State state{};
  std::vector<Loan> loans{};
};

// Of a limit that is fit for loans (store/fit.h); of others it says why it is not, as
// misconfigured.
//
// What is told as held, and is not known to be lent, is lent anew as far as it is to be had: the
// store has lost what it knew, or the term has passed. What was lent in a window that is over is
// not kept.
LoanAnswer lend(const core::Limit& limit, Ledger& ledger, Instant now,
                const LoanQuestion& question);

}  // namespace weir::store::lease
