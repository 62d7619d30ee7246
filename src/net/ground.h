#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/descriptor.h"
#include "net/memory.h"
#include "net/poller.h"
#include "net/protocol.h"
#include "net/timers.h"

namespace weir::net {

// Anything that must not be destroyed while somebody is in the middle of it.
class Mortal {
 public:
  virtual ~Mortal() = default;

 private:
  friend struct Ground;
  std::unique_ptr<Mortal> next_dead_;  // (a list, as it must not need memory to free some)
};

// What a loop offers to those who live on it and have connections of their own. For its thread.
struct Ground {
  Poller& poller;
  LoopMemory& memory;
  Timers timers{};
  std::unique_ptr<Mortal> dead{};  // the last of those to be destroyed at the end of the turn
  // Memory for the one that is being served.
  std::vector<char> input = std::vector<char>(64 << 10);
  std::size_t left = 0;  // of those that were let in, so many have left since it was looked at

  void bury(std::unique_ptr<Mortal> mortal) noexcept {
    mortal->next_dead_ = std::move(dead);
    dead = std::move(mortal);
  }
  // Destroys all that was buried, one after the other. Each may bury others.
  void destroy_dead() noexcept {
    while (dead) dead = std::exchange(dead->next_dead_, nullptr);
  }
};

// Who lives on a loop and takes care of the connections that a door lets in.
class Resident {
 public:
  virtual ~Resident() = default;

  // Somebody who is let in, on a socket that does not block. When it has left, `Ground::left` is
  // raised by one.
  virtual void admit(Descriptor socket, const Peer& peer) = 0;
  // Whether there is room for one more. Who comes while there is none waits to be let in.
  virtual bool has_room() const { return true; }
  // Several times a second.
  virtual void look_around() {}
  // Nobody comes any more: finish what is under way.
  virtual void shut_down() = 0;
  // Whether everybody has left.
  virtual bool is_alone() const = 0;
};

}  // namespace weir::net
