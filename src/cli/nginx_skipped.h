#pragma once

#include <string>
#include <vector>

#include "cli/nginx_limits.h"

namespace weir::cli {

// A part of an nginx configuration that the import does not convert, and the reason.
struct NginxSkipped {
  NginxPosition position{};
  std::string what{};
  std::string why{};
};

enum class NginxTarget {
  policies,  // nginx stays, and calls weir
  gateway,   // weir replaces nginx
};

// Finds everything that concerns limits and that policies cannot express: bandwidth, error pages of
// refusals, log levels, computed keys, limits outside of http, missing files.
std::vector<NginxSkipped> skipped_in(const NginxConfig& config, const NginxLimits& limits,
                                     NginxTarget target);

}  // namespace weir::cli
