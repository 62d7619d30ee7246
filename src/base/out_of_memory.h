#pragma once

#include <new>

namespace weir {

// Runs `work`. Returns false if it threw std::bad_alloc.
inline bool catch_bad_alloc(const auto& work) noexcept {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace weir
