#pragma once

#include <memory>

#include "net/loops.h"
#include "weir/engine.h"
#include "weir/fleet.h"

namespace weir::server {

// The way to the fleet of the thread that calls: of a thread of a daemon that has a fleet. Of
// others it is one that nobody asks anything.
Link& link_of_this_thread();

// A thread's link, as long as the thread serves.
class LinkCompanion final : public net::Companion {
 public:
  LinkCompanion(Fleet& fleet, Engine& engine);
  // What was borrowed by this thread is given back.
  ~LinkCompanion() override;

  int descriptor() const noexcept override { return link_->descriptor(); }
  void run_ready() override { link_->run_ready(); }
  void end_turn() override { link_->flush(); }

 private:
  Engine& engine_;
  const std::unique_ptr<Link> link_;
};

}  // namespace weir::server
