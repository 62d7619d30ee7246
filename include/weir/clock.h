#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <stop_token>

#include "weir/time.h"

namespace weir {
inline namespace v0 {

// A source of time that can also sleep. Limiters take the clock as an argument, so that tests can
// control time and sleeping.
// Thread-safe.
// Not for displaying the time of day: it does not follow a system clock that is set back.
class Clock {
 public:
  virtual ~Clock() = default;

  // Never goes back.
  virtual Instant now() const noexcept = 0;

  // Monotonic time with an arbitrary origin, for timeouts. A wall clock that is set forward moves
  // `now` but not this.
  virtual Nanos monotonic() const noexcept { return now().time_since_epoch(); }

  // Sleeps until `then` and returns true. Returns false as soon as `stop` is requested.
  virtual bool sleep_until(Instant then, std::stop_token stop) const = 0;
};

// Wall time that never goes back. It starts with the system's wall clock and counts on by the
// monotonic clock, including time in suspend. It ignores a wall clock that is set back, and follows
// one that is set forward within a second. Lives as long as the process.
const Clock& system_clock() noexcept;

// A clock that only moves when it is told to, for tests and simulations.
// Thread-safe.
class ManualClock final : public Clock {
 public:
  // The effect of sleep_until.
  enum class Sleepers {
    advance_the_clock,  // moves the clock to the end of the sleep: tests need only one thread
    wait_for_others,    // blocks until another thread moves the clock, or until stopped
  };

  // The default start: the beginning of a year, so that all calendar windows begin.
  static constexpr Instant kStart = std::chrono::sys_days{std::chrono::year{2026} / 1 / 1};

  explicit ManualClock(Instant start, Sleepers sleepers = Sleepers::advance_the_clock);
  explicit ManualClock(Sleepers sleepers = Sleepers::advance_the_clock)
      : ManualClock(kStart, sleepers) {}
  ~ManualClock() override;
  ManualClock(const ManualClock&) = delete;
  ManualClock& operator=(const ManualClock&) = delete;

  Instant now() const noexcept override;

  // Instant::max() is never reached: such a sleep blocks until `stop`, in either mode.
  bool sleep_until(Instant then, std::stop_token stop) const override;

  // Sets the clock to `now`. It may go back, to test clocks that do.
  void set(Instant now);
  void advance(Nanos by);

  // Blocks until at least `count` threads sleep until an instant after `now`.
  void await_sleepers(std::size_t count) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace weir
