#pragma once

#include <new>

namespace weir {

// Does some work. False if there was no memory for all of it.
inline bool with_memory(const auto& work) noexcept {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace weir
