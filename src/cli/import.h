#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "policy/source.h"

namespace weir::cli {

// What is wrong with one file.
struct SourceProblems {
  policy::Source source{};
  policy::Problems problems{};
};

// A policy file that does what another program's configuration does, with comments on what differs.
struct Imported {
  std::string text{};
  std::vector<SourceProblems> problems{};  // why there is none
};

// Of nginx: limit_req_zone, limit_req, limit_conn_zone, limit_conn. Reads included files as well.
Imported import_nginx(const policy::Source& source);
// The same, with routes of weir's gateway for the locations that have proxy_pass.
Imported import_nginx_gateway(const policy::Source& source);

// Of envoyproxy/ratelimit.
Imported import_envoy(const policy::Source& source);

// A name for another policy: this one, or if some policy has it already, with -2, -3, … behind it.
std::string new_name(const std::string& name, std::set<std::string>& taken);

// A text as YAML has it, in double quotes.
std::string in_yaml(std::string_view text);
// As part of a comment, on one line.
std::string in_comment(std::string_view text);

}  // namespace weir::cli
