#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gateway/request_key.h"
#include "net/timers.h"
#include "weir/async_engine.h"

namespace weir::gateway {

// Paces the body bytes of one exchange to a rate that other exchanges may share. Bytes are charged
// after they have passed, and passing pauses until the charge is admitted. So the rate is exact
// over time, and ahead of the limit by at most one read. For one thread.
class Pacer : public std::enable_shared_from_this<Pacer> {
 public:
  Pacer(AsyncEngine& engine, net::Timers& timers, std::string policy, Permits capacity)
      : engine_(engine),
        policy_(std::move(policy)),
        capacity_(capacity),
        timer_(timers, [this] { on_timer(); }) {}

  // To be filled in before anything passes.
  RequestKey key;
  std::shared_ptr<const void>
      config_owner;  // keeps alive the configuration that the key borrows from
  // Called when bytes may pass again after a pause.
  std::function<void()> resume;

  void charge(std::uint64_t bytes);
  bool is_paused() const { return paused_; }
  // No more bytes will pass: unpaid ones are charged without waiting.
  void end();

 private:
  void charge_next();
  void on_timer();
  void on_verdict(const Verdict& verdict, Permits charged);
  Request request(Permits permits) const;

  AsyncEngine& engine_;
  const std::string policy_;
  const Permits capacity_;  // the most that one take may ask for
  net::Timer timer_;
  Permits unpaid_ = 0;
  bool paused_ = false;
  bool pending_ = false;
  bool charging_ = false;  // inside `charge`
  bool ended_ = false;
};

}  // namespace weir::gateway
