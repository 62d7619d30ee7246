#pragma once

#include <set>
#include <string>

#include "policy/source.h"

namespace weir::cli {

// A policy file that does what another program's configuration does, with comments on what differs.
struct Imported {
  std::string text{};
  policy::Problems problems{};  // why there is none
};

// Of nginx: limit_req_zone, limit_req, limit_conn_zone, limit_conn.
Imported import_nginx(const policy::Source& source);

// Of envoyproxy/ratelimit.
Imported import_envoy(const policy::Source& source);

// A name for another policy: this one, or if some policy has it already, with -2, -3, … behind it.
std::string new_name(const std::string& name, std::set<std::string>& taken);

// A text as YAML has it, in double quotes.
std::string in_yaml(std::string_view text);
// As part of a comment, on one line.
std::string in_comment(std::string_view text);

}  // namespace weir::cli
