#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gateway/keys.h"
#include "weir/async_engine.h"

namespace weir::gateway {

// What has to be known of a policy to ask it.
struct PolicyTraits {
  bool enters = false;  // has limits of what is under way at a time
  Nanos lease{0};       // the shortest of these
  bool queues = false;  // has limits under which callers wait for their turn
};

// Who is told what was decided.
class Claimant {
 public:
  virtual void on_verdict(const Verdict& verdict) = 0;

 protected:
  ~Claimant() = default;
};

class Claim;

// Those who have left, where nobody knows whether the fleet has heard of it: they say so again, or
// their seats would stay taken for the whole lease. For one thread.
class Farewells {
 public:
  void add(std::shared_ptr<Claim> claim);
  // To be called now and then.
  void look_around();

 private:
  std::vector<std::shared_ptr<Claim>> claims_;
};

// What one request has of its limits: from asking to giving back what it did not need. Lives until
// the last answer has come, also if the request has ended meanwhile. For one thread.
class Claim : public std::enable_shared_from_this<Claim> {
 public:
  Claim(AsyncEngine& engine, Farewells& farewells) : engine_(engine), farewells_(farewells) {}

  // To be made for the request, before it is asked for.
  MadeKey key;
  std::shared_ptr<const void> kept;  // what the key is made of

  // Asks; the claimant is told, perhaps before this returns. `policy` lives as long as this.
  // `gives_back`: what it takes may have to be given back or corrected.
  void ask(std::string_view policy, const PolicyTraits& traits, Permits permits, bool gives_back,
           Claimant& claimant);
  // Makes the lease of what is under way last longer.
  void renew();
  // The request is over, and used `correction` permits more than it asked for, or less.
  void end(Permits correction);
  // The request is over before its time has come, or was never served: all of it goes back.
  void give_back();
  // Leaves once more, unless the lease has ended anyway.
  void leave_again();

 private:
  using Clock = std::chrono::steady_clock;
  Request request() const;
  void on_verdict(const Verdict& verdict);
  void leave();
  void on_left(const Result<bool, Trouble>& left);
  void settle(Permits delta);

  AsyncEngine& engine_;
  Farewells& farewells_;
  Claimant* claimant_ = nullptr;  // none: nobody wants to know any more
  std::string policy_;
  std::string holder_;  // empty: has not entered
  Receipt receipt_;
  Permits permits_ = 1;
  bool gives_back_ = false;
  bool asking_ = false;
  bool holds_ = false;   // was let in
  bool unsure_ = false;  // whether the fleet has let it in
  Nanos lease_{0};
  Clock::time_point until_{};  // its lease, if it left now
};

}  // namespace weir::gateway
