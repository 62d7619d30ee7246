#pragma once

#include "store/shared.h"
#include "weir/fleet.h"

namespace weir {
inline namespace v0 {
namespace detail {

// The store behind a link, for rooms that ask it.
struct LinkAccess {
  static store::SharedStore& store(Link& link) noexcept { return link.store(); }
};

}  // namespace detail
}  // namespace v0
}  // namespace weir
