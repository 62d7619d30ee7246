#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "store/redis/link_counts.h"
#include "store/shared_store.h"

namespace weir::store::redis {

// Executes requests whose keys have several hash slots of a cluster, which no single script can
// access: sends one part for each hash slot, all at the same time, and joins the responses. Not
// thread-safe.
//
// If a part is denied or fails, the others are undone: takes are refunded by their receipts, and
// holders leave where they did not hold permits before. The caller gets its response before that is
// done. Meanwhile other calls may be denied, but never wrongly admitted.
//
// A holder that already holds permits of all concurrency limits renews, and is charged for nothing
// else. So these limits are sent first, and the others depending on the result.
class CrossSlotQuery {
 public:
  // Sends parts, and gets the joined responses.
  class PartSender {
   public:
    // Sends a request about keys of one hash slot. Everything it borrows lives until its response.
    // A deadline of zero stands for the usual timeout.
    virtual void send_part(const StoreRequest& request, StoreCallback& callback,
                           Nanos deadline) = 0;
    // `is_part`: the request itself was a part.
    virtual void on_complete(const StoreRequest& request, StoreResponse& response,
                             StoreCallback& callback, bool is_part) = 0;

   protected:
    ~PartSender() = default;
  };

  // Both outlive it.
  CrossSlotQuery(PartSender& sender, LinkCounts& counts);
  // No request may be in flight.
  ~CrossSlotQuery();
  CrossSlotQuery(const CrossSlotQuery&) = delete;
  CrossSlotQuery& operator=(const CrossSlotQuery&) = delete;

  // True if the request's keys have several hash slots.
  static bool is_needed(const StoreRequest& request);

  void ask(const StoreRequest& request, StoreCallback& callback, Nanos deadline);
  // One part for each key: for a hash slot that is being migrated.
  void ask_each_key(const StoreRequest& request, StoreCallback& callback, Nanos deadline,
                    bool is_part);

 private:
  class InFlight;

  InFlight& acquire();

  PartSender& sender_;
  LinkCounts& counts_;
  std::vector<std::unique_ptr<InFlight>> all_;
  std::vector<InFlight*> free_;
};

}  // namespace weir::store::redis
