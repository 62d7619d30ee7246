#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/rate_headers.h"
#include "policy/policy_file.h"
#include "policy/source.h"

// All of a policy file.

namespace weir::policy {

// Where a door is: "127.0.0.1:7379", "[::1]:7379" (the host without its brackets), "0.0.0.0:80".
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;  // 0: any that is free

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// The doors; one that is off has none.
struct Listen {
  std::optional<Endpoint> resp = Endpoint{"127.0.0.1", 7379};
  std::optional<Endpoint> http = Endpoint{"127.0.0.1", 7380};
  std::optional<Endpoint> grpc = Endpoint{"127.0.0.1", 7381};

  friend bool operator==(const Listen&, const Listen&) = default;
};

// Files, in PEM.
struct Tls {
  std::string cert;
  std::string key;
  std::string ca;  // of clients; empty: anybody's
};

// envoyproxy/ratelimit's configuration, and how it is followed. What is in it others read.
struct EnvoyRatelimit {
  std::string path{};          // a file or a directory; empty: none
  bool as_envoyproxy = false;  // `compat: envoyproxy`: charge as it does
  bool merge_domains = false;  // several files may have rules of one domain
  bool response_headers = false;
  HeaderNames header_names{};  // of these
  bool dynamic_metadata = false;
  bool shadow_mode = false;  // nothing is refused
  bool quota_mode = false;   // every limit refuses only together with all others
  OnStoreFailure on_store_failure = OnStoreFailure::error;

  friend bool operator==(const EnvoyRatelimit&, const EnvoyRatelimit&) = default;
};
struct Node;

struct Config {
  Listen listen{};
  std::string store = "memory";
  Nanos store_timeout = std::chrono::milliseconds{50};
  std::size_t memory = std::size_t{64} << 20;
  std::size_t connection_memory = std::size_t{64} << 20;  // bytes in buffers of all connections
  std::string state{};                                    // empty: nothing survives a restart
  std::string password{};                                 // empty: none is asked for
  std::string admin_token{};                              // the same
  // Names in Host that are known to be this daemon's, in lower case.
  std::vector<std::string> server_names{};
  std::optional<Tls> tls{};
  HeaderStyle headers = HeaderStyle::ietf;
  LegacyHeaders legacy_headers{};
  PolicySet policies{};  // those that routes of the gateway write down among them
  EnvoyRatelimit envoy{};
  Place envoy_path_at{};  // whoever opens it says what is wrong with it there
  // The section as it was written, for whoever is a gateway (src/gateway); none: there is none.
  std::shared_ptr<const Node> gateway{};
  std::shared_ptr<const Source> source{};  // what it was read from; none: nobody wrote it

  // Something to say about one of its words, as of all that is wrong with a file.
  std::string render(const Problem& problem) const;
};

// Problems: all of them at once; a file with problems must not be used. Warnings: it may be.
Config read_config(const Source& source, Problems& problems, Problems& warnings);

// By place, and none twice: what an alias repeats is wrong once.
void arrange(Problems& problems);

// Whether two doors cannot both be bound.
bool same_door(const Endpoint& a, const Endpoint& b);

// host:port, an IPv6 address in brackets.
std::string to_text(const Endpoint& endpoint);

// Whether it has a store that nodes share.
Sharing sharing_of(const Config& config);

// One policy on its own, in YAML or JSON.
Policy read_policy(const Source& source, Sharing sharing, Problems& problems);
// The field of such a policy that a problem with it is about; empty if it is about none.
std::string field_with(const Problem& problem, const Source& source);

// A file, and what of it makes sense but cannot be done by this version.
struct ReadFile {
  Config config;
  Problems unsupported;
  Problems warnings;
};
ReadFile read_file(const Source& source, Problems& problems);

}  // namespace weir::policy
