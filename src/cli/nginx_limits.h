#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/nginx_config.h"

// What an nginx configuration says about limits: limit_req, limit_conn and what belongs to them.

namespace weir::cli {

// A limit_req_zone or limit_conn_zone.
struct NginxZone {
  NginxPosition position{};
  std::string key{};                     // as it is written
  std::vector<std::string> variables{};  // of the key, each once, without $
  bool has_literals = false;
  std::int64_t count = 1;    // so many …
  std::int64_t seconds = 1;  // … in this time
  bool is_synced = false;    // between the nodes of an nginx Plus
};

// A limit_req or limit_conn.
struct NginxUse {
  std::string zone{};
  std::string words{};       // of weir's limit, behind the rate; or "N concurrent"
  std::int64_t waiting = 0;  // requests that wait for their turn at most
  bool dry_run = false;
  friend auto operator<=>(const NginxUse&, const NginxUse&) = default;
};

// The limits of one kind, limit_req or limit_conn, in a block.
struct NginxLimitKind {
  std::vector<NginxUse> uses{};
  std::string status{"503"};
  bool dry_run = false;
};

// The limits in a block, including those it inherits.
struct NginxLevel {
  std::string where{};  // "server > location /api"; empty for http
  NginxLimitKind requests{};
  NginxLimitKind connections{};

  bool has_limits() const { return !requests.uses.empty() || !connections.uses.empty(); }
  bool waits() const;
};

struct NginxLimits {
  std::map<std::string, NginxZone> request_zones{};
  std::map<std::string, NginxZone> connection_zones{};
  std::vector<NginxLevel> places{};  // whose limits differ from those outside
  // Every block of http, borrowed from the configuration.
  std::map<const NginxDirective*, NginxLevel> levels{};
};

// Mistakes become problems of `config`.
NginxLimits read_limits(NginxConfig& config);

// Blocks whose limits are about other things than requests over HTTP.
bool is_other_traffic(const NginxDirective& directive);

// The variables of a text, each once, in lower case as nginx compares them and without $;
// binary_remote_addr is called remote_addr. `has_literals` tells whether there is anything else.
std::vector<std::string> variables_in(const std::string& text, bool& has_literals);

}  // namespace weir::cli
