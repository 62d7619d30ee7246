#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/nginx_limits.h"
#include "cli/nginx_not_taken.h"

namespace weir::cli {

// A location with proxy_pass, as a route of weir's gateway.
struct NginxRoute {
  NginxPosition position{};
  std::string where{};               // "server > location /api"
  std::string server_name{};         // the first of its server
  std::vector<std::string> hosts{};  // empty: any
  std::string path{};                // as the gateway matches it
  std::vector<std::string> servers{};
  bool least_connections = false;
  bool keeps_host = false;            // services see the Host of the request
  const NginxLevel* level = nullptr;  // borrowed from NginxLimits
};

struct NginxGateway {
  std::string listen{};
  std::vector<std::string> trusted_proxies{};
  std::vector<NginxRoute> routes{};  // in the order in which they have to be tried
  std::vector<NginxNotTaken> not_taken{};
};

// The routes that do what the servers of a configuration do. Limits by keys that the gateway does
// not know are removed from `limits`.
NginxGateway read_gateway(const NginxConfig& config, NginxLimits& limits);

// What a variable is called as the source of a key at the gateway, if it can be one.
std::optional<std::string> key_source(std::string_view variable, const std::string& server_name);

// Whether requests may lack it.
bool may_be_empty(std::string_view variable);

}  // namespace weir::cli
