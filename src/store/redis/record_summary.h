#pragma once

#include <array>
#include <cstdint>

#include "core/holders.h"
#include "core/limit.h"
#include "core/sliding_log.h"
#include "store/redis/state_text.h"

namespace weir::store::redis {

// Exact logs and concurrency limits have a list of records on the server, which may be long. Their
// scripts reply with facts about it instead. From these facts this file builds a list of few
// records on which the core decides as it would on all of them.

// True for limits with such a list.
bool is_list(const core::Limit& limit);

struct LogSummary {
  core::AdmissionLog::Head head{};
  std::array<core::LogEntry, 4> ring{};
};
struct HoldersSummary {
  std::uint32_t size = 0;
  std::array<core::Holder, 4> seats{};
};

// The requesting holder in a summary.
inline constexpr core::HolderId kAsking{.high = 0, .low = 1};

// `cost` is the cost of the call that is decided.
void summarize(const core::SlidingLog& limit, const LogFacts& facts, Permits cost,
               LogSummary& summary);
void summarize(const core::Concurrency& limit, const HolderFacts& facts, Permits cost,
               HoldersSummary& summary);

// Maximum usage at which a call of this cost still fits; -1 if it never fits.
Permits room_for(Permits count, Permits cost);

}  // namespace weir::store::redis
