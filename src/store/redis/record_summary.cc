#include "store/redis/record_summary.h"

#include <algorithm>

#include "store/redis/script_time.h"
#include "store/why_not_shareable.h"

namespace weir::store::redis {

namespace {

constexpr core::HolderId kOthers{.high = 0, .low = 2};

}  // namespace

bool is_list(const core::Limit& limit) {
  return std::holds_alternative<core::SlidingLog>(limit) ||
         std::holds_alternative<core::Concurrency>(limit);
}

Permits room_for(Permits count, Permits cost) {
  return cost < 0 || cost > count ? -1 : std::min(count - cost, kMaxSharedCount);
}

void summarize(const core::SlidingLog& limit, const LogFacts& facts, Permits cost,
               LogSummary& summary) {
  core::AdmissionLog log(summary.head, summary.ring);
  const auto admitted_at = [&](std::int64_t expiry) { return at_micro(expiry) - limit.period; };
  Permits left = facts.used;
  const Permits excess = facts.used - room_for(limit.count, cost);
  if (facts.freed_at > 0 && facts.freed_at < facts.rest_at && excess < left) {
    log.append({admitted_at(facts.freed_at), excess});
    left -= excess;
  }
  if (facts.rest_at > 0) log.append({admitted_at(facts.rest_at), std::max<Permits>(left, 1)});
  const Instant newest = at_micro(facts.newest_at);
  if (facts.newest_at > 0 && (log.size() == 0 || log.newest().at < newest)) log.append({newest, 0});
}

void summarize(const core::Concurrency& limit, const HolderFacts& facts, Permits cost,
               HoldersSummary& summary) {
  core::Holders holders(summary.size, summary.seats);
  Permits left = facts.held;
  if (facts.own_until > 0) {
    holders.insert({kAsking, at_micro(facts.own_until), facts.own_permits});
    left -= facts.own_permits;
    if (left > 0) holders.insert({kOthers, at_micro(facts.rest_at), left});
    return;
  }
  const Permits excess = facts.held - room_for(limit.count, cost);
  if (facts.freed_at > 0 && facts.freed_at < facts.rest_at && excess < left) {
    holders.insert({kOthers, at_micro(facts.freed_at), excess});
    left -= excess;
  }
  if (facts.rest_at > 0) {
    holders.insert({kOthers, at_micro(facts.rest_at), std::max<Permits>(left, 1)});
  }
}

}  // namespace weir::store::redis
