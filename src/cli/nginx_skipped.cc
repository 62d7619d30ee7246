#include "cli/nginx_skipped.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "base/ascii.h"

namespace weir::cli {

namespace {

constexpr std::string_view kSpeed =
    "limits the bandwidth of each response; `bandwidth` of a route of weir's gateway limits all "
    "responses of a key together";
constexpr std::string_view kLogLevel =
    "weir does not log refusals: weir_limit_refusals_total in /metrics counts them";
constexpr std::string_view kPageOfPolicies =
    "is the error page of refused requests: with auth_request, write the status 403 here";
constexpr std::string_view kPageOfGateway =
    "is the error page of refused requests: write `refused: { file: … }` or `redirect` in a route";
constexpr std::string_view kOtherTraffic =
    "limits connections outside of http, which weir does not support";

// The directives that begin with limit_ and need no report. (limit_except is about HTTP methods.)
constexpr std::array<std::string_view, 9> kImported{
    "limit_req_zone",    "limit_req",          "limit_conn_zone",
    "limit_conn",        "limit_req_status",   "limit_conn_status",
    "limit_req_dry_run", "limit_conn_dry_run", "limit_except"};

class Finder {
 public:
  Finder(const NginxConfig& config, const NginxLimits& limits, NginxTarget target)
      : config_(config), limits_(limits), target_(target) {
    for (const NginxBlockLimits& block : limits.changed_blocks) {
      if (!block.requests.uses.empty()) refusals_.insert(block.requests.status);
      if (!block.connections.uses.empty()) refusals_.insert(block.connections.status);
    }
    for (const auto* zones : {&limits.request_zones, &limits.connection_zones}) {
      for (const auto& [name, zone] : *zones) {
        keys_.insert(zone.variables.begin(), zone.variables.end());
      }
    }
  }

  std::vector<NginxSkipped> find() && {
    for (const NginxMissing& missing : config_.missing) {
      found_.push_back(
          {missing.position, "include", missing.message + "; limits in it are not imported"});
    }
    check_zones("limit_req_zone", limits_.request_zones, &NginxBlockLimits::requests);
    check_zones("limit_conn_zone", limits_.connection_zones, &NginxBlockLimits::connections);
    visit(config_.directives);
    return std::move(found_);
  }

 private:
  void add(const NginxDirective& directive, std::string_view why) {
    found_.push_back({directive.position(), directive.text(), std::string{why}});
  }

  void check_zones(std::string_view what, const std::map<std::string, NginxZone>& zones,
                   NginxLimitSet NginxBlockLimits::*kind) {
    std::set<std::string> used;
    for (const NginxBlockLimits& block : limits_.changed_blocks) {
      for (const NginxUse& use : (block.*kind).uses) used.insert(use.zone);
    }
    for (const auto& [name, zone] : zones) {
      const std::string text = fmt::format("{} {}", what, name);
      if (!used.contains(name)) {
        found_.push_back({zone.position, text, "no block uses this zone"});
      } else if (zone.is_synced) {
        found_.push_back({zone.position, text + " sync",
                          "weir daemons share limits through `store: redis://…` instead"});
      }
    }
  }

  void visit(const std::vector<NginxDirective>& directives) {
    for (const NginxDirective& directive : directives) {
      if (is_other_traffic(directive)) {
        visit_other_traffic(directive.block);
        continue;
      }
      check(directive);
      visit(directive.block);
    }
  }

  void visit_other_traffic(const std::vector<NginxDirective>& directives) {
    for (const NginxDirective& directive : directives) {
      if (directive.name().starts_with("limit_")) add(directive, kOtherTraffic);
      visit_other_traffic(directive.block);
    }
  }

  void check(const NginxDirective& directive) {
    const std::string& name = directive.name();
    const bool sets_speed = name == "set" && lowered(directive.argument(1)) == "$limit_rate";
    if (sets_speed || name == "limit_rate" || name == "limit_rate_after" ||
        name.ends_with("_limit_rate")) {
      add(directive, kSpeed);
    } else if (name == "limit_req_log_level" || name == "limit_conn_log_level") {
      add(directive, kLogLevel);
    } else if (name == "error_page") {
      check_error_page(directive);
    } else if (name == "server" && !directive.has_block) {
      check_server_of_upstream(directive);
    } else if (const std::string variable = computed_variable(directive);
               keys_.contains(variable)) {
      check_key(directive, variable);
    } else if (name.starts_with("limit_") &&
               std::ranges::find(kImported, name) == std::ranges::end(kImported)) {
      add(directive, "weir import does not know this directive");
    }
  }

  void check_error_page(const NginxDirective& directive) {
    const bool is_refusal = std::ranges::any_of(
        directive.words, [&](const NginxWord& word) { return refusals_.contains(word.text); });
    if (!is_refusal) return;
    add(directive, target_ == NginxTarget::gateway ? kPageOfGateway : kPageOfPolicies);
  }

  void check_server_of_upstream(const NginxDirective& directive) {
    const bool bounded = std::ranges::any_of(
        directive.words, [](const NginxWord& word) { return word.text.starts_with("max_conns="); });
    if (bounded) add(directive, "weir does not limit the connections to a server");
  }

  // The variable that a directive sets, without $; empty if it sets none.
  static std::string computed_variable(const NginxDirective& directive) {
    const std::string& name = directive.name();
    const bool is_set = name == "set";
    const bool is_table = name == "map" || name == "geo" || name == "split_clients";
    if (!is_set && !is_table) return {};
    // set $variable VALUE; map SOURCE $variable { … }; geo [SOURCE] $variable { … }
    const std::string& written = directive.argument(is_set ? 1 : directive.words.size() - 1);
    return written.starts_with('$') ? lowered(written.substr(1)) : std::string{};
  }

  // For the gateway, nginx_routes.cc reports the whole zone.
  void check_key(const NginxDirective& directive, const std::string& variable) {
    if (target_ == NginxTarget::gateway) return;
    add(directive,
        fmt::format("computes the part {}, which nginx must still do. nginx does not limit "
                    "requests with an empty value; weir answers 400 to them, which clients see as "
                    "500: do not call weir for those",
                    variable));
  }

  const NginxConfig& config_;
  const NginxLimits& limits_;
  const NginxTarget target_;
  std::set<std::string> refusals_;  // statuses of refused requests
  std::set<std::string> keys_;      // variables in the keys of all zones
  std::vector<NginxSkipped> found_;
};

}  // namespace

std::vector<NginxSkipped> skipped_in(const NginxConfig& config, const NginxLimits& limits,
                                     NginxTarget target) {
  return Finder(config, limits, target).find();
}

}  // namespace weir::cli
