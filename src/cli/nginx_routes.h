#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/nginx_limits.h"
#include "cli/nginx_skipped.h"

namespace weir::cli {

// A location with proxy_pass, converted to a route of weir's gateway.
struct NginxRoute {
  NginxPosition position{};
  std::string where{};               // "server > location /api"
  std::string server_name{};         // the first name of its server
  std::vector<std::string> hosts{};  // empty: any
  std::string path{};                // a pattern of the gateway
  std::vector<std::string> servers{};
  bool least_connections = false;
  bool keeps_host = false;                  // the request's Host is passed on
  const NginxBlockLimits* level = nullptr;  // borrowed from NginxLimits
};

struct NginxGateway {
  std::string listen{};
  std::vector<std::string> trusted_proxies{};
  std::vector<NginxRoute> routes{};  // in matching order: the gateway takes the first match
  std::vector<NginxSkipped> skipped{};
};

// Converts the servers of a configuration to routes. Removes limits from `limits` whose keys the
// gateway does not support. The result borrows from `limits`.
NginxGateway read_gateway(const NginxConfig& config, NginxLimits& limits);

// The gateway's key source for an nginx variable, if it has one.
std::optional<std::string> key_source(std::string_view variable, const std::string& server_name);

// True if a request may lack the variable.
bool may_be_empty(std::string_view variable);

}  // namespace weir::cli
