#pragma once

#include <memory>
#include <string>

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

// What one request has of its limits: from asking to giving back what it did not need. Lives until
// the last answer has come, also if the request has ended meanwhile. For one thread.
class Claim : public std::enable_shared_from_this<Claim> {
 public:
  explicit Claim(AsyncEngine& engine) : engine_(engine) {}

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

 private:
  Request request() const;
  void on_verdict(const Verdict& verdict);
  void leave();
  void settle(Permits delta);

  AsyncEngine& engine_;
  Claimant* claimant_ = nullptr;  // none: nobody wants to know any more
  std::string policy_;
  std::string holder_;  // empty: has not entered
  Receipt receipt_;
  Permits permits_ = 1;
  bool gives_back_ = false;
  bool asking_ = false;
  bool holds_ = false;  // was let in
};

}  // namespace weir::gateway
