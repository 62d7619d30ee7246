#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "timeline/timeline.h"

namespace weir::timeline {

// What came of one arrival.
struct Answer {
  Decision decision{};
  std::size_t tightest = 0;  // the position of a limit
  std::string_view name{};   // its name, if it has one; until the next step
  std::string error{};       // why there is no decision, if there is none
};

// Where the steps of a case happen.
class World {
 public:
  virtual ~World() = default;
  virtual Answer apply(const Step& step, Instant now) = 0;
};

std::unique_ptr<World> make_core_world(const Case& test);
std::unique_ptr<World> make_engine_world(const Case& test);
std::unique_ptr<World> make_shared_world(const Case& test, SharedWay way);

}  // namespace weir::timeline
