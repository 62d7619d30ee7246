#pragma once

#include <memory>

#include "net/loops.h"
#include "weir/engine.h"
#include "weir/fleet.h"

namespace weir::server {

// The calling thread's link to the fleet. On a thread without a ThreadLink, or in a daemon without
// a fleet: a link that is never used.
Link& link_of_this_thread();

// Owns a loop thread's link to the fleet, and runs it in the loop.
class ThreadLink final : public net::LoopService {
 public:
  ThreadLink(Fleet& fleet, Engine& engine);
  // Returns the permits that were leased over this link.
  ~ThreadLink() override;

  int descriptor() const noexcept override { return link_->descriptor(); }
  void run_ready() override { link_->run_ready(); }
  void end_iteration() override { link_->flush(); }

 private:
  Engine& engine_;
  const std::unique_ptr<Link> link_;
};

}  // namespace weir::server
