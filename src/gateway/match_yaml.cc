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

std::vector<std::string> read_hosts(const Node& node, Problems& problems) {
  std::vector<std::string> hosts;
  for (const Node* item : one_or_more(node, "host", problems)) {
    std::string host;
    if (is_host_pattern(item->text, host)) {
      hosts.push_back(std::move(host));
    } else {
      problems.push_back(
          {item->place, fmt::format("\"host\" is a name without port, or one below which all are "
                                    "meant, like *.example.com, not {}",
                                    in_quotes(item->text))});
    }
  }
  return hosts;
}

bool is_double_star_apart(std::string_view pattern) {
  for (std::size_t at = pattern.find("**"); at != std::string_view::npos;
       at = pattern.find("**", at + 2)) {
    const bool alone_before = pattern[at - 1] == '/';
    const bool alone_behind = at + 2 == pattern.size() || pattern[at + 2] == '/';
    if (!alone_before || !alone_behind) return false;
  }
  return true;
}

// What is wrong with a pattern; empty if nothing is, and then it is as paths are compared.
std::string flaw_of(std::string& pattern) {
  if (!pattern.starts_with('/')) return "a path starts with a slash: write /api/**";
  if (pattern.find_first_of("?# ") != std::string::npos) return "a path has no query and no blanks";
  if (!is_double_star_apart(pattern)) {
    return "** stands for whole segments: write /a/** for all below /a, and * within one";
  }
  Path path;
  const std::string slash = pattern.size() > 1 && pattern.ends_with('/') ? "/" : "";
  if (!read_path(pattern, path) || path.plain != path.bold) {
    return "%2F, ; and a backslash are read in different ways: a path to match has none of them";
  }
  const bool same_stars = std::ranges::count(path.plain, '*') == std::ranges::count(pattern, '*');
  if (path.forwarded.find("//") != std::string::npos || pattern.find("//") != std::string::npos ||
      pattern.find("/./") != std::string::npos || pattern.find("/../") != std::string::npos ||
      !same_stars) {
    return "empty segments and those of dots are resolved before: write the path without";
  }
  pattern = path.plain;
  return {};
}

std::vector<std::string> read_paths(const Node& node, Problems& problems) {
  std::vector<std::string> paths;
  for (const Node* item : one_or_more(node, "path", problems)) {
    std::string pattern = item->text;
    const std::string flaw = flaw_of(pattern);
    if (flaw.empty()) {
      paths.push_back(std::move(pattern));
    } else {
      problems.push_back({item->place, flaw});
    }
  }
  return paths;
}

std::vector<std::string> read_methods(const Node& node, Problems& problems) {
  std::vector<std::string> methods;
  for (const Node* item : one_or_more(node, "method", problems)) {
    const bool good = std::ranges::all_of(item->text, wire::is_token_char) &&
                      std::ranges::none_of(item->text, [](char c) { return c >= 'a' && c <= 'z'; });
    if (!good) {
      problems.push_back(
          {item->place,
           fmt::format("a method is a word in capitals like GET, not {}", in_quotes(item->text))});
    }
    methods.push_back(item->text);
  }
  return methods;
}

}  // namespace

Match read_match(const Node& node, Problems& problems) {
  Match match;
  if (!policy::is_map_of(node, "match", kMatch, problems)) return match;
  if (const Node* field = node.find("host")) match.hosts = read_hosts(*field, problems);
  if (const Node* field = node.find("path")) match.paths = read_paths(*field, problems);
  if (const Node* field = node.find("method")) match.methods = read_methods(*field, problems);
  return match;
}

}  // namespace weir::gateway
