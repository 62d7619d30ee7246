#include "gateway/route_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/suggest.h"
#include "gateway/jwt.h"
#include "gateway/match_yaml.h"
#include "gateway/refused_yaml.h"
#include "gateway/service_yaml.h"
#include "gateway/yaml_values.h"
#include "policy/route_policies.h"
#include "policy/values.h"
#include "wire/http1_text.h"

namespace weir::gateway {

namespace {

using policy::in_quotes;

constexpr std::array<std::string_view, 15> kSettings{
    "balance",   "timeouts", "retries",   "health",        "idle_connections",
    "empty_key", "jwt",      "cost",      "queue",         "refused",
    "headers",   "max_body", "forwarded", "upstream_host", "upstream_path"};
constexpr std::array<std::string_view, 7> kRouteOnly{"name", "match", "upstream", "policy",
                                                     "key",  "parts", "bandwidth"};
constexpr std::array<std::string_view, 2> kQueue{"most", "longest"};
constexpr std::array<std::string_view, 3> kBandwidth{"limit", "key", "of"};
constexpr std::array<std::string_view, 3> kOf{"both", "requests", "responses"};
constexpr std::array<std::string_view, 5> kHeaders{"ietf", "legacy", "both", "off", "scg"};
constexpr std::array<std::string_view, 4> kForwarded{"both", "x", "standard", "off"};
constexpr std::array<std::string_view, 2> kHost{"keep", "upstream"};
constexpr std::array<std::string_view, 2> kPath{"normalised", "as_sent"};

constexpr std::size_t kMaxNameSize = 100;
constexpr std::size_t kMaxRoutes = 10'000;

EmptyKey read_empty_key(const YamlNode& node, Problems& problems) {
  const std::string_view text = node.is_scalar() ? std::string_view{node.text} : std::string_view{};
  constexpr std::string_view deny = "deny";
  EmptyKey empty;
  if (text == "allow") {
    empty.deny = std::nullopt;
  } else if (text.starts_with("deny ") && text.size() == 8 &&
             std::ranges::all_of(text.substr(5), is_digit) && text[5] >= '4' && text[5] <= '5') {
    empty.deny = (text[5] - '0') * 100 + (text[6] - '0') * 10 + (text[7] - '0');
  } else if (text != deny) {
    problems.push_back({node.place, fmt::format("\"empty_key\" is deny 403 (any status from 400 to "
                                                "599) or allow, not {}",
                                                node.describe())});
  }
  return empty;
}

void read_queue(const YamlNode& node, QueueConfig& queue, Problems& problems) {
  if (!policy::is_map_of(node, "queue", kQueue, problems)) return;
  if (const YamlNode* field = node.find("most")) {
    read_number(*field, "most", {0, 1'000'000}, queue.most, problems);
  }
  if (const YamlNode* field = node.find("longest")) {
    read_time(*field, "longest", MayBeOff::no, queue.longest, problems);
  }
}

void read_max_body(const YamlNode& node, std::uint64_t& into, Problems& problems) {
  if (node.is_scalar() && node.text == "off") {
    into = UINT64_MAX;
    return;
  }
  Permits bytes = 0;
  const std::size_t before = problems.size();
  read_number(node, "max_body", {}, bytes, problems);
  if (problems.size() == before) into = static_cast<std::uint64_t>(bytes);
}

template <typename Choice, std::size_t N>
void read_choice(const YamlNode& map, std::string_view name,
                 const std::array<std::string_view, N>& words, Choice& into, Problems& problems) {
  if (const YamlNode* node = map.find(name)) {
    into = static_cast<Choice>(policy::read_word(*node, name, words, problems));
  }
}

// ---- Limits

// All key parts that limits of a policy count by.
std::set<std::string> parts_of(const policy::Policy& policy) {
  std::set<std::string> parts;
  const auto add = [&](const std::vector<policy::Limit>& limits) {
    for (const policy::Limit& limit : limits) parts.insert(limit.by.begin(), limit.by.end());
  };
  add(policy.limits);
  for (const policy::Override& own : policy.overrides) add(own.limits);
  for (const policy::Shift& shift : policy.schedule) add(shift.limits);
  return parts;
}

// The names that `limited_by` may have.
std::set<std::string> limit_names_of(const policy::Policy& policy) {
  std::set<std::string> names{"block"};
  const auto add = [&](const std::vector<policy::Limit>& limits) {
    for (std::size_t i = 0; i < limits.size(); ++i) {
      names.insert(limits[i].name.empty() ? std::to_string(i) : limits[i].name);
    }
  };
  add(policy.limits);
  for (const policy::Override& own : policy.overrides) add(own.limits);
  for (const policy::Shift& shift : policy.schedule) add(shift.limits);
  return names;
}

bool uses_jwt(const std::vector<KeyPart>& key) {
  return std::ranges::any_of(key, [](const KeyPart& part) {
    return std::ranges::any_of(part.sources, [](const KeySource& source) {
      return source.kind == KeySource::SourceKind::jwt;
    });
  });
}

// Reads one route.
class RouteYamlReader {
 public:
  RouteYamlReader(const YamlNode& node, RouteConfig& route, const RouteReadContext& reading)
      : node_(node), route_(route), reading_(reading), problems_(reading.problems) {}

  void read() {
    check_known_fields();
    read_name();
    if (const YamlNode* match = node_.find("match")) route_.match = read_match(*match, problems_);
    read_settings(node_, route_, reading_);
    read_upstream();
    read_limits();
    check_refused();
    read_keys();
    read_bandwidth();
    use_jwt();
  }

 private:
  void check_known_fields() {
    std::vector<std::string_view> known(kRouteOnly.begin(), kRouteOnly.end());
    known.insert(known.end(), kSettings.begin(), kSettings.end());
    const auto own = policy::route_policy_fields();
    known.insert(known.end(), own.begin(), own.end());
    policy::check_fields(node_, known, "a route", problems_);
  }

  void read_name() {
    const YamlNode* name = node_.find("name");
    if (name == nullptr) return;
    const std::string text = policy::read_text(*name, "name", problems_);
    constexpr wire::CharSet allowed{"-._"};
    const bool good = text.size() <= kMaxNameSize &&
                      std::ranges::all_of(text, [&](char c) { return allowed.has(c); });
    if (good) return;
    problems_.push_back(
        {name->place, fmt::format("the name of a route has up to {} letters, digits, "
                                  "dots, - and _, not {}",
                                  kMaxNameSize, in_quotes(text))});
  }

  void read_upstream() {
    if (const YamlNode* upstream = node_.find("upstream")) {
      route_.service.servers = read_upstreams(*upstream, problems_);
    } else {
      problems_.push_back(
          {node_.place, "this route has no upstream: write upstream: http://127.0.0.1:9000"});
    }
  }

  void read_limits() {
    const YamlNode* policy = node_.find("policy");
    const bool own = node_.find("limits") != nullptr;
    if (policy != nullptr && own) {
      problems_.push_back({policy->place, "policy or limits: one of them is enough"});
    }
    if (own) {
      route_.own_policy = true;
      route_.policy = policy::route_policy_name(route_.name);
      return;
    }
    for (const std::string_view name : policy::route_policy_fields()) {
      const YamlNode* field = node_.find(name);
      if (field == nullptr) continue;
      problems_.push_back({field->place, fmt::format("\"{}\" belongs to limits: write limits: in "
                                                     "this route, or move it to the policy",
                                                     name)});
    }
    if (policy == nullptr) return;
    const std::string name = policy::read_text(*policy, "policy", problems_);
    if (name.empty()) return;
    if (reading_.file.policies.contains(name)) {
      route_.policy = name;
      return;
    }
    problems_.push_back(
        {policy->place, fmt::format("there is no policy {}{}", in_quotes(name), suggestion(name))});
  }

  // (Defaults of all routes may name limits that only some have.)
  void check_refused() {
    const YamlNode* refused = node_.find("refused");
    const auto policy = reading_.file.policies.find(route_.policy);
    if (refused == nullptr || policy == reading_.file.policies.end()) return;
    const YamlNode* limits = refused->find("limits");
    if (limits == nullptr) return;
    const std::set<std::string> known = limit_names_of(policy->second);
    for (const YamlNode::Field& field : limits->fields) {
      if (known.contains(field.name)) continue;
      problems_.push_back(
          {field.place, fmt::format("the policy {} has no limit {}{}", in_quotes(route_.policy),
                                    in_quotes(field.name),
                                    did_you_mean(field.name, std::vector<std::string_view>(
                                                                 known.begin(), known.end())))});
    }
  }

  std::string suggestion(std::string_view name) const {
    std::vector<std::string_view> names;
    for (const auto& [known, policy] : reading_.file.policies) {
      if (!known.starts_with("gateway/")) names.push_back(known);
    }
    return names.empty() ? std::string{": write it under policies:, or limits: here"}
                         : did_you_mean(name, names);
  }

  void read_keys() {
    const YamlNode* key = node_.find("key");
    const YamlNode* parts = node_.find("parts");
    if (key != nullptr && parts != nullptr) {
      problems_.push_back({parts->place, "key or parts: one of them is enough"});
    } else if (key != nullptr) {
      route_.key = {read_key(*key, problems_)};
    } else if (parts != nullptr) {
      route_.key = read_parts(*parts, problems_);
    }
    const YamlNode* written = key != nullptr ? key : parts;
    const bool limits = !route_.policy.empty();
    if (written == nullptr && limits) {
      problems_.push_back({node_.place, fmt::format("this route has limits but no key: write {}",
                                                    example_of_key())});
    } else if (written != nullptr && !limits && node_.find("policy") == nullptr &&
               node_.find("bandwidth") == nullptr) {
      problems_.push_back({written->place,
                           "a key without limits counts nothing: write policy: NAME or "
                           "limits: [ 100/s ]"});
    } else if (written != nullptr && limits) {
      check_parts(*written);
    }
  }

  std::set<std::string> needed_parts() const {
    const auto policy = reading_.file.policies.find(route_.policy);
    return policy == reading_.file.policies.end() ? std::set<std::string>{}
                                                  : parts_of(policy->second);
  }

  std::string example_of_key() const {
    const std::set<std::string> parts = needed_parts();
    return parts.empty() ? std::string{"key: ip, or parts: { user: header:X-User-Id }"}
                         : example_of_parts(parts);
  }

  static std::string example_of_parts(const std::set<std::string>& parts) {
    std::vector<std::string> texts;
    for (const std::string& part : parts) texts.push_back(fmt::format("{0}: header:X-{0}", part));
    return fmt::format("parts: {{ {} }}", fmt::join(texts, ", "));
  }

  // A limit that counts by a part needs a source for it.
  void check_parts(const YamlNode& written) {
    const std::set<std::string> needed = needed_parts();
    std::vector<std::string> missing;
    for (const std::string& part : needed) {
      if (std::ranges::find(route_.key, part, &KeyPart::name) == route_.key.end()) {
        missing.push_back(part);
      }
    }
    if (missing.empty()) return;
    const bool own = route_.own_policy;
    problems_.push_back(
        {written.place,
         fmt::format("{} by {}: write {}",
                     own ? "its limits count"
                         : fmt::format("the policy {} counts", in_quotes(route_.policy)),
                     fmt::join(missing, " and by "), example_of_parts(needed))});
  }

  void read_bandwidth() {
    const YamlNode* node = node_.find("bandwidth");
    if (node == nullptr) return;
    Bandwidth bandwidth{.policy = policy::bandwidth_policy_name(route_.name)};
    if (node->is_map()) read_bandwidth_map(*node, bandwidth);
    if (bandwidth.key.sources.empty()) bandwidth.key = default_bandwidth_key();
    check_bandwidth(*node, bandwidth);
    route_.bandwidth = std::move(bandwidth);
  }

  void read_bandwidth_map(const YamlNode& node, Bandwidth& bandwidth) {
    policy::check_fields(node, kBandwidth, "\"bandwidth\"", problems_);
    if (node.find("limit") == nullptr) {
      problems_.push_back(
          {node.place, "\"bandwidth\" needs a limit: write { limit: 10MB/s, key: ip }"});
    }
    if (const YamlNode* key = node.find("key")) bandwidth.key = read_key(*key, problems_);
    if (const YamlNode* of = node.find("of")) {
      const std::size_t which = policy::read_word(*of, "of", kOf, problems_);
      bandwidth.requests = which != 2;
      bandwidth.responses = which != 1;
    }
  }

  KeyPart default_bandwidth_key() const {
    const bool whole = route_.key.size() == 1 && route_.key.front().name.empty();
    return whole ? route_.key.front() : KeyPart{.sources = {KeySource{}}};
  }

  // Bytes are taken while they pass: that needs a bucket with room for a useful amount.
  void check_bandwidth(const YamlNode& node, const Bandwidth& bandwidth) {
    const auto policy = reading_.file.policies.find(bandwidth.policy);
    if (policy == reading_.file.policies.end() || policy->second.limits.size() != 1) return;
    const policy::Limit& limit = policy->second.limits.front();
    const auto* bucket = std::get_if<core::Bucket>(&limit.limit);
    if (bucket == nullptr || bucket->queue || !limit.by.empty()) {
      problems_.push_back(
          {node.place, "a bandwidth is a single rate of bytes: write one like 10MB/s"});
    } else if (bucket->capacity < kMinBandwidth) {
      problems_.push_back(
          {node.place, fmt::format("a bandwidth admits at least {} bytes at once: write "
                                   "a higher rate, or burst {}",
                                   kMinBandwidth, kMinBandwidth)});
    }
  }

  // The token is read only if a key has a claim.
  void use_jwt() {
    const bool used =
        uses_jwt(route_.key) || (route_.bandwidth && uses_jwt({route_.bandwidth->key}));
    if (!used) {
      route_.jwt = nullptr;
    } else if (route_.jwt == nullptr) {
      problems_.push_back(
          {node_.place,
           "its key is a claim of a token: write jwt: { key: … } to verify tokens, or "
           "jwt: { verify: off } if a proxy in front has verified them"});
    }
  }

  static constexpr Permits kMinBandwidth = 1024;

  const YamlNode& node_;
  RouteConfig& route_;
  const RouteReadContext& reading_;
  Problems& problems_;
};

bool matches_everything(const MatchRules& match) {
  const bool any_path =
      match.paths.empty() || std::ranges::find(match.paths, "/**") != match.paths.end();
  return match.hosts.empty() && any_path && match.methods.empty();
}

void check_names(const YamlNode& node, const std::vector<RouteConfig>& routes, Problems& problems) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < routes.size(); ++i) {
    if (names.insert(routes[i].name).second) continue;
    const YamlNode* name = node.items[i]->find("name");
    problems.push_back(
        {name != nullptr ? name->place : node.items[i]->place,
         fmt::format("two routes have the name {}: choose another", in_quotes(routes[i].name))});
  }
}

void check_order(const YamlNode& node, const std::vector<RouteConfig>& routes, Problems& warnings) {
  const auto last = std::ranges::find_if(routes, matches_everything, &RouteConfig::match);
  if (last == routes.end()) return;
  for (auto i = static_cast<std::size_t>(last - routes.begin()) + 1; i < routes.size(); ++i) {
    warnings.push_back({node.items[i]->place,
                        "this route is never reached: a route above it matches every request; move "
                        "that one below"});
  }
}

}  // namespace

std::span<const std::string_view> route_settings() { return kSettings; }

void read_settings(const YamlNode& map, RouteConfig& route, const RouteReadContext& reading) {
  Problems& problems = reading.problems;
  read_service(map, route.service, problems);
  if (const YamlNode* node = map.find("empty_key"))
    route.empty_key = read_empty_key(*node, problems);
  if (const YamlNode* node = map.find("jwt")) {
    route.jwt = read_jwt(*node, reading.read_text, problems, reading.warnings);
  }
  if (const YamlNode* node = map.find("cost")) route.cost = read_cost(*node, problems);
  if (const YamlNode* node = map.find("queue")) read_queue(*node, route.queue, problems);
  if (const YamlNode* node = map.find("refused")) {
    route.refused = read_refused(*node, route.service, reading.read_text, problems);
  }
  read_choice(map, "headers", kHeaders, route.headers, problems);
  if (const YamlNode* node = map.find("max_body")) read_max_body(*node, route.max_body, problems);
  read_choice(map, "forwarded", kForwarded, route.forwarded, problems);
  read_choice(map, "upstream_host", kHost, route.host, problems);
  read_choice(map, "upstream_path", kPath, route.path, problems);
}

std::vector<RouteConfig> read_routes(const YamlNode& node, const RouteConfig& defaults,
                                     const RouteReadContext& reading) {
  std::vector<RouteConfig> routes;
  Problems& problems = reading.problems;
  if (!node.is_list() || node.items.empty()) {
    problems.push_back(
        {node.place, fmt::format("\"routes\" is a list of maps with match and upstream, "
                                 "not {}",
                                 node.is_list() ? "empty" : node.describe())});
    return routes;
  }
  if (node.items.size() > kMaxRoutes) {
    problems.push_back({node.place, fmt::format("{} routes are too many (at most {})",
                                                node.items.size(), kMaxRoutes)});
    return routes;
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = *node.items[i];
    RouteConfig& route = routes.emplace_back(defaults);
    route.name = policy::route_name(item, i);
    if (item.is_map()) {
      RouteYamlReader(item, route, reading).read();
    } else {
      problems.push_back(
          {item.place,
           fmt::format("a route is a map with match and upstream, not {}", item.describe())});
    }
  }
  check_names(node, routes, problems);
  check_order(node, routes, reading.warnings);
  return routes;
}

}  // namespace weir::gateway
