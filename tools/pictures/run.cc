#include "run.h"

#include <algorithm>
#include <utility>

namespace weir::pictures {

namespace {

// Pictures begin at a whole minute, so that aligned windows begin with them.
constexpr Instant kStart{std::chrono::minutes{29'453'760}};  // 2026-01-01T00:00:00Z

}  // namespace

Key::Key(core::Limit limit) : limit_(std::move(limit)) {
  if (std::holds_alternative<core::SlidingLog>(limit_)) {
    ring_.resize(static_cast<std::size_t>(core::capacity(limit_)));
  }
}

core::Charge Key::charge(Nanos max_wait) {
  const core::Memory memory =
      ring_.empty() ? core::Memory{&state_} : core::Memory{core::AdmissionLog{head_, ring_}};
  return {.limit = &limit_, .memory = memory, .ask = {.max_wait = max_wait}};
}

Call Key::take(Nanos at, Nanos max_wait) {
  const core::Charge one[] = {charge(max_wait)};
  return {at, core::take(one, kStart + at).decision};
}

core::Decision Key::peek(Nanos at) {
  const core::Charge one[] = {charge(Nanos{0})};
  return core::peek(one, kStart + at).decision;
}

std::vector<Nanos> evenly(Nanos first, int count, Nanos apart) {
  std::vector<Nanos> times;
  for (int i = 0; i < count; ++i) times.push_back(first + i * apart);
  return times;
}

std::vector<Call> run(const core::Limit& limit, const std::vector<Nanos>& times, Nanos max_wait) {
  Key key(limit);
  std::vector<Call> calls;
  for (const Nanos at : times) calls.push_back(key.take(at, max_wait));
  return calls;
}

int count_passed(const std::vector<Call>& calls) {
  return static_cast<int>(std::ranges::count_if(calls, &Call::passed));
}

int released_within(const std::vector<Call>& calls, Nanos now, Nanos span) {
  return static_cast<int>(std::ranges::count_if(calls, [&](const Call& call) {
    return call.passed() && call.released() <= now && call.released() > now - span;
  }));
}

double seconds(Nanos t) { return std::chrono::duration<double>(t).count(); }

}  // namespace weir::pictures
