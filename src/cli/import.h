#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "policy/source.h"

namespace weir::cli {

// The problems of one file.
struct SourceProblems {
  policy::Source source{};
  policy::Problems problems{};
};

// The result of an import: a policy file equivalent to another program's configuration, with
// comments on the differences.
struct ImportResult {
  std::string text{};
  std::vector<SourceProblems> problems{};  // not empty: the import failed, and `text` is empty
};

// Imports limit_req_zone, limit_req, limit_conn_zone and limit_conn of nginx, also from included
// files.
ImportResult import_nginx(const policy::Source& source);
// Imports the same, and each location with proxy_pass as a route of weir's gateway.
ImportResult import_nginx_gateway(const policy::Source& source);

// Imports the rules of envoyproxy/ratelimit.
ImportResult import_envoy(const policy::Source& source);

// A unique name: `name`, or if it is in `taken`, `name` followed by -2, -3, … Adds it to `taken`.
std::string new_name(const std::string& name, std::set<std::string>& taken);

// The text as a YAML scalar in double quotes.
std::string in_yaml(std::string_view text);
// The text without line breaks, for a comment; "?" if it is not UTF-8.
std::string in_comment(std::string_view text);

}  // namespace weir::cli
