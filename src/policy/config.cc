#include "policy/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <tuple>
#include <utility>

#include "base/ascii.h"
#include "policy/endpoint.h"
#include "policy/limit_text.h"
#include "policy/policy_yaml.h"
#include "policy/route_policies.h"
#include "policy/units.h"
#include "policy/values.h"
#include "policy/yaml.h"

namespace weir::policy {

namespace {

constexpr std::array<std::string_view, 3> kDoors{"resp", "http", "grpc"};
constexpr std::array<std::string_view, 3> kTls{"cert", "key", "ca"};
constexpr std::array<std::string_view, 4> kHeaders{"ietf", "legacy", "both", "off"};
constexpr std::array<std::string_view, 3> kHeaderNames{"limit", "remaining", "reset"};
constexpr std::array<std::string_view, 5> kHeadersMap{"style", "limit", "remaining", "reset",
                                                      "reset_as"};
constexpr std::array<std::string_view, 2> kResetAs{"seconds", "epoch"};
constexpr std::array<std::string_view, 1> kCompat{"envoyproxy"};
constexpr std::array<std::string_view, 7> kEnvoy{
    "path",        "on_store_failure", "merge_domains", "response_headers", "dynamic_metadata",
    "shadow_mode", "quota_mode"};
constexpr std::array<std::string_view, 4> kEnvoyFailures{"open", "closed", "local", "error"};

constexpr std::array<std::optional<Endpoint> ListenAddresses::*, 3> kDoorFields{
    &ListenAddresses::resp, &ListenAddresses::http, &ListenAddresses::grpc};

// A field for a size in bytes.
struct SizeField {
  std::string_view name;
  Permits least;
  std::string_view least_text;
  std::string_view why;
};

// Less than the minimum holds only a few keys, and is a mistake (a missing unit).
constexpr SizeField kMemory{"memory", Permits{1} << 20, "1MiB", "64MiB hold 1.4 million keys"};
// Less than the minimum does not hold a few of the largest requests.
constexpr SizeField kConnectionMemory{"connection_memory", Permits{8} << 20, "8MiB",
                                      "one HTTP request may take 2MiB"};

// Reads a policy file, one function per field.
class ConfigReader {
 public:
  ConfigReader(LoadedConfig& file, Problems& problems)
      : config_(file.config),
        problems_(problems),
        unsupported_(file.unsupported),
        warnings_(file.warnings) {}

  void read(const YamlNode& file);

 private:
  struct Field {
    std::string_view name;
    void (ConfigReader::*read)(const YamlNode& node);
  };
  static const std::array<Field, 16> kFields;

  void read_version(const YamlNode& node);
  void read_listen(const YamlNode& node);
  void read_store(const YamlNode& node);
  void read_store_timeout(const YamlNode& node);
  void read_memory(const YamlNode& node);
  void read_connection_memory(const YamlNode& node);
  void read_size(const YamlNode& node, const SizeField& field, std::size_t& into);
  void read_state(const YamlNode& node);
  void read_password(const YamlNode& node);
  void read_admin_token(const YamlNode& node);
  void read_server_names(const YamlNode& node);
  void read_tls(const YamlNode& node);
  void read_headers(const YamlNode& node);
  void read_header_names(const YamlNode& map, wire::HeaderNames& into);
  void read_policies(const YamlNode& node);
  void read_envoy_ratelimit(const YamlNode& node);
  void read_response_headers(const YamlNode& node);
  void read_compat(const YamlNode& node);
  void read_gateway(const std::shared_ptr<const YamlNode>& node);

  void read_door(const YamlNode& node, std::size_t door);
  void check_listeners(const YamlNode& listen);

  DaemonConfig& config_;
  Problems& problems_;
  Problems& unsupported_;
  Problems& warnings_;
};

// The top-level fields of a policy file.
constexpr std::array<ConfigReader::Field, 16> ConfigReader::kFields{{
    {"version", &ConfigReader::read_version},
    {"listen", &ConfigReader::read_listen},
    {"store", &ConfigReader::read_store},
    {"store_timeout", &ConfigReader::read_store_timeout},
    {"memory", &ConfigReader::read_memory},
    {"connection_memory", &ConfigReader::read_connection_memory},
    {"state", &ConfigReader::read_state},
    {"password", &ConfigReader::read_password},
    {"admin_token", &ConfigReader::read_admin_token},
    {"server_names", &ConfigReader::read_server_names},
    {"tls", &ConfigReader::read_tls},
    {"headers", &ConfigReader::read_headers},
    {"policies", &ConfigReader::read_policies},
    {"envoy_ratelimit", &ConfigReader::read_envoy_ratelimit},
    {"compat", &ConfigReader::read_compat},
    {"gateway", nullptr},  // read last, since it refers to the others
}};

void ConfigReader::read(const YamlNode& file) {
  if (!file.is_map()) {
    problems_.push_back(
        {file.place, fmt::format("a policy file is a map with policies, not {}: write policies: {{ "
                                 "api: {{ limits: [ 100/s ] }} }}",
                                 file.describe())});
    return;
  }
  std::array<std::string_view, kFields.size()> names;
  std::ranges::transform(kFields, names.begin(), &Field::name);
  check_fields(file, names, "a policy file", problems_);
  for (const Field& field : kFields) {
    const YamlNode* node = file.find(field.name);
    if (node != nullptr && field.read != nullptr) (this->*field.read)(*node);
  }
  const auto gateway = std::ranges::find(file.fields, "gateway", &YamlNode::Field::name);
  if (gateway != file.fields.end()) read_gateway(gateway->value);
}

void ConfigReader::read_version(const YamlNode& node) {
  if (node.is_scalar() && node.text == "1") return;
  problems_.push_back({node.place, fmt::format("\"version\" is that of the format of this file, "
                                               "and there is only 1, not {}",
                                               node.describe())});
}

// ---- Listeners

void ConfigReader::read_listen(const YamlNode& node) {
  if (!is_map_of(node, "listen", kDoors, problems_)) return;
  const std::size_t before = problems_.size();
  for (std::size_t door = 0; door < kDoors.size(); ++door) {
    if (const YamlNode* field = node.find(kDoors[door])) read_door(*field, door);
  }
  if (problems_.size() == before) check_listeners(node);
}

void ConfigReader::read_door(const YamlNode& node, std::size_t door) {
  std::optional<Endpoint>& endpoint = config_.listen.*kDoorFields[door];
  if (!node.is_scalar()) {
    problems_.push_back({node.place, fmt::format("\"{}\" is host:port or off, not {}", kDoors[door],
                                                 node.describe())});
    return;
  }
  if (node.text == "off") {
    endpoint = std::nullopt;
    return;
  }
  const auto parsed = parse_endpoint(node.text, node.text_place());
  if (!parsed) {
    problems_.push_back(parsed.error());
    return;
  }
  endpoint = *parsed;
}

// Reported at the later of two equal endpoints, or at the one that is not a default.
void ConfigReader::check_listeners(const YamlNode& listen) {
  for (std::size_t a = 0; a < kDoors.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const auto& one = config_.listen.*kDoorFields[a];
      const auto& other = config_.listen.*kDoorFields[b];
      if (!one || !other || !same_endpoint(*one, *other)) continue;
      const YamlNode* written = listen.find(kDoors[a]);
      const std::size_t taken = written != nullptr ? b : a;
      if (written == nullptr) written = listen.find(kDoors[b]);
      problems_.push_back(
          {written->place,
           fmt::format("\"{0}\" listens at {1}: choose another port, or write {0}: off",
                       kDoors[taken], to_text(*(config_.listen.*kDoorFields[taken])))});
    }
  }
}

// ---- Store, memory and state file

void ConfigReader::read_store(const YamlNode& node) {
  const std::size_t before = problems_.size();
  config_.store = read_text(node, "store", problems_);
  if (problems_.size() > before) return;
  const auto address = parse_store(config_.store, node.text_place());
  if (!address) problems_.push_back(address.error());
}

void ConfigReader::read_store_timeout(const YamlNode& node) {
  if (!node.is_scalar()) {
    problems_.push_back({node.place, fmt::format("\"store_timeout\" is a time like 50ms, not {}",
                                                 node.describe())});
    return;
  }
  const auto timeout = parse_duration(node.text, node.text_place());
  if (!timeout) {
    problems_.push_back(timeout.error());
  } else if (*timeout <= Nanos{0}) {
    problems_.push_back({node.place, "\"store_timeout\" must be above zero: write one like 50ms"});
  } else {
    config_.store_timeout = *timeout;
  }
}

void ConfigReader::read_memory(const YamlNode& node) { read_size(node, kMemory, config_.memory); }

void ConfigReader::read_connection_memory(const YamlNode& node) {
  read_size(node, kConnectionMemory, config_.connection_memory);
}

void ConfigReader::read_size(const YamlNode& node, const SizeField& field, std::size_t& into) {
  const auto name = fmt::format("\"{}\"", field.name);
  if (!node.is_scalar()) {
    problems_.push_back(
        {node.place, fmt::format("{} is a size like 64MiB, not {}", name, node.describe())});
    return;
  }
  const auto bytes = parse_count({node.text, node.text_place()}, name);
  if (!bytes) {
    problems_.push_back(bytes.error());
  } else if (*bytes < field.least) {
    problems_.push_back({node.place, fmt::format("{} is at least {}, not {}: {}", name,
                                                 field.least_text, node.describe(), field.why)});
  } else {
    into = static_cast<std::size_t>(*bytes);
  }
}

void ConfigReader::read_state(const YamlNode& node) {
  config_.state = read_text(node, "state", problems_);
}

// ---- Access

void ConfigReader::read_password(const YamlNode& node) {
  config_.password = read_text(node, "password", problems_);
}

void ConfigReader::read_admin_token(const YamlNode& node) {
  config_.admin_token = read_text(node, "admin_token", problems_);
}

void ConfigReader::read_server_names(const YamlNode& node) {
  for (const YamlNode* name : one_or_more(node, "server_names", problems_)) {
    config_.server_names.push_back(lowered(name->text));
    if (name->text.find_first_of(":/ ") == std::string::npos) continue;
    problems_.push_back({name->place, fmt::format("a name of this server has no port or path: "
                                                  "write weir.example.com, not {}",
                                                  in_quotes(name->text))});
  }
}

void ConfigReader::read_tls(const YamlNode& node) {
  if (!is_map_of(node, "tls", kTls, problems_)) return;
  TlsFiles tls;
  const std::array<std::string*, kTls.size()> files{&tls.cert, &tls.key, &tls.ca};
  for (std::size_t i = 0; i < kTls.size(); ++i) {
    if (const YamlNode* field = node.find(kTls[i])) {
      *files[i] = read_text(*field, kTls[i], problems_);
    } else if (kTls[i] != "ca") {
      problems_.push_back(
          {node.place, fmt::format("\"tls\" needs a {0}: write {0}: FILE.pem", kTls[i])});
    }
  }
  config_.tls = std::move(tls);
}

// Reads the names for limit, remaining and reset; those that are missing stay as they are.
void ConfigReader::read_header_names(const YamlNode& map, wire::HeaderNames& into) {
  constexpr std::array names{&wire::HeaderNames::limit, &wire::HeaderNames::remaining,
                             &wire::HeaderNames::reset};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const YamlNode* field = map.find(kHeaderNames[i]);
    if (field != nullptr) into.*names[i] = read_header_name(*field, kHeaderNames[i], problems_);
  }
}

// A style, or a map with the names of the legacy headers.
void ConfigReader::read_headers(const YamlNode& node) {
  const auto read_style = [&](const YamlNode& word, std::string_view what) {
    config_.headers = static_cast<wire::HeaderStyle>(read_word(word, what, kHeaders, problems_));
  };
  if (!node.is_map()) return read_style(node, "headers");
  check_fields(node, kHeadersMap, "\"headers\"", problems_);
  config_.headers = wire::HeaderStyle::legacy;
  if (const YamlNode* style = node.find("style")) read_style(*style, "style");
  read_header_names(node, config_.legacy_headers.names);
  if (const YamlNode* reset_as = node.find("reset_as")) {
    config_.legacy_headers.reset_is_date =
        read_word(*reset_as, "reset_as", kResetAs, problems_) == 1;
  }
}

// ---- Limits

void check_policy_name(const YamlNode::Field& field, Problems& problems) {
  if (!field.name.empty() && field.name.size() <= kMaxPolicyNameLength) return;
  problems.push_back({field.place, fmt::format("the name of a policy has 1 to {} bytes, not {}",
                                               kMaxPolicyNameLength, field.name.size())});
}

void ConfigReader::read_policies(const YamlNode& node) {
  if (node.is_null()) return;
  if (!node.is_map()) {
    problems_.push_back({node.place, fmt::format("\"policies\" is a map from names to policies, "
                                                 "not {}",
                                                 node.describe())});
    return;
  }
  for (const YamlNode::Field& field : node.fields) {
    check_policy_name(field, problems_);
    config_.policies[field.name] = policy::read_policy(*field.value, problems_);
    check_scopes(*field.value, sharing_of(config_), unsupported_);
  }
}

// A path, or a map with more settings.
void ConfigReader::read_envoy_ratelimit(const YamlNode& node) {
  EnvoyRatelimit& envoy = config_.envoy;
  config_.envoy_path_at = node.place;
  if (!node.is_map()) {
    envoy.path = read_text(node, "envoy_ratelimit", problems_);
    return;
  }
  if (!is_map_of(node, "envoy_ratelimit", kEnvoy, problems_)) return;
  if (const YamlNode* path = node.find("path")) {
    envoy.path = read_text(*path, "path", problems_);
    config_.envoy_path_at = path->place;
  } else {
    problems_.push_back(
        {node.place, "\"envoy_ratelimit\" needs a path: write path: FILE-OR-DIRECTORY"});
  }
  if (const YamlNode* word = node.find("on_store_failure")) {
    envoy.on_store_failure = static_cast<OnStoreFailure>(
        read_word(*word, "on_store_failure", kEnvoyFailures, problems_));
  }
  const std::pair<std::string_view, bool EnvoyRatelimit::*> flags[] = {
      {"merge_domains", &EnvoyRatelimit::merge_domains},
      {"dynamic_metadata", &EnvoyRatelimit::dynamic_metadata},
      {"shadow_mode", &EnvoyRatelimit::shadow_mode},
      {"quota_mode", &EnvoyRatelimit::quota_mode}};
  for (const auto& [name, flag] : flags) {
    if (const YamlNode* field = node.find(name)) envoy.*flag = read_bool(*field, name, problems_);
  }
  if (const YamlNode* headers = node.find("response_headers")) read_response_headers(*headers);
}

// `true`, `false`, or a map with the names.
void ConfigReader::read_response_headers(const YamlNode& node) {
  EnvoyRatelimit& envoy = config_.envoy;
  if (node.is_scalar()) {
    envoy.response_headers = read_bool(node, "response_headers", problems_);
    return;
  }
  if (!is_map_of(node, "response_headers", kHeaderNames, problems_)) return;
  envoy.response_headers = true;
  read_header_names(node, envoy.header_names);
}

void ConfigReader::read_compat(const YamlNode& node) {
  const std::size_t before = problems_.size();
  read_word(node, "compat", kCompat, problems_);
  config_.envoy.as_envoyproxy = problems_.size() == before;
  if (!config_.envoy.path.empty()) return;
  warnings_.push_back({node.place, "\"compat\" has no effect without envoy_ratelimit"});
}

// Reads the limits of routes. src/gateway reads the rest of the section.
void ConfigReader::read_gateway(const std::shared_ptr<const YamlNode>& node) {
  config_.gateway = node;
  if (!node->is_map()) {
    problems_.push_back(
        {node->place, fmt::format("\"gateway\" is a map with routes, not {}", node->describe())});
    return;
  }
  for (const RoutePolicy& own : route_policies(*node)) {
    if (config_.policies.contains(own.name)) {
      problems_.push_back({own.written.place,
                           fmt::format("there is a policy {} already: give the route another name",
                                       in_quotes(own.name))});
      continue;
    }
    config_.policies[own.name] = policy::read_policy(own.written, problems_);
    check_scopes(own.written, sharing_of(config_), unsupported_);
  }
}

// ---- Order of problems

void add(Problems& problems, const Problems& more) {
  problems.insert(problems.end(), more.begin(), more.end());
  sort_problems(problems);
}

}  // namespace

bool same_endpoint(const Endpoint& a, const Endpoint& b) {
  const auto every_host = [](const Endpoint& e) { return e.host == "0.0.0.0" || e.host == "::"; };
  return a.port == b.port && a.port != 0 && (a.host == b.host || every_host(a) || every_host(b));
}

std::string to_text(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
            : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

void sort_problems(Problems& problems) {
  const auto key = [](const Problem& problem) {
    return std::tuple(problem.place.line, problem.place.column, std::string_view{problem.message});
  };
  std::ranges::stable_sort(problems, [&](const Problem& a, const Problem& b) {
    return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
  });
  const auto same = [&](const Problem& a, const Problem& b) { return key(a) == key(b); };
  problems.erase(std::unique(problems.begin(), problems.end(), same), problems.end());
}

namespace {

// Resolves a path that is relative to the file's folder.
std::string resolved(const std::string& file, const std::string& path) {
  return (std::filesystem::path(file).parent_path() / path).string();
}

}  // namespace

LoadedConfig read_file(const Source& source, Problems& problems) {
  LoadedConfig file;
  const auto root = parse_yaml(source, problems);
  if (root != nullptr) ConfigReader(file, problems).read(*root);
  sort_problems(problems);
  file.config.source = std::make_shared<const Source>(source);
  std::string& path = file.config.envoy.path;
  if (!path.empty()) path = resolved(source.name, path);
  return file;
}

std::string DaemonConfig::render(const Problem& problem) const {
  return source != nullptr ? source->render(problem) : problem.message + '\n';
}

DaemonConfig read_config(const Source& source, Problems& problems, Problems& warnings) {
  LoadedConfig file = read_file(source, problems);
  add(problems, file.unsupported);
  add(warnings, file.warnings);
  return std::move(file.config);
}

Sharing sharing_of(const DaemonConfig& config) {
  return config.store == "memory" ? Sharing::none : Sharing::fleet;
}

Policy read_policy(const Source& source, Sharing sharing, Problems& problems) {
  Policy policy;
  if (const auto root = parse_yaml(source, problems)) {
    policy = read_policy(*root, problems);
    check_scopes(*root, sharing, problems);
  }
  sort_problems(problems);
  return policy;
}

std::string field_with(const Problem& problem, const Source& source) {
  Problems told_before;
  const auto policy = parse_yaml(source, told_before);
  if (!policy || !policy->is_map()) return {};
  const auto is_behind = [](SourcePosition a, SourcePosition b) {
    return std::tuple(a.line, a.column) > std::tuple(b.line, b.column);
  };
  // A problem with the policy as a whole is that the limits are missing.
  if (policy->find("limits") == nullptr && !is_behind(problem.place, policy->place)) {
    return "limits";
  }
  std::string last;
  for (const YamlNode::Field& field : policy->fields) {
    if (!is_behind(field.place, problem.place)) last = field.name;
  }
  return last;
}

}  // namespace weir::policy
