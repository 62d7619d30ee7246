#pragma once

#include <array>
#include <cstdint>

#include "core/holders.h"
#include "core/limit.h"
#include "core/log.h"
#include "store/redis/text.h"

namespace weir::store::redis {

// What the server keeps of some limits is a list that may be long. The scripts tell facts about it
// instead, and few entries that decide as all of them would are made of these, for the core.

bool is_list(const core::Limit& limit);

struct SmallLog {
  core::Log::Head head{};
  std::array<core::LogEntry, 4> ring{};
};
struct SmallHolders {
  std::uint32_t size = 0;
  std::array<core::Holder, 4> seats{};
};

// Who asks, among holders.
inline constexpr core::HolderId kAsking{.high = 0, .low = 1};

void imitate(const core::ExactLog& limit, const LogFacts& facts, Permits cost, SmallLog& small);
void imitate(const core::Concurrency& limit, const HolderFacts& facts, Permits cost,
             SmallHolders& small);

// What may be used already for a call of this cost to fit; -1 if it never does.
Permits room_for(Permits count, Permits cost);

}  // namespace weir::store::redis
