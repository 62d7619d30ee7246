#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

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

// Which fields of an HTTP answer tell about limits.
enum class HeaderStyle : std::uint8_t {
  ietf,    // RateLimit, RateLimit-Policy (the default)
  legacy,  // X-RateLimit-…
  both,
  off,
};

// Files, in PEM.
struct Tls {
  std::string cert;
  std::string key;
  std::string ca;  // of clients; empty: anybody's
};

struct Config {
  Listen listen{};
  std::string store = "memory";
  Nanos store_timeout = std::chrono::milliseconds{50};
  std::size_t memory = std::size_t{64} << 20;
  std::string state{};        // empty: nothing survives a restart
  std::string password{};     // empty: none is asked for
  std::string admin_token{};  // the same
  std::optional<Tls> tls{};
  HeaderStyle headers = HeaderStyle::ietf;
  PolicySet policies{};
};

// Problems: all of them at once; a file with problems must not be used. Warnings: it may be.
Config read_config(const Source& source, Problems& problems, Problems& warnings);

// One policy on its own, in YAML or JSON.
Policy read_policy(const Source& source, Problems& problems);

// A file, and what of it makes sense but cannot be done by this version.
struct ReadFile {
  Config config;
  Problems unsupported;
  Problems warnings;
};
ReadFile read_file(const Source& source, Problems& problems);

}  // namespace weir::policy
