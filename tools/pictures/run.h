#pragma once

#include <vector>

#include "core/plan.h"

namespace weir::pictures {

// One call and its outcome. Times count from the start of the picture.
struct Call {
  Nanos at{};
  core::Decision decision{};

  bool passed() const { return static_cast<bool>(decision); }
  bool waited() const { return decision.wait > Nanos{0}; }
  Nanos released() const { return at + decision.wait; }
};

// A key under one limit, never used before.
class Key {
 public:
  explicit Key(core::Limit limit);
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;

  Call take(Nanos at, Nanos max_wait = Nanos{0});
  core::Decision peek(Nanos at);

 private:
  core::Charge charge(Nanos max_wait);

  core::Limit limit_;
  core::State state_{};
  core::AdmissionLog::Head head_{};
  std::vector<core::LogEntry> ring_;
};

// `count` times from `first` on, `apart` from each other.
std::vector<Nanos> evenly(Nanos first, int count, Nanos apart);

// The answers of the limit to a call at each of `times`.
std::vector<Call> run(const core::Limit& limit, const std::vector<Nanos>& times,
                      Nanos max_wait = Nanos{0});

int count_passed(const std::vector<Call>& calls);

// The number of calls released in (now - span, now].
int released_within(const std::vector<Call>& calls, Nanos now, Nanos span);

double seconds(Nanos t);

// A limit that is known to be valid.
core::Limit sound(const auto& made) { return *made; }

}  // namespace weir::pictures
