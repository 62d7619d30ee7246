#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/nginx_config.h"

// The limits of an nginx configuration: limit_req, limit_conn and their zones.

namespace weir::cli {

// A limit_req_zone or limit_conn_zone.
struct NginxZone {
  NginxPosition position{};
  std::string key{};                     // as written
  std::vector<std::string> variables{};  // in the key, each once, without $
  bool has_literals = false;
  std::int64_t count = 1;  // the rate is `count` requests per `seconds`
  std::int64_t seconds = 1;
  bool is_synced = false;  // shared by the nodes of an nginx Plus
};

// A limit_req or limit_conn.
struct NginxUse {
  std::string zone{};
  std::string words{};       // the words of weir's limit after the rate; or "N concurrent"
  std::int64_t waiting = 0;  // maximum number of delayed requests
  bool dry_run = false;
  friend auto operator<=>(const NginxUse&, const NginxUse&) = default;
};

// All limit_req, or all limit_conn, of a block.
struct NginxLimitSet {
  std::vector<NginxUse> uses{};
  std::string status{"503"};
  bool dry_run = false;
};

// The limits of a block, including inherited ones.
struct NginxBlockLimits {
  std::string where{};  // "server > location /api"; empty for http
  NginxLimitSet requests{};
  NginxLimitSet connections{};

  bool has_limits() const { return !requests.uses.empty() || !connections.uses.empty(); }
  bool waits() const;
};

struct NginxLimits {
  std::map<std::string, NginxZone> request_zones{};
  std::map<std::string, NginxZone> connection_zones{};
  std::vector<NginxBlockLimits>
      changed_blocks{};  // blocks whose limits differ from the outer block
  // All blocks of http. The keys borrow from the configuration.
  std::map<const NginxDirective*, NginxBlockLimits> levels{};
};

// Adds mistakes to the problems of `config`.
NginxLimits read_limits(NginxConfig& config);

// True for the blocks `stream` and `mail`, whose limits do not concern HTTP requests.
bool is_other_traffic(const NginxDirective& directive);

// The variables in a text, each once, without $. Names are in lower case, since nginx ignores case;
// binary_remote_addr becomes remote_addr. Sets `has_literals` if there is any other text.
std::vector<std::string> variables_in(const std::string& text, bool& has_literals);

}  // namespace weir::cli
