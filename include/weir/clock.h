#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <stop_token>

#include "weir/time.h"

namespace weir {
inline namespace v0 {

// Tells the time and waits for it. Limiters take the clock as an argument, so that a test can do
// without real time and waiting can be tested too.
// Thread-safe: every member, from any thread.
// Not for the time of day of a person: a clock of weir does not follow a clock that is set back.
class Clock {
 public:
  virtual ~Clock() = default;

  // Never goes back.
  virtual Instant now() const noexcept = 0;

  // Time that passes, counted from anywhere: where a wall clock is set forward, `now` follows it,
  // and this does not.
  virtual Nanos passed() const noexcept { return now().time_since_epoch(); }

  // Waits until `then`; returns false at once when `stop` is requested before.
  virtual bool sleep_until(Instant then, std::stop_token stop) const = 0;
};

// Wall time at the start of the process, and from then on the time that has passed since, time
// asleep included: setting the system's clock back changes nothing, setting it forward is followed
// within a second. Lives as long as the process.
const Clock& system_clock() noexcept;

// A clock that stands still until it is told to move, for tests and simulations.
// Thread-safe: every member, from any thread.
// Not for measuring anything: it knows nothing of the time outside.
class ManualClock final : public Clock {
 public:
  // What becomes of somebody who sleeps on this clock.
  enum class Sleepers {
    advance_the_clock,  // it moves to the end of their sleep at once: one thread can test waiting
    wait_for_others,    // they sleep until another thread moves it, or they are stopped
  };

  // Where it stands unless told otherwise: a new year, so that all windows begin.
  static constexpr Instant kStart = std::chrono::sys_days{std::chrono::year{2026} / 1 / 1};

  explicit ManualClock(Instant start, Sleepers sleepers = Sleepers::advance_the_clock);
  explicit ManualClock(Sleepers sleepers = Sleepers::advance_the_clock)
      : ManualClock(kStart, sleepers) {}
  ~ManualClock() override;
  ManualClock(const ManualClock&) = delete;
  ManualClock& operator=(const ManualClock&) = delete;

  Instant now() const noexcept override;

  // Instant::max() never comes, whoever sleeps: that is waited for until `stop`.
  bool sleep_until(Instant then, std::stop_token stop) const override;

  // Puts the clock to `now`. It may go back, to test what a clock that does so would do.
  void set(Instant now);
  void advance(Nanos by);

  // Returns once at least `count` threads sleep whose time has not come.
  void await_sleepers(std::size_t count) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace weir
