#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "gateway/config.h"
#include "gateway/path.h"

namespace weir::gateway {

// Finds the route of a request: the first in the order of the file that matches. The time it takes
// depends on the request, hardly on the number of routes.
// Thread-safe: nothing changes after construction. Does not keep the routes, only their positions.
class RouteTable {
 public:
  explicit RouteTable(const std::vector<Route>& routes);
  ~RouteTable();
  RouteTable(RouteTable&&) noexcept;
  RouteTable& operator=(RouteTable&&) noexcept;

  struct Found {
    enum class Status {
      found,
      none,       // answer 404
      ambiguous,  // answer 400: servers may read its path as one of another route
    };
    Status status = Status::none;
    std::size_t route = 0;
  };
  // `host` as read_host makes it.
  Found find(std::string_view host, const Path& path, std::string_view method) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

// Whether a pattern fits a path, both without escapes. A slash at the end of either means nothing.
bool fits_path(std::string_view pattern, std::string_view path);

}  // namespace weir::gateway
