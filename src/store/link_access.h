#pragma once

#include "store/shared_store.h"
#include "weir/fleet.h"

namespace weir {
inline namespace v0 {
namespace detail {

// Gives modules of weir access to the store behind a public Link.
struct LinkAccess {
  static store::SharedStore& store(Link& link) noexcept { return link.store(); }
};

}  // namespace detail
}  // namespace v0
}  // namespace weir
