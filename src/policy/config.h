#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "policy/policy_file.h"
#include "policy/source.h"
#include "wire/rate_headers.h"

// A whole policy file: the policies, and the daemon's own settings.

namespace weir::policy {

// The address of a listener: "127.0.0.1:7379", "[::1]:7379" (`host` has no brackets), "0.0.0.0:80".
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;  // 0: any that is free

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// The addresses of the listeners; a listener that is off has none.
struct ListenAddresses {
  std::optional<Endpoint> resp = Endpoint{"127.0.0.1", 7379};
  std::optional<Endpoint> http = Endpoint{"127.0.0.1", 7380};
  std::optional<Endpoint> grpc = Endpoint{"127.0.0.1", 7381};

  friend bool operator==(const ListenAddresses&, const ListenAddresses&) = default;
};

// Paths of PEM files.
struct TlsFiles {
  std::string cert;
  std::string key;
  std::string ca;  // that signs client certificates; empty: clients need none
};

// Where envoyproxy/ratelimit's configuration is, and how it is applied. The envoy module reads its
// files.
struct EnvoyRatelimit {
  std::string path{};          // a file or a directory; empty: none
  bool as_envoyproxy = false;  // `compat: envoyproxy`: charge as envoyproxy/ratelimit does
  bool merge_domains = false;  // several files may have rules for one domain
  bool response_headers = false;
  wire::HeaderNames header_names{};  // of these
  bool dynamic_metadata = false;
  bool shadow_mode = false;  // all limits count, and refuse no call
  bool quota_mode = false;   // a call is refused only if all of its limits refuse
  OnStoreFailure on_store_failure = OnStoreFailure::error;

  friend bool operator==(const EnvoyRatelimit&, const EnvoyRatelimit&) = default;
};
struct YamlNode;

struct DaemonConfig {
  ListenAddresses listen{};
  std::string store = "memory";
  Nanos store_timeout = std::chrono::milliseconds{50};
  std::size_t memory = std::size_t{64} << 20;
  std::size_t connection_memory = std::size_t{64} << 20;  // bytes in buffers of all connections
  std::string state{};                                    // path; empty: no state file
  std::string password{};                                 // empty: no password is required
  std::string admin_token{};                              // empty: admin verbs from loopback only
  // Values of the Host header that name this daemon, in lower case (DNS rebinding).
  std::vector<std::string> server_names{};
  std::optional<TlsFiles> tls{};
  wire::HeaderStyle headers = wire::HeaderStyle::ietf;
  wire::LegacyHeaders legacy_headers{};
  PolicySet policies{};  // with those that routes of the gateway define
  EnvoyRatelimit envoy{};
  SourcePosition envoy_path_at{};  // of envoy.path, for errors found when it is opened
  // The section `gateway:` as parsed YAML, which src/gateway reads; null: no gateway.
  std::shared_ptr<const YamlNode> gateway{};
  std::shared_ptr<const Source> source{};  // of the file; null: all defaults

  // A problem with one of its values, rendered like the problems of the file.
  std::string render(const Problem& problem) const;
};

// Reports all problems of the file, not only the first. A file with problems must not be used; one
// with warnings may.
DaemonConfig read_config(const Source& source, Problems& problems, Problems& warnings);

// Sorts by position and removes duplicates: a YAML alias repeats the problems of its anchor.
void sort_problems(Problems& problems);

// True if both endpoints cannot be bound at the same time.
bool same_endpoint(const Endpoint& a, const Endpoint& b);

// host:port, an IPv6 address in brackets.
std::string to_text(const Endpoint& endpoint);

// Whether its store is one that nodes share.
Sharing sharing_of(const DaemonConfig& config);

// A single policy, in YAML or JSON.
Policy read_policy(const Source& source, Sharing sharing, Problems& problems);
// The field of such a policy that the problem is about; empty: the policy as a whole.
std::string field_with(const Problem& problem, const Source& source);

// A file, and the settings in it that are valid but not supported by this version.
struct LoadedConfig {
  DaemonConfig config;
  Problems unsupported;
  Problems warnings;
};
LoadedConfig read_file(const Source& source, Problems& problems);

}  // namespace weir::policy
