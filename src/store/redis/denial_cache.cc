#include "store/redis/denial_cache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <type_traits>

namespace weir::store::redis {

namespace {

constexpr Nanos kMaxValidity = std::chrono::milliseconds{100};
constexpr Nanos kExpired = Nanos::min();
constexpr std::size_t kInvalidatedSlots = 4096;

using Numbers = std::array<std::int64_t, 8>;

Numbers numbers_of(const core::Bucket& l) {
  return {l.rate.count,
          l.rate.scale,
          l.rate.period.count(),
          l.capacity,
          l.at_once,
          l.queue,
          static_cast<std::int64_t>(l.stamp)};
}
Numbers numbers_of(const core::NginxQueue& l) {
  return {l.rate.count, l.rate.scale, l.rate.period.count(), l.places, l.undelayed};
}
Numbers numbers_of(const core::Smooth& l) {
  return {l.rate.count, l.rate.scale, l.rate.period.count(), l.warmup.count()};
}
Numbers numbers_of(const core::Window& l) { return {l.count, l.period.count(), l.from_first}; }
Numbers numbers_of(const core::SlidingCounter& l) { return {l.count, l.period.count()}; }
Numbers numbers_of(const core::CalendarWindow& l) { return {l.count}; }
Numbers numbers_of(const core::SlidingLog& l) { return {l.count, l.period.count()}; }
Numbers numbers_of(const core::Concurrency& l) { return {l.count, l.hold_time.count()}; }
Numbers numbers_of(const core::RedisCell& l) {
  return {l.capacity, l.price.count(), l.depth.count()};
}

Nanos reduced(Nanos duration, Nanos passed) {
  return duration > Nanos{0} ? std::max(duration - passed, Nanos{0}) : duration;
}

core::Decision aged(core::Decision decision, Nanos passed) {
  decision.retry_after = reduced(decision.retry_after, passed);
  decision.reset_after = reduced(decision.reset_after, passed);
  return decision;
}

// How long the take stays denied for sure, by the same limits; zero if it cannot be cached.
Nanos validity_of(std::span<const core::Decision> decisions) {
  Nanos longest = kMaxValidity;
  for (const core::Decision& decision : decisions) {
    if (decision.outcome == Outcome::impossible) return Nanos{0};
    if (decision.outcome == Outcome::limited) longest = std::min(longest, decision.retry_after);
  }
  return longest;
}

}  // namespace

DenialCache::DenialCache(std::uint64_t seed, std::size_t size)
    : seed_(seed),
      entries_(std::bit_ceil(size)),
      until_(entries_.size(), kExpired),
      invalidated_(kInvalidatedSlots) {}

DenialCache::LimitParameters DenialCache::parameters_of(const core::Limit& limit) {
  LimitParameters parameters;
  parameters.numbers = std::visit([](const auto& l) { return numbers_of(l); }, limit);
  parameters.numbers.back() = static_cast<std::int64_t>(limit.index());
  if (const auto* quota = std::get_if<core::CalendarWindow>(&limit))
    parameters.calendar = quota->calendar;
  return parameters;
}

bool DenialCache::is_cacheable(const StoreRequest& request) {
  return request.verb == StoreVerb::take && !request.items.empty() && !request.now &&
         std::ranges::none_of(request.items, [](const StoreItem& item) {
           return item.shadow || std::holds_alternative<core::Concurrency>(*item.limit);
         });
}

std::uint64_t DenialCache::hash_of(std::string_view key) const {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed_);
}

std::uint64_t DenialCache::hash_of(const core::Ask& ask) const {
  const std::array<std::int64_t, 2> numbers{ask.cost, ask.max_wait.count()};
  return XXH3_64bits_withSeed(numbers.data(), sizeof numbers, seed_);
}

std::size_t DenialCache::index_of(const StoreRequest& request) const {
  std::uint64_t hash = 0;
  for (const StoreItem& item : request.items) {
    hash = std::rotl(hash, 7) ^ hash_of(item.key) ^ hash_of(item.ask);
  }
  return hash & (entries_.size() - 1);
}

bool DenialCache::matches(const CachedDenial& entry, const StoreRequest& request) const {
  if (entry.count != request.items.size()) return false;
  for (std::size_t i = 0; i < entry.count; ++i) {
    const DeniedItem& cached = entry.parts[i];
    const StoreItem& item = request.items[i];
    if (cached.ask != item.ask || cached.key != item.key) return false;
    if (!(cached.parameters == parameters_of(*item.limit))) return false;
  }
  return true;
}

bool DenialCache::is_invalidated(const CachedDenial& entry) const {
  if (entry.number <= invalidated_before_) return true;
  return std::any_of(entry.parts.begin(),
                     entry.parts.begin() + static_cast<std::ptrdiff_t>(entry.count),
                     [&](const DeniedItem& item) {
                       return invalidated_[hash_of(item.key) % kInvalidatedSlots] >= entry.number;
                     });
}

bool DenialCache::lookup(const StoreRequest& request, Nanos now, StoreResponse& response) const {
  if (now >= last_until_ || !is_cacheable(request)) return false;
  const std::size_t index = index_of(request);
  if (now >= until_[index]) return false;
  const CachedDenial& entry = entries_[index];
  if (!matches(entry, request) || is_invalidated(entry)) return false;
  const Nanos passed = now - entry.at;
  response.kind = StoreResponse::Kind::decided;
  response.error.clear();
  response.now = entry.store_time + passed;
  response.verdict = entry.verdict;
  response.verdict.decision = aged(entry.verdict.decision, passed);
  response.decisions.clear();
  for (std::size_t i = 0; i < entry.count; ++i) {
    response.decisions.push_back(aged(entry.parts[i].decision, passed));
  }
  response.receipts.clear();
  response.left = false;
  return true;
}

void DenialCache::insert(const StoreRequest& request, const StoreResponse& response, Nanos now) {
  if (response.kind != StoreResponse::Kind::decided || response.verdict.decision) return;
  if (!is_cacheable(request) || response.decisions.size() != request.items.size()) return;
  const Nanos lasts = validity_of(response.decisions);
  if (lasts <= Nanos{0}) return;
  const std::size_t index = index_of(request);
  CachedDenial& entry = entries_[index];
  entry.count = request.items.size();
  if (entry.parts.size() < entry.count) entry.parts.resize(entry.count);
  for (std::size_t i = 0; i < entry.count; ++i) {
    const StoreItem& item = request.items[i];
    entry.parts[i].key.assign(item.key);
    entry.parts[i].parameters = parameters_of(*item.limit);
    entry.parts[i].ask = item.ask;
    entry.parts[i].decision = response.decisions[i];
  }
  entry.verdict = response.verdict;
  entry.store_time = response.now;
  entry.at = now;
  until_[index] = now + lasts;
  last_until_ = std::max(last_until_, now + lasts);
  entry.number = ++last_number_;
}

void DenialCache::invalidate(const StoreRequest& request) {
  if (request.verb == StoreVerb::take || request.verb == StoreVerb::peek) return;
  for (const StoreItem& item : request.items) {
    invalidated_[hash_of(item.key) % kInvalidatedSlots] = last_number_;
  }
}

}  // namespace weir::store::redis
