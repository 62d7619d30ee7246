#include "store/redis/refusals.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <type_traits>

namespace weir::store::redis {

namespace {

constexpr Nanos kLongest = std::chrono::milliseconds{100};
constexpr Nanos kNever = Nanos::min();
constexpr std::size_t kForgottenPlaces = 4096;

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
Numbers numbers_of(const core::Sliding& l) { return {l.count, l.period.count()}; }
Numbers numbers_of(const core::Quota& l) { return {l.count}; }
Numbers numbers_of(const core::ExactLog& l) { return {l.count, l.period.count()}; }
Numbers numbers_of(const core::Concurrency& l) { return {l.count, l.lease.count()}; }
Numbers numbers_of(const core::Cell& l) { return {l.capacity, l.price.count(), l.depth.count()}; }

Nanos less(Nanos duration, Nanos passed) {
  return duration > Nanos{0} ? std::max(duration - passed, Nanos{0}) : duration;
}

core::Decision later(core::Decision decision, Nanos passed) {
  decision.retry_after = less(decision.retry_after, passed);
  decision.reset_after = less(decision.reset_after, passed);
  return decision;
}

// How long it stays refused for sure, with all limits that refuse now; nothing if not at all.
Nanos lasting(std::span<const core::Decision> decisions) {
  Nanos longest = kLongest;
  for (const core::Decision& decision : decisions) {
    if (decision.outcome == Outcome::impossible) return Nanos{0};
    if (decision.outcome == Outcome::limited) longest = std::min(longest, decision.retry_after);
  }
  return longest;
}

}  // namespace

Refusals::Refusals(std::uint64_t seed, std::size_t size)
    : seed_(seed),
      entries_(std::bit_ceil(size)),
      until_(entries_.size(), kNever),
      forgotten_(kForgottenPlaces) {}

Refusals::Parameters Refusals::parameters_of(const core::Limit& limit) {
  Parameters parameters;
  parameters.numbers = std::visit([](const auto& l) { return numbers_of(l); }, limit);
  parameters.numbers.back() = static_cast<std::int64_t>(limit.index());
  if (const auto* quota = std::get_if<core::Quota>(&limit)) parameters.calendar = quota->calendar;
  return parameters;
}

bool Refusals::can_be_kept(const SharedQuestion& question) {
  return question.verb == SharedVerb::take && !question.items.empty() && !question.now &&
         std::ranges::none_of(question.items, [](const SharedItem& item) {
           return item.shadow || std::holds_alternative<core::Concurrency>(*item.limit);
         });
}

std::uint64_t Refusals::hash_of(std::string_view key) const {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed_);
}

std::uint64_t Refusals::hash_of(const core::Ask& ask) const {
  const std::array<std::int64_t, 2> numbers{ask.cost, ask.max_wait.count()};
  return XXH3_64bits_withSeed(numbers.data(), sizeof numbers, seed_);
}

std::size_t Refusals::place_of(const SharedQuestion& question) const {
  std::uint64_t hash = 0;
  for (const SharedItem& item : question.items) {
    hash = std::rotl(hash, 7) ^ hash_of(item.key) ^ hash_of(item.ask);
  }
  return hash & (entries_.size() - 1);
}

bool Refusals::is_about(const Entry& entry, const SharedQuestion& question) const {
  if (entry.count != question.items.size()) return false;
  for (std::size_t i = 0; i < entry.count; ++i) {
    const Part& part = entry.parts[i];
    const SharedItem& item = question.items[i];
    if (part.ask != item.ask || part.key != item.key) return false;
    if (!(part.parameters == parameters_of(*item.limit))) return false;
  }
  return true;
}

bool Refusals::is_forgotten(const Entry& entry) const {
  if (entry.number <= forgotten_before_) return true;
  return std::any_of(entry.parts.begin(),
                     entry.parts.begin() + static_cast<std::ptrdiff_t>(entry.count),
                     [&](const Part& part) {
                       return forgotten_[hash_of(part.key) % kForgottenPlaces] >= entry.number;
                     });
}

bool Refusals::refuses(const SharedQuestion& question, Nanos now, SharedAnswer& answer) const {
  if (now >= last_until_ || !can_be_kept(question)) return false;
  const std::size_t place = place_of(question);
  if (now >= until_[place]) return false;
  const Entry& entry = entries_[place];
  if (!is_about(entry, question) || is_forgotten(entry)) return false;
  const Nanos passed = now - entry.at;
  answer.kind = SharedAnswer::Kind::decided;
  answer.error.clear();
  answer.now = entry.store_time + passed;
  answer.verdict = entry.verdict;
  answer.verdict.decision = later(entry.verdict.decision, passed);
  answer.decisions.clear();
  for (std::size_t i = 0; i < entry.count; ++i) {
    answer.decisions.push_back(later(entry.parts[i].decision, passed));
  }
  answer.receipts.clear();
  answer.left = false;
  return true;
}

void Refusals::remember(const SharedQuestion& question, const SharedAnswer& answer, Nanos now) {
  if (answer.kind != SharedAnswer::Kind::decided || answer.verdict.decision) return;
  if (!can_be_kept(question) || answer.decisions.size() != question.items.size()) return;
  const Nanos lasts = lasting(answer.decisions);
  if (lasts <= Nanos{0}) return;
  const std::size_t place = place_of(question);
  Entry& entry = entries_[place];
  entry.count = question.items.size();
  if (entry.parts.size() < entry.count) entry.parts.resize(entry.count);
  for (std::size_t i = 0; i < entry.count; ++i) {
    const SharedItem& item = question.items[i];
    entry.parts[i].key.assign(item.key);
    entry.parts[i].parameters = parameters_of(*item.limit);
    entry.parts[i].ask = item.ask;
    entry.parts[i].decision = answer.decisions[i];
  }
  entry.verdict = answer.verdict;
  entry.store_time = answer.now;
  entry.at = now;
  until_[place] = now + lasts;
  last_until_ = std::max(last_until_, now + lasts);
  entry.number = ++last_number_;
}

void Refusals::forget(const SharedQuestion& question) {
  if (question.verb == SharedVerb::take || question.verb == SharedVerb::peek) return;
  for (const SharedItem& item : question.items) {
    forgotten_[hash_of(item.key) % kForgottenPlaces] = last_number_;
  }
}

}  // namespace weir::store::redis
