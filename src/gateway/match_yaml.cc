#include "gateway/match_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gateway/path.h"
#include "gateway/yaml_values.h"
#include "policy/values.h"
#include "wire/http1_text.h"

namespace weir::gateway {

namespace {

using policy::in_quotes;

constexpr std::array<std::string_view, 3> kMatch{"host", "path", "method"};

bool is_host_pattern(std::string_view text, std::string& into) {
  const bool below = text.starts_with("*.");
  if (!read_host(below ? text.substr(2) : text, into) || into.empty()) return false;
  if (below) into.insert(0, "*.");
  return text.find(':') == std::string_view::npos || text.starts_with('[');
}

std::vector<std::string> read_hosts(const YamlNode& node, Problems& problems) {
  std::vector<std::string> hosts;
  for (const YamlNode* item : one_or_more(node, "host", problems)) {
    std::string host;
    if (is_host_pattern(item->text, host)) {
      hosts.push_back(std::move(host));
    } else {
      problems.push_back({item->place, fmt::format("\"host\" is a name without port, or a wildcard "
                                                   "like *.example.com, not {}",
                                                   in_quotes(item->text))});
    }
  }
  return hosts;
}

bool double_stars_are_segments(std::string_view pattern) {
  for (std::size_t at = pattern.find("**"); at != std::string_view::npos;
       at = pattern.find("**", at + 2)) {
    const bool alone_before = pattern[at - 1] == '/';
    const bool alone_behind = at + 2 == pattern.size() || pattern[at + 2] == '/';
    if (!alone_before || !alone_behind) return false;
  }
  return true;
}

// The problem with a pattern; empty if it is valid, and then it is normalised in place.
std::string pattern_error(std::string& pattern) {
  if (!pattern.starts_with('/')) return "a path starts with a slash: write /api/**";
  if (pattern.find_first_of("?# ") != std::string::npos)
    return "a path to match has no query and no spaces";
  if (!double_stars_are_segments(pattern)) {
    return "** matches whole segments: write /a/** for all paths below /a, or * within a segment";
  }
  Path path;
  const std::string slash = pattern.size() > 1 && pattern.ends_with('/') ? "/" : "";
  if (!read_path(pattern, path) || path.plain != path.lenient) {
    return "servers read %2F, ; and a backslash in different ways: write a path without them";
  }
  const bool same_stars = std::ranges::count(path.plain, '*') == std::ranges::count(pattern, '*');
  if (path.forwarded.find("//") != std::string::npos || pattern.find("//") != std::string::npos ||
      pattern.find("/./") != std::string::npos || pattern.find("/../") != std::string::npos ||
      !same_stars) {
    return "empty segments and dot segments are resolved before matching: write the path without "
           "them";
  }
  pattern = path.plain;
  return {};
}

std::vector<std::string> read_paths(const YamlNode& node, Problems& problems) {
  std::vector<std::string> paths;
  for (const YamlNode* item : one_or_more(node, "path", problems)) {
    std::string pattern = item->text;
    const std::string error = pattern_error(pattern);
    if (error.empty()) {
      paths.push_back(std::move(pattern));
    } else {
      problems.push_back({item->place, error});
    }
  }
  return paths;
}

std::vector<std::string> read_methods(const YamlNode& node, Problems& problems) {
  std::vector<std::string> methods;
  for (const YamlNode* item : one_or_more(node, "method", problems)) {
    const bool good = std::ranges::all_of(item->text, wire::is_token_char) &&
                      std::ranges::none_of(item->text, [](char c) { return c >= 'a' && c <= 'z'; });
    if (!good) {
      problems.push_back(
          {item->place, fmt::format("a method is a word in upper case like GET, not {}",
                                    in_quotes(item->text))});
    }
    methods.push_back(item->text);
  }
  return methods;
}

}  // namespace

MatchRules read_match(const YamlNode& node, Problems& problems) {
  MatchRules match;
  if (!policy::is_map_of(node, "match", kMatch, problems)) return match;
  if (const YamlNode* field = node.find("host")) match.hosts = read_hosts(*field, problems);
  if (const YamlNode* field = node.find("path")) match.paths = read_paths(*field, problems);
  if (const YamlNode* field = node.find("method")) match.methods = read_methods(*field, problems);
  return match;
}

}  // namespace weir::gateway
