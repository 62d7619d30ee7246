#include "gateway/match.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <unordered_map>

#include "gateway/path_readings.h"

namespace weir::gateway {

namespace {

std::string_view without_slash_behind(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

// The segment at the front of a path that starts with a slash.
std::string_view first_segment(std::string_view path) {
  path.remove_prefix(1);
  return path.substr(0, path.find('/'));
}

std::string_view behind_first_segment(std::string_view path) {
  return path.substr(first_segment(path).size() + 1);
}

// A star stands for any characters, none included. Goes back to the last star only, which is enough
// and keeps the time to the product of both lengths.
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

// Both are empty or start with a slash and do not end with one. As above, with ** for the star.
bool fits_segments(std::string_view pattern, std::string_view path) {
  bool has_star = false;
  std::string_view behind_star, from;
  while (!path.empty()) {
    const bool more = !pattern.empty();
    if (more && first_segment(pattern) == "**") {
      has_star = true;
      pattern = behind_first_segment(pattern);
      behind_star = pattern;
      from = path;
    } else if (more && fits_segment(first_segment(pattern), first_segment(path))) {
      pattern = behind_first_segment(pattern);
      path = behind_first_segment(path);
    } else if (has_star) {
      from = behind_first_segment(from);
      pattern = behind_star;
      path = from;
    } else {
      return false;
    }
  }
  while (!pattern.empty() && first_segment(pattern) == "**")
    pattern = behind_first_segment(pattern);
  return pattern.empty();
}

// ---- The table

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

struct Hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
template <typename Value>
using ByText = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;

// What is left of a route when the segments without stars at its front have been found.
struct Rest {
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

// Routes by the segments at their front.
struct Tree {
  ByText<std::unique_ptr<Tree>> below;
  std::vector<Rest> here;  // by their order

  void add(std::size_t route, std::string_view pattern, const std::vector<std::string>& methods) {
    Tree* tree = this;
    while (!pattern.empty()) {
      const std::string_view segment = first_segment(pattern);
      if (segment.find('*') != std::string_view::npos) break;
      auto& next = tree->below[std::string{segment}];
      if (next == nullptr) next = std::make_unique<Tree>();
      tree = next.get();
      pattern = behind_first_segment(pattern);
    }
    tree->here.push_back({route, std::string{pattern}, methods});
  }

  // The first route that fits, if it is before `best`.
  std::size_t first(std::string_view path, std::string_view method, std::size_t best) const {
    for (const Tree* tree = this;;) {
      for (const Rest& rest : tree->here) {
        if (rest.route >= best) break;
        if (rest.fits(path, method)) best = rest.route;
      }
      if (path.empty()) return best;
      const auto next = tree->below.find(first_segment(path));
      if (next == tree->below.end()) return best;
      tree = next->second.get();
      path = behind_first_segment(path);
    }
  }
};

}  // namespace

bool fits_path(std::string_view pattern, std::string_view path) {
  return fits_segments(without_slash_behind(pattern), without_slash_behind(path));
}

struct RouteTable::Impl {
  Tree any_host;
  ByText<Tree> by_host;
  ByText<Tree> below_host;          // *.example.com, under example.com
  std::vector<bool> sends_as_sent;  // by route

  Tree& tree_of(std::string_view host) {
    if (host.empty()) return any_host;
    if (host.starts_with("*.")) return below_host[std::string{host.substr(2)}];
    return by_host[std::string{host}];
  }

  std::size_t first(std::string_view host, std::string_view path, std::string_view method) const {
    path = path == "*" ? std::string_view{} : without_slash_behind(path);
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

RouteTable::RouteTable(const std::vector<Route>& routes) {
  auto impl = std::make_unique<Impl>();
  const std::vector<std::string> any_host{""}, any_path{"/**"};
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const Match& match = routes[i].match;
    impl->sends_as_sent.push_back(routes[i].path == UpstreamPath::as_sent);
    for (const std::string& host : match.hosts.empty() ? any_host : match.hosts) {
      for (const std::string& path : match.paths.empty() ? any_path : match.paths) {
        impl->tree_of(host).add(i, without_slash_behind(path), match.methods);
      }
    }
  }
  impl_ = std::move(impl);
}

RouteTable::~RouteTable() = default;
RouteTable::RouteTable(RouteTable&&) noexcept = default;
RouteTable& RouteTable::operator=(RouteTable&&) noexcept = default;

RouteTable::Found RouteTable::find(std::string_view host, const Path& path,
                                   std::string_view method) const {
  using Status = Found::Status;
  const std::size_t route = impl_->first(host, path.plain, method);
  const bool as_sent = route != kNone && impl_->sends_as_sent[route];
  const auto others = other_readings(as_sent ? path.as_sent : path.forwarded);
  const auto leads_there = [&](const std::string& reading) {
    return impl_->first(host, reading, method) == route;
  };
  if (!others || !std::ranges::all_of(*others, leads_there)) return {Status::ambiguous, 0};
  return route == kNone ? Found{} : Found{Status::found, route};
}

}  // namespace weir::gateway
