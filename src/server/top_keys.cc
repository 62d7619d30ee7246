#include "server/top_keys.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <random>
#include <utility>

namespace weir::server {

namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

// Does not depend on the order of the parts. Differs from the hash of a key that looks like parts.
std::uint64_t hash_of(const Request& request, std::uint64_t seed) {
  if (request.parts.empty()) return hash_of(request.key, seed);
  std::uint64_t sum = 1;
  for (const Part& part : request.parts.all()) {
    sum += hash_of(part.value, hash_of(part.name, ~seed));
  }
  return sum;
}

void write_key(const Request& request, TruncatedText& text) {
  if (request.parts.empty()) return text.append(request.key);
  std::string_view separator;
  for (const Part& part : request.parts.all()) {
    text.append(std::exchange(separator, " "));
    text.append(part.name);
    text.append("=");
    text.append(part.value);
  }
}

}  // namespace

// ---- Time

TopKeysClock::TopKeysClock(const Clock& clock)
    : clock_(clock), start_(clock.now()), seed_(random_seed()) {}

std::int64_t TopKeysClock::second() const noexcept {
  return std::chrono::floor<std::chrono::seconds>(clock_.now() - start_).count();
}

std::int64_t TopKeysClock::covered(std::int64_t second) noexcept {
  return second < 60 ? second + 1 : 60 + second % 60;
}

// ---- Sampling

// A geometric distribution with p = 1/16: the position of the first zero among random hexadecimal
// digits (xorshift64).
std::uint64_t Sampler::skip() noexcept {
  constexpr std::uint64_t lowest_bits = 0x1111'1111'1111'1111;
  for (std::uint64_t passed = 1;; passed += 16) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    std::uint64_t set = random_ | random_ >> 1;
    set |= set >> 2;
    const std::uint64_t zeros = ~set & lowest_bits;
    if (zeros != 0) return passed + static_cast<std::uint64_t>(std::countr_zero(zeros)) / 4;
  }
}

std::uint64_t Sampler::next(std::int64_t second) noexcept {
  if (second != second_) {
    second_ = second;
    left_ = kUnsampledPerSecond;
  }
  if (left_ > 0) --left_;
  sampling_ = left_ == 0;
  return sampling_ ? skip() : 1;
}

// ---- Minutes

HeavyHitters& TwoMinuteSketch::at(std::int64_t minute) {
  if (minute_ != minute) {
    std::swap(current_, last_);
    if (current_) current_->clear();
    if (minute_ + 1 != minute && last_) last_->clear();
    minute_ = minute;
  }
  if (!current_) current_ = std::make_unique<HeavyHitters>(TopKeys::kCounters);
  return *current_;
}

void TwoMinuteSketch::append_to(std::vector<HeavyHitters>& sketches, std::int64_t minute) const {
  if (is_over(minute)) return;
  if (current_) sketches.push_back(*current_);
  if (last_ && minute_ == minute) sketches.push_back(*last_);
}

// ---- Counting

std::uint64_t TopKeys::count(const DecisionEvent& event) {
  const std::int64_t second = clock_.second();
  const std::int64_t minute = TopKeysClock::minute_of(second);
  std::uint64_t hash = hash_of(event.request, clock_.seed());
  const std::uint64_t weight = sampler_.weight();

  const std::lock_guard lock(mutex_);
  advance_to(minute);
  std::string_view name = event.policy;
  PolicyKeys& keys = policy(name);
  const bool is_shared = name != event.policy;
  if (is_shared) hash = hash_of(event.policy, hash);
  HeavyHitters& sketch = (event.verdict ? keys.allowed : keys.refused).at(minute);
  if (TruncatedText* text = sketch.add(hash, weight, weight * (weight - 1))) {
    if (is_shared) {
      text->append(event.policy);
      text->append(" ");
    }
    write_key(event.request, *text);
  }
  return sampler_.next(second);
}

// Drops policies without calls in the last two minutes: they may have been deleted.
void TopKeys::advance_to(std::int64_t minute) {
  if (minute == minute_) return;
  minute_ = minute;
  std::erase_if(policies_, [&](const auto& each) {
    return each.second.allowed.is_over(minute) && each.second.refused.is_over(minute);
  });
}

// The sketches of a policy. Sets `name` to kOthers if the policy has none of its own.
TopKeys::PolicyKeys& TopKeys::policy(std::string_view& name) {
  const auto found = policies_.find(name);
  if (found != policies_.end()) return found->second;
  if (policies_.size() >= kPolicies) name = kOthers;
  return policies_[name];
}

// ---- Reading

void TopKeys::append_to(std::map<std::string_view, KeySketches>& all, std::int64_t second) const {
  const std::int64_t minute = TopKeysClock::minute_of(second);
  std::unique_lock lock(mutex_);
  std::vector<std::string_view> names;
  for (const auto& each : policies_) names.push_back(each.first);
  for (const std::string_view name : names) {
    lock.unlock();
    KeySketches& sketches = all[name];
    lock.lock();
    const auto found = policies_.find(name);
    if (found == policies_.end()) continue;
    found->second.allowed.append_to(sketches.allowed, minute);
    found->second.refused.append_to(sketches.refused, minute);
  }
}

}  // namespace weir::server
