#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan.h"
#include "store/shared_store.h"

namespace weir::engine {

// One of the limits of a decision that come with the call: no policy knows it.
struct GivenLimit {
  const core::Limit* limit = nullptr;  // a concurrency limit or an exact log it is not
  // Identifies its usage. On the fleet: the name of the key (see store/key_name.h).
  std::string_view key{};
  std::uint64_t identity = 0;  // of the limit: in a full table newcomers share a state of it
  core::Ask ask{};             // of settle: the cost is what to correct by
  bool shadow = false;
};

// The proof of what was taken from one of them, for a settle.
struct GivenReceipt {
  bool shared = false;  // it was the fleet that admitted it
  std::uint32_t resets = 0;
  store::StoreReceipt receipt{};
};

struct GivenQuestion {
  Operation verb = Operation::take;      // or peek or settle
  std::span<const GivenLimit> limits{};  // at most core::kMaxLimits, of different keys
  bool wants_receipts = false;           // of take
  std::span<GivenReceipt> receipts{};    // of settle: one for each limit
  // Without an answer of the fleet: whether this node decides, with its part of the limits.
  bool may_be_local = true;
};

struct GivenAnswer {
  // Of a settle: always allowed, and `refusing` says which limits would not have admitted it.
  core::Verdict verdict{};
  std::vector<core::Decision> decisions{};  // of each limit
  std::vector<GivenReceipt> receipts{};     // of each limit, if wanted and admitted
  Instant now{};                            // by the clock of who decided
  bool degraded = false;                    // the fleet could not be asked
  bool mistaken = false;                    // for it is not what it should be, rather than away
  std::string trouble{};                    // why; there are decisions only if this node decided
};

using GivenDone = std::function<void(GivenAnswer&)>;

}  // namespace weir::engine
