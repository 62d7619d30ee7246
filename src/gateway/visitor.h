#pragma once

#include <cstddef>

#include "net/ground.h"

namespace weir::gateway {

// Whoever has come through the door: a client's connection, whatever it speaks.
class Visitor : public net::Mortal {
 public:
  // Nobody comes any more: ends it when it has nothing to do.
  virtual void shut_down() = 0;
  // Ends it here and now.
  virtual void close() = 0;

  std::size_t place = 0;  // in the house
};

}  // namespace weir::gateway
