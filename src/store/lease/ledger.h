#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/limit.h"
#include "store/shared_store.h"

// The lender's side of leases: the data that a store keeps for a leased key, and its answers.
//
// Permits that are lent occupy the limit: the remaining permits plus all permits that are lent
// never exceed the capacity.
//
//   a bucket         a lease is debt that does not drain: while n permits are lent, the debt is at
//                    least that of n. It drains from the time at which they were spent, once that
//                    is reported; otherwise from the end of the lease.
//   a window         a lease counts as used, and ends with the window at the latest.
//
// A borrower that spends only lent permits, before its lease ends, cannot exceed the limit,
// whichever nodes crash: permits that are not reported count as spent.

namespace weir::store::lease {

// The lease of one borrower, and the last answer to it.
struct LeaseGrant {
  std::string borrower{};
  std::uint64_t number = 0;  // of its last request
  Permits lent = 0;          // in the answer to it
  Permits kept = 0;          // the same
  Permits outstanding = 0;
  Instant ends{};  // in whole microseconds, the unit of stores
};

struct Ledger {
  core::State state{};
  std::vector<LeaseGrant> loans{};
};

// Answers a request for a lease. If the limit cannot be leased (store/why_not_shareable.h), the
// answer is `misconfigured` with the reason.
//
// Permits that the borrower reports as held but that are not recorded as lent, because the store
// has lost its data or the lease has ended, are lent again as far as they are available. Permits
// lent in a window that is over are not kept.
LeaseResponse lend(const core::Limit& limit, Ledger& ledger, Instant now,
                   const LeaseRequest& question);

}  // namespace weir::store::lease
