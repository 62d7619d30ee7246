#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "store/redis/counts.h"
#include "store/shared.h"

namespace weir::store::redis {

// Questions about keys that no single script can look at, as they lie in several slots of a
// cluster: asked in parts at the same time, and answered as if they had been one.
//
// What some parts have taken is given back if others refuse or fail: by receipts, and the seats of
// holders by leaving them. A seat that the holder had before stays. That goes on behind the answer.
// Until it is done others may be refused for it; nobody is ever admitted for it.
//
// Whoever has a seat under all limits of concurrency renews, and is charged for nothing else: so
// those are asked first, and then the others, as what came of that says.
class Spread {
 public:
  // Who asks, and is answered.
  class Host {
   public:
    // About keys of one slot. What `question` borrows lives until it is answered. Without a
    // deadline (zero) it has the time that any question has.
    virtual void ask_part(const SharedQuestion& question, Asker& asker, Nanos deadline) = 0;
    // `is_part`: the question was one that `ask_part` was asked.
    virtual void answer_whole(const SharedQuestion& question, SharedAnswer& answer, Asker& asker,
                              bool is_part) = 0;

   protected:
    ~Host() = default;
  };

  // Both outlive it.
  Spread(Host& host, LinkCounts& counts);
  // None may be open.
  ~Spread();
  Spread(const Spread&) = delete;
  Spread& operator=(const Spread&) = delete;

  // Whether the question is about several slots.
  static bool is_needed(const SharedQuestion& question);

  void ask(const SharedQuestion& question, Asker& asker, Nanos deadline);
  // Each of its keys alone: for a slot that is between two nodes.
  void ask_apart(const SharedQuestion& question, Asker& asker, Nanos deadline, bool is_part);

 private:
  class Work;

  Work& free_work();

  Host& host_;
  LinkCounts& counts_;
  std::vector<std::unique_ptr<Work>> works_;
  std::vector<Work*> free_;
};

}  // namespace weir::store::redis
