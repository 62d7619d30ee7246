#include "subject.h"

#include <cstring>
#include <span>
#include <utility>

namespace weir::core {

namespace {

template <typename T>
void write(std::string& to, const T* from, std::size_t count) {
  if (count > 0) to.append(reinterpret_cast<const char*>(from), count * sizeof(T));
}

template <typename T>
void read(const char*& from, T* to, std::size_t count) {
  if (count > 0) std::memcpy(to, from, count * sizeof(T));
  from += count * sizeof(T);
}

}  // namespace

Subject::Subject(Limit limit) : limit_(std::move(limit)) {
  const auto places = static_cast<std::size_t>(capacity(limit_));
  if (std::holds_alternative<SlidingLog>(limit_)) ring_.resize(places);
  if (std::holds_alternative<Concurrency>(limit_)) seats_.resize(places);
}

Charge Subject::charge(const Ask& ask, bool shadow) {
  Memory memory = &state_;
  if (!ring_.empty()) memory.emplace<AdmissionLog>(head_, std::span(ring_));
  if (!seats_.empty()) memory.emplace<Holders>(seated_, std::span(seats_));
  return {.limit = &limit_, .memory = memory, .ask = ask, .shadow = shadow, .history = &prices_};
}

Decision Subject::take(Instant now, const Ask& ask, std::uint64_t holder) {
  const Charge one = charge(ask);
  return core::take(std::span(&one, 1), now, {.low = holder}).decision;
}

Decision Subject::take(Instant now, const Ask& ask, Receipt& receipt) {
  const Charge one = charge(ask);
  return core::take(std::span(&one, 1), now, {}, std::span(&receipt, 1)).decision;
}

Decision Subject::peek(Instant now, const Ask& ask, std::uint64_t holder) const {
  Subject copy = *this;
  const Charge one = copy.charge(ask);
  return core::peek(std::span(&one, 1), now, {.low = holder}).decision;
}

Decision Subject::settle(Instant now, Permits delta, Receipt& receipt) {
  const Charge one = charge({.cost = delta});
  return core::settle(std::span(&one, 1), now, std::span(&receipt, 1)).decision;
}

void Subject::change(const Limit& limit, Instant now) {
  const Limit old = std::exchange(limit_, limit);
  const auto* from = std::get_if<Bucket>(&old);
  auto* to = std::get_if<Bucket>(&limit_);
  if (from != nullptr && to != nullptr) *to = prices_.change(*to, *from, now);
}

void Subject::forget() { reset(charge({}).memory); }

std::string Subject::bytes() const {
  std::string all;
  write(all, &state_, 1);
  write(all, &head_, 1);
  write(all, ring_.data(), ring_.size());
  write(all, &seated_, 1);
  write(all, seats_.data(), seats_.size());
  return all;
}

void Subject::load(const std::string& bytes) {
  const char* from = bytes.data();
  read(from, &state_, 1);
  read(from, &head_, 1);
  read(from, ring_.data(), ring_.size());
  read(from, &seated_, 1);
  read(from, seats_.data(), seats_.size());
}

}  // namespace weir::core
