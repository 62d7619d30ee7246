#pragma once

#include <nghttp2/nghttp2.h>

namespace weir::wire {

// Memory for nghttp2's sessions of this thread. A request makes the library ask for a dozen small
// pieces and give them back: those that were given back are kept for the next, in a list for each
// size, which needs neither a lock nor a search. What is kept is bounded.
//
// A session is made, used and ended by the same thread.
nghttp2_mem* h2_memory();

}  // namespace weir::wire
