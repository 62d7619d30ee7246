#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "gateway/config.h"
#include "gateway/path.h"

namespace weir::gateway {

// Finds the route of a request: the first one, in the order of the file, that matches. The time
// depends on the length of the request and hardly on the number of routes. Stores indexes of the
// routes, not the routes. Thread-safe: immutable.
class RouteTable {
 public:
  explicit RouteTable(const std::vector<RouteConfig>& routes);
  ~RouteTable();
  RouteTable(RouteTable&&) noexcept;
  RouteTable& operator=(RouteTable&&) noexcept;

  struct RouteLookup {
    enum class MatchStatus {
      found,
      none,       // answer 404
      ambiguous,  // answer 400: servers may decode the path to one of another route
    };
    MatchStatus status = MatchStatus::none;
    std::size_t route = 0;
  };
  // `host`: normalised by read_host.
  RouteLookup find(std::string_view host, const Path& path, std::string_view method) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

// True if the pattern matches the path; neither has escapes. Trailing slashes are ignored.
bool fits_path(std::string_view pattern, std::string_view path);

}  // namespace weir::gateway
