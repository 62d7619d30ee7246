#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/descriptor.h"
#include "net/poller.h"
#include "net/protocol.h"
#include "net/timers.h"

namespace weir::net {

// Anything that must not be destroyed while somebody is in the middle of it.
class Mortal {
 public:
  virtual ~Mortal() = default;
};

// What a loop offers to those who live on it and have connections of their own. For its thread.
struct Ground {
  Poller& poller;
  Timers timers{};
  std::vector<std::unique_ptr<Mortal>> dead{};  // gone when nobody can be in the middle of them
  // Memory for the one that is being served.
  std::vector<char> input = std::vector<char>(64 << 10);
  std::size_t left = 0;  // of those that were let in, so many have left since it was looked at

  void bury(std::unique_ptr<Mortal> mortal) { dead.push_back(std::move(mortal)); }
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
