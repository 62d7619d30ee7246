#pragma once

#include <string>
#include <vector>

#include "cli/nginx_limits.h"

namespace weir::cli {

// Something of an nginx configuration that the imported policies do not do.
struct NginxNotTaken {
  NginxPosition position{};
  std::string what{};
  std::string why{};
};

enum class NginxTarget {
  policies,  // nginx stays, and asks for policies
  gateway,   // weir takes the place of nginx
};

// Everything about limits, or attached to them, that policies cannot say: speeds, pages for refused
// requests, log levels, keys that are computed, limits of other traffic, files that are missing.
std::vector<NginxNotTaken> not_taken_of(const NginxConfig& config, const NginxLimits& limits,
                                        NginxTarget target);

}  // namespace weir::cli
