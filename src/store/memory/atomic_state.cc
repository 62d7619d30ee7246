#include "store/memory/atomic_state.h"

#include <sched.h>

namespace weir::store {

void SpinWait::wait() noexcept {
  constexpr int spins_before_yielding = 64;
  if (++spins_ < spins_before_yielding) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  } else {
    sched_yield();
  }
}

}  // namespace weir::store
