#include "gateway/route_table.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <unordered_map>

#include "gateway/path_readings.h"

namespace weir::gateway {

namespace {

std::string_view without_trailing_slash(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

// The first segment of a path that starts with a slash.
std::string_view first_segment(std::string_view path) {
  path.remove_prefix(1);
  return path.substr(0, path.find('/'));
}

std::string_view after_first_segment(std::string_view path) {
  return path.substr(first_segment(path).size() + 1);
}

// Glob match within a segment: a star matches any characters, also none. Backtracks to the last
// star only, which is sufficient and bounds the time by the product of the lengths.
bool fits_segment(std::string_view pattern, std::string_view text) {
  if (pattern == "*") return !text.empty();
  constexpr std::size_t none = std::string_view::npos;
  std::size_t p = 0, t = 0, star = none, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != none) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == none;
}

// The same for segments, with ** for the star. Both are empty, or start with a slash and do not end
// with one.
bool fits_segments(std::string_view pattern, std::string_view path) {
  bool has_star = false;
  std::string_view after_star, from;
  while (!path.empty()) {
    const bool more = !pattern.empty();
    if (more && first_segment(pattern) == "**") {
      has_star = true;
      pattern = after_first_segment(pattern);
      after_star = pattern;
      from = path;
    } else if (more && fits_segment(first_segment(pattern), first_segment(path))) {
      pattern = after_first_segment(pattern);
      path = after_first_segment(path);
    } else if (has_star) {
      from = after_first_segment(from);
      pattern = after_star;
      path = from;
    } else {
      return false;
    }
  }
  while (!pattern.empty() && first_segment(pattern) == "**") pattern = after_first_segment(pattern);
  return pattern.empty();
}

// ---- The table

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
template <typename Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

// The pattern of a route after its leading segments without stars.
struct PatternTail {
  std::size_t route;
  std::string pattern;
  std::vector<std::string> methods;

  bool fits(std::string_view path, std::string_view method) const {
    const bool path_fits =
        pattern == "/**" || (pattern.empty() ? path.empty() : fits_segments(pattern, path));
    return path_fits && fits_method(method);
  }
  bool fits_method(std::string_view method) const {
    return methods.empty() || std::ranges::find(methods, method) != methods.end() ||
           (method == "HEAD" && std::ranges::find(methods, "GET") != methods.end());
  }
};

// A trie of routes by their leading segments without stars.
struct SegmentTrie {
  StringMap<std::unique_ptr<SegmentTrie>> below;
  std::vector<PatternTail> here;  // ordered by route

  void add(std::size_t route, std::string_view pattern, const std::vector<std::string>& methods) {
    SegmentTrie* trie = this;
    while (!pattern.empty()) {
      const std::string_view segment = first_segment(pattern);
      if (segment.find('*') != std::string_view::npos) break;
      auto& next = trie->below[std::string{segment}];
      if (next == nullptr) next = std::make_unique<SegmentTrie>();
      trie = next.get();
      pattern = after_first_segment(pattern);
    }
    trie->here.push_back({route, std::string{pattern}, methods});
  }

  // The first route that matches, if it is before `best`.
  std::size_t first(std::string_view path, std::string_view method, std::size_t best) const {
    for (const SegmentTrie* trie = this;;) {
      for (const PatternTail& tail : trie->here) {
        if (tail.route >= best) break;
        if (tail.fits(path, method)) best = tail.route;
      }
      if (path.empty()) return best;
      const auto next = trie->below.find(first_segment(path));
      if (next == trie->below.end()) return best;
      trie = next->second.get();
      path = after_first_segment(path);
    }
  }
};

}  // namespace

bool fits_path(std::string_view pattern, std::string_view path) {
  return fits_segments(without_trailing_slash(pattern), without_trailing_slash(path));
}

struct RouteTable::Impl {
  SegmentTrie any_host;
  StringMap<SegmentTrie> by_host;
  StringMap<SegmentTrie> below_host;  // wildcard hosts: *.example.com is stored under example.com
  std::vector<bool> forwards_raw;     // by route

  SegmentTrie& trie_of(std::string_view host) {
    if (host.empty()) return any_host;
    if (host.starts_with("*.")) return below_host[std::string{host.substr(2)}];
    return by_host[std::string{host}];
  }

  std::size_t first(std::string_view host, std::string_view path, std::string_view method) const {
    path = path == "*" ? std::string_view{} : without_trailing_slash(path);
    std::size_t best = any_host.first(path, method, kNone);
    const auto exact = by_host.find(host);
    if (exact != by_host.end()) best = exact->second.first(path, method, best);
    if (below_host.empty()) return best;
    for (std::size_t dot = host.find('.'); dot != std::string_view::npos;
         dot = host.find('.', dot + 1)) {
      const auto below = below_host.find(host.substr(dot + 1));
      if (dot > 0 && below != below_host.end()) best = below->second.first(path, method, best);
    }
    return best;
  }
};

RouteTable::RouteTable(const std::vector<RouteConfig>& routes) {
  auto impl = std::make_unique<Impl>();
  const std::vector<std::string> any_host{""}, any_path{"/**"};
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const MatchRules& match = routes[i].match;
    impl->forwards_raw.push_back(routes[i].path == UpstreamPath::as_sent);
    for (const std::string& host : match.hosts.empty() ? any_host : match.hosts) {
      for (const std::string& path : match.paths.empty() ? any_path : match.paths) {
        impl->trie_of(host).add(i, without_trailing_slash(path), match.methods);
      }
    }
  }
  impl_ = std::move(impl);
}

RouteTable::~RouteTable() = default;
RouteTable::RouteTable(RouteTable&&) noexcept = default;
RouteTable& RouteTable::operator=(RouteTable&&) noexcept = default;

RouteTable::RouteLookup RouteTable::find(std::string_view host, const Path& path,
                                         std::string_view method) const {
  using MatchStatus = RouteLookup::MatchStatus;
  const std::size_t route = impl_->first(host, path.plain, method);
  const bool as_sent = route != kNone && impl_->forwards_raw[route];
  const auto others = other_readings(as_sent ? path.as_sent : path.forwarded);
  const auto has_same_route = [&](const std::string& reading) {
    return impl_->first(host, reading, method) == route;
  };
  if (!others || !std::ranges::all_of(*others, has_same_route)) return {MatchStatus::ambiguous, 0};
  return route == kNone ? RouteLookup{} : RouteLookup{MatchStatus::found, route};
}

}  // namespace weir::gateway
