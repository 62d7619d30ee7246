#pragma once

#include <cstddef>

#include "net/loop_context.h"

namespace weir::gateway {

// A connection that a client has opened, of any protocol.
class ClientConnection : public net::DeferredDelete {
 public:
  // The listener has closed: end the connection as soon as it is idle.
  virtual void shut_down() = 0;
  // Closes the connection at once.
  virtual void close() = 0;

  std::size_t index = 0;  // in the worker's list
};

}  // namespace weir::gateway
