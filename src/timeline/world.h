#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "timeline/timeline.h"

namespace weir::timeline {

// The result of one arrival.
struct ArrivalResult {
  Decision decision{};
  std::size_t tightest = 0;  // the position of a limit
  std::string_view name{};   // of that limit, empty if unnamed; valid until the next step
  std::string error{};       // not empty: no decision was made, for this reason
};

// Applies the steps of a case to one kind of store.
class World {
 public:
  virtual ~World() = default;
  virtual ArrivalResult apply(const Step& step, Instant now) = 0;
};

std::unique_ptr<World> make_core_world(const Case& test);
std::unique_ptr<World> make_engine_world(const Case& test);
std::unique_ptr<World> make_shared_world(const Case& test, SharedStoreAccess way);

}  // namespace weir::timeline
