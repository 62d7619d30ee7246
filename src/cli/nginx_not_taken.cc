#include "cli/nginx_not_taken.h"

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
    "limits the speed of each response; `bandwidth` of a route of weir's gateway limits that of "
    "all "
    "responses of a key together";
constexpr std::string_view kLogLevel =
    "weir does not log refusals: weir_limit_refusals_total in /metrics counts them";
constexpr std::string_view kPageOfPolicies =
    "is the page for refused requests: with auth_request the status to write here is 403";
constexpr std::string_view kPageOfGateway =
    "is the page for refused requests: write it as `refused: { file: … }` or `redirect` of a route";
constexpr std::string_view kOtherTraffic =
    "is about connections outside of http, which weir does not limit";

// (limit_except is about methods.)
constexpr std::array<std::string_view, 9> kTaken{
    "limit_req_zone",    "limit_req",          "limit_conn_zone",
    "limit_conn",        "limit_req_status",   "limit_conn_status",
    "limit_req_dry_run", "limit_conn_dry_run", "limit_except"};

class Finder {
 public:
  Finder(const NginxConfig& config, const NginxLimits& limits, NginxTarget target)
      : config_(config), limits_(limits), target_(target) {
    for (const NginxLevel& place : limits.places) {
      if (!place.requests.uses.empty()) refusals_.insert(place.requests.status);
      if (!place.connections.uses.empty()) refusals_.insert(place.connections.status);
    }
    for (const auto* zones : {&limits.request_zones, &limits.connection_zones}) {
      for (const auto& [name, zone] : *zones) {
        keys_.insert(zone.variables.begin(), zone.variables.end());
      }
    }
  }

  std::vector<NginxNotTaken> find() && {
    for (const NginxMissing& missing : config_.missing) {
      found_.push_back({missing.position, "include", missing.message + "; its limits are missing"});
    }
    check_zones("limit_req_zone", limits_.request_zones, &NginxLevel::requests);
    check_zones("limit_conn_zone", limits_.connection_zones, &NginxLevel::connections);
    visit(config_.directives);
    return std::move(found_);
  }

 private:
  void add(const NginxDirective& directive, std::string_view why) {
    found_.push_back({directive.position(), directive.text(), std::string{why}});
  }

  void check_zones(std::string_view what, const std::map<std::string, NginxZone>& zones,
                   NginxLimitKind NginxLevel::*kind) {
    std::set<std::string> used;
    for (const NginxLevel& place : limits_.places) {
      for (const NginxUse& use : (place.*kind).uses) used.insert(use.zone);
    }
    for (const auto& [name, zone] : zones) {
      const std::string text = fmt::format("{} {}", what, name);
      if (!used.contains(name)) {
        found_.push_back({zone.position, text, "no block uses this zone"});
      } else if (zone.is_synced) {
        found_.push_back({zone.position, text + " sync",
                          "daemons share their limits with `store: redis://…` instead"});
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
               std::ranges::find(kTaken, name) == std::ranges::end(kTaken)) {
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
    if (bounded) add(directive, "weir does not limit connections to a server");
  }

  // The variable that a directive gives a value to, without $; or nothing.
  static std::string computed_variable(const NginxDirective& directive) {
    const std::string& name = directive.name();
    const bool is_set = name == "set";
    const bool is_table = name == "map" || name == "geo" || name == "split_clients";
    if (!is_set && !is_table) return {};
    // set $variable VALUE; map SOURCE $variable { … }; geo [SOURCE] $variable { … }
    const std::string& written = directive.argument(is_set ? 1 : directive.words.size() - 1);
    return written.starts_with('$') ? lowered(written.substr(1)) : std::string{};
  }

  // At the gateway, nginx_routes reports the zone, whose limits are left out.
  void check_key(const NginxDirective& directive, const std::string& variable) {
    if (target_ == NginxTarget::gateway) return;
    add(directive,
        fmt::format("computes the part {}, and nginx has to go on doing so. nginx does not limit "
                    "requests for which it is empty; weir answers them 400, which clients see as "
                    "500: do not ask for those",
                    variable));
  }

  const NginxConfig& config_;
  const NginxLimits& limits_;
  const NginxTarget target_;
  std::set<std::string> refusals_;  // statuses
  std::set<std::string> keys_;      // variables of all zones
  std::vector<NginxNotTaken> found_;
};

}  // namespace

std::vector<NginxNotTaken> not_taken_of(const NginxConfig& config, const NginxLimits& limits,
                                        NginxTarget target) {
  return Finder(config, limits, target).find();
}

}  // namespace weir::cli
