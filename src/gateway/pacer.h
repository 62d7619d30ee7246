#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gateway/keys.h"
#include "net/timers.h"
#include "weir/async_engine.h"

namespace weir::gateway {

// Keeps the bytes of one exchange to a rate that others may share: what has passed is paid for, and
// nothing more is to pass until it is. So it is exact in the long run, and ahead by what is read at
// once, at most. For one thread.
class Pacer : public std::enable_shared_from_this<Pacer> {
 public:
  Pacer(AsyncEngine& engine, net::Timers& timers, std::string policy, Permits capacity)
      : engine_(engine),
        policy_(std::move(policy)),
        capacity_(capacity),
        timer_(timers, [this] { on_time(); }) {}

  // To be made before anything passes.
  MadeKey key;
  std::shared_ptr<const void> kept;  // what the key is made of
  // Told when something may pass again, after it had to wait.
  std::function<void()> resume;

  void pay(std::uint64_t bytes);
  bool is_waiting() const { return waits_; }
  // Nothing more will pass: what is owed is charged without waiting.
  void end();

 private:
  void pay_on();
  void on_time();
  void on_verdict(const Verdict& verdict, Permits paid);
  Request request(Permits permits) const;

  AsyncEngine& engine_;
  const std::string policy_;
  const Permits capacity_;  // what can be paid at once
  net::Timer timer_;
  Permits owed_ = 0;
  bool waits_ = false;
  bool asking_ = false;
  bool paying_ = false;  // within `pay`
  bool over_ = false;
};

}  // namespace weir::gateway
