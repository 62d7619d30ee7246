#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include "core/limit.h"
#include "core/plan.h"
#include "policy/calendar.h"

// The measured steps, each with its traffic. Both programs here use the same list: weir_core_bench
// measures time, weir_core_count counts instructions.
//
// The time is an argument, not read. Calls come at random intervals, as from many independent
// callers, so that a call does not always find the same debt. Each call starts from the state that
// the one before left. Every answer is checked: a limit that refuses (or admits) where it should
// not would measure something else, and fails the run.

namespace weir::bench {

using namespace std::chrono_literals;
using core::Ask;
using core::Outcome;
using core::Rate;
using core::State;

// Forces the compiler to compute the value.
template <typename T>
[[gnu::always_inline]] inline void keep(const T& value) {
  __asm__ volatile("" : : "m"(value));
}

// Hides the content of the object from the compiler: otherwise it would keep parts of a limit in
// registers from one step to the next, as no caller of many limits can.
template <typename T>
[[gnu::always_inline]] inline T& unknown(T& object) {
  T* at = &object;
  __asm__ volatile("" : "+r"(at) : : "memory");
  return *at;
}

template <typename T, typename E>
T must(Result<T, E> made) {
  if (made) return *std::move(made);
  std::fputs("bench: a limit or calendar cannot be made\n", stderr);
  std::abort();
}

constexpr Rate per(Nanos period, std::int64_t count) { return {.count = count, .period = period}; }

// Instants at random intervals of a given mean (a Poisson process), the same ones in every run.
class Arrivals {
 public:
  explicit Arrivals(Nanos mean) {
    std::mt19937_64 random;  // NOLINT: a fixed seed is intended
    std::exponential_distribution<double> gap{1.0 / static_cast<double>(mean.count())};
    for (Nanos& g : gaps_) g = Nanos{static_cast<std::int64_t>(gap(random)) + 1};
  }

  [[gnu::always_inline]] Instant now() const { return now_; }
  [[gnu::always_inline]] Instant next() { return now_ += gaps_[next_++ % gaps_.size()]; }

 private:
  std::array<Nanos, 1024> gaps_;
  std::uint32_t next_ = 0;
  Instant now_ = std::chrono::sys_days{std::chrono::year{2026} / 1 / 1};
};

// The ceiling: the minimum for any limiter shared by threads, one compare-and-swap of one word in a
// loop, without contention.
class SwapLoop {
 public:
  [[gnu::always_inline]] void operator()() {
    std::uint64_t old = word_.load(std::memory_order_relaxed);
    while (!word_.compare_exchange_weak(old, old + 1)) {
    }
  }
  bool as_expected() const { return word_ != 0; }

 private:
  alignas(64) std::atomic<std::uint64_t> word_{0};
};

// How the next state is written: as two words, as a table shared by threads has to, or as a plain
// assignment, which compilers turn into one move of 16 bytes. The latter is measured for one step
// only, to show its cost: the same instructions take far longer when the 16 bytes were written as
// two words just before. (The cause is most likely a store-forwarding stall; there are no hardware
// counters here to prove it.)
enum class Copy { by_word, whole };

template <Copy copy>
[[gnu::always_inline]] inline void replace(State& state, const State& next) {
  if constexpr (copy == Copy::whole) {
    state = next;
  } else {
    std::uint64_t when = next.when;
    std::uint64_t what = next.what;
    __asm__("" : "+r"(when), "+r"(what));
    state.when = when;
    state.what = what;
  }
}

// take() of one limit: the decision with all its numbers, and the next state.
template <typename L, Copy copy = Copy::by_word>
class Take {
 public:
  Take(L limit, Nanos mean_gap, Ask ask = {}, Outcome expected = Outcome::allowed)
      : limit_(std::move(limit)), ask_(ask), expected_(expected), arrivals_(mean_gap) {
    if (expected == Outcome::limited) use_up();
  }

  [[gnu::always_inline]] void operator()() {
    const core::StepResult taken =
        core::take(unknown(limit_), state_, arrivals_.next(), unknown(ask_));
    keep(taken);
    replace<copy>(state_, taken.next);
    surprised_ |= taken.decision.outcome != expected_;
  }
  bool as_expected() const { return !surprised_; }

 private:
  void use_up() {
    for (Permits i = capacity(limit_); i > 0; --i) {
      state_ = core::take(limit_, state_, arrivals_.now()).next;
    }
  }

  L limit_;
  Ask ask_;
  Outcome expected_;
  bool surprised_ = false;
  State state_{};
  Arrivals arrivals_;
};

// One call under three limits: of the caller, of its organisation, of all.
class TakeThree {
 public:
  [[gnu::always_inline]] void operator()() {
    const std::array<core::Charge, 3> charges{{
        {.limit = &limits_[0], .memory = &states_[0]},
        {.limit = &limits_[1], .memory = &states_[1]},
        {.limit = &limits_[2], .memory = &states_[2]},
    }};
    const core::Verdict verdict = core::take(charges, arrivals_.next());
    keep(verdict);
    surprised_ |= !verdict.decision;
  }
  bool as_expected() const { return !surprised_; }

 private:
  std::array<core::Limit, 3> limits_{
      must(core::Bucket::make(per(1s, 100), 100)),
      must(core::Bucket::make(per(1min, 12'000), 600)),
      must(core::Window::make(per(1min, 6000), false)),
  };
  std::array<State, 3> states_{};
  bool surprised_ = false;
  Arrivals arrivals_{20ms};
};

// A log of about a hundred calls: 200/s, called a hundred times a second. Each step decides, and
// logs the call.
class LogCall {
 public:
  [[gnu::always_inline]] void operator()() {
    const core::AdmissionLog log{head_, ring_};
    const Instant now = arrivals_.next();
    const core::Evaluation evaluation = core::decide(limit_, log, now, Ask{});
    keep(evaluation);
    surprised_ |= evaluation.outcome != Outcome::allowed;
    core::charge(limit_, log, now, 1);
  }
  bool as_expected() const { return !surprised_; }

 private:
  core::SlidingLog limit_ = must(core::SlidingLog::make(per(1s, 200)));
  core::AdmissionLog::Head head_{};
  std::array<core::LogEntry, 200> ring_{};
  bool surprised_ = false;
  Arrivals arrivals_{10ms};
};

// 64 holders of at most 100. In each step one enters and a random one leaves.
class EnterAndLeave {
 public:
  EnterAndLeave() {
    std::mt19937 random;  // NOLINT
    for (std::uint8_t& leaver : leavers_) leaver = random() % inside_.size();
    for (core::HolderId& id : inside_) enter(id);
  }

  [[gnu::always_inline]] void operator()() {
    core::HolderId& place = inside_[leavers_[entered_ % leavers_.size()]];
    const core::HolderId leaving = place;
    enter(place);
    surprised_ |= !core::leave({size_, seats_}, leaving, arrivals_.now());
  }
  bool as_expected() const { return !surprised_ && size_ == inside_.size(); }

 private:
  [[gnu::always_inline]] void enter(core::HolderId& id) {
    id = {.high = 1, .low = ++entered_};
    const Instant now = arrivals_.next();
    const core::Evaluation evaluation = core::decide(limit_, {size_, seats_}, id, now, 1);
    keep(evaluation);
    surprised_ |= evaluation.outcome != Outcome::allowed;
    core::enter(limit_, {size_, seats_}, id, now, 1);
  }

  core::Concurrency limit_ = must(core::Concurrency::make(100, 60s));
  std::uint32_t size_ = 0;
  std::array<core::Holder, 100> seats_{};
  std::array<core::HolderId, 64> inside_{};
  std::uint64_t entered_ = 0;
  bool surprised_ = false;
  std::array<std::uint8_t, 1024> leavers_;
  Arrivals arrivals_{1ms};
};

// Days of UTC, the cheapest calendar.
class Days final : public core::Calendar {
 public:
  core::Span span_at(Instant t) const override { return core::aligned_span(24h, t); }
};

// Calls `add(name, make)` for each step, where `make()` returns the callable to measure.
template <typename Add>
void each_step(const Add& add) {
  using core::Bucket;
  using core::CalendarWindow;
  using core::NginxQueue;
  using core::SlidingCounter;
  using core::Smooth;
  using core::Window;
  const Ask patient{.max_wait = kForever};

  add("compare-and-swap loop", [] { return SwapLoop{}; });

  // Half the rate is used; now and then a few calls come at once, and the burst is never used up.
  add("bucket", [] { return Take{must(Bucket::make(per(1s, 1000), 100)), 2ms}; });
  add("bucket, state copied whole", [] {
    return Take<Bucket, Copy::whole>{must(Bucket::make(per(1s, 1000), 100)), 2ms};
  });
  add("bucket, cost 5", [] {
    return Take{must(Bucket::make(per(1s, 1000), 100)), 10ms, Ask{.cost = 5}};
  });
  // An emission interval of 142 857 142 6/7 ns, so that fractions of a nanosecond matter.
  add("bucket, 7/s", [] { return Take{must(Bucket::make(per(1s, 7), 40)), 286ms}; });
  // A client that has used up its daily quota and keeps calling.
  add("bucket, refused", [] {
    return Take{must(Bucket::make(per(24h, 100), 100)), 1us, Ask{}, Outcome::limited};
  });
  // Four calls in five have to wait for their turn, and accept that.
  add("queue", [=] {
    return Take{must(Bucket::make_queue(per(1s, 100), 100, 0)), 12500us, patient};
  });
  add("nginx queue", [=] {
    return Take{must(NginxQueue::make(per(1s, 100), 100, 0)), 12500us, patient};
  });

  // Somewhat less than the rate is used: savings come and go.
  add("smooth", [=] { return Take{must(Smooth::make(per(1s, 100))), 11ms, patient}; });
  // A third of the rate is used: the limiter stays on the slope between warm and cold.
  add("smooth, warming up", [=] {
    return Take{must(Smooth::make_warming(per(1s, 100), 2s)), 30ms, patient};
  });

  // Half of what a window grants is used.
  add("window, aligned", [] { return Take{must(Window::make(per(1min, 6000), false)), 20ms}; });
  add("window, from first", [] { return Take{must(Window::make(per(1min, 6000), true)), 20ms}; });
  add("sliding window", [] { return Take{must(SlidingCounter::make(per(1min, 6000))), 20ms}; });
  add("quota, days of UTC", [] {
    return Take{must(CalendarWindow::make(100'000, std::make_shared<Days>())), 1700ms};
  });
  // The same number, in a time zone with daylight saving time.
  add("quota, days of Berlin", [] {
    auto days = policy::ZoneCalendar::make(policy::CalendarUnit::day, "Europe/Berlin", 1);
    return Take{must(CalendarWindow::make(100'000, must(std::move(days)))), 1700ms};
  });

  add("log of 100, decide and charge", [] { return LogCall{}; });
  add("concurrency of 64, enter and leave", [] { return EnterAndLeave{}; });
  add("three limits at once", [] { return TakeThree{}; });
}

}  // namespace weir::bench
