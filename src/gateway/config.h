#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/ip_address.h"
#include "policy/config.h"
#include "weir/time.h"
#include "wire/rate_headers.h"

// The `gateway:` section of a policy file as plain values, with the defaults of absent fields.
// Settings of a route may also stand beside `routes:`; they are then the defaults of all routes.

namespace weir::gateway {

using policy::Endpoint;
using policy::TlsFiles;

// ---- Matching

// All three conditions must match. An absent one matches everything.
struct MatchRules {
  // shop.example.com, or *.example.com for all its subdomains (not itself). Lower case, no port, no
  // trailing dot. Empty: any.
  std::vector<std::string> hosts{};
  // /exact; * matches a segment or a part of one, ** any number of segments: /users/*/orders,
  // /static/**, /files/*.pdf. Empty: any (as /**).
  std::vector<std::string> paths{};
  // Case-sensitive. Empty: any. GET includes HEAD.
  std::vector<std::string> methods{};
};

// ---- Upstream services

// One server of a service: http://10.0.0.7:9001. Its name is resolved when the file is loaded.
struct Upstream {
  bool tls = false;         // https://
  std::string host{};       // a name or an address, without brackets
  std::uint16_t port = 80;  // 443 for https
  std::string text{};       // as written, for logs and metrics

  friend bool operator==(const Upstream&, const Upstream&) = default;
};

enum class LoadBalancing : std::uint8_t {
  round_robin,        // in turn (the default)
  least_connections,  // the server with the fewest requests in progress
};

struct UpstreamTimeouts {
  Nanos connect = std::chrono::seconds{2};  // to connect, TLS handshake included
  Nanos read = std::chrono::seconds{60};    // longest silence of a server that owes a response
  Nanos total = kForever;                   // for the whole exchange (`off`: unlimited)

  friend bool operator==(const UpstreamTimeouts&, const UpstreamTimeouts&) = default;
};

// When a server is taken out of rotation. Passive checks watch real requests.
struct HealthCheckConfig {
  struct Passive {
    int failures = 3;                                // in a row: connect, reset or timeout
    Nanos ejection_time = std::chrono::seconds{10};  // how long the server is ejected (`for:`)

    friend bool operator==(const Passive&, const Passive&) = default;
  };
  // Active checks probe every server; on if `path` is set.
  struct Active {
    std::string path{};                       // GET this path
    Nanos every = std::chrono::seconds{5};    // interval
    Nanos timeout = std::chrono::seconds{2};  // for the response
    int healthy = 2;                          // good results in a row that bring it back
    int unhealthy = 2;                        // bad results in a row that take it out
    int min_status = 200;                     // lowest status of a good response
    int max_status = 399;                     // highest status of a good response

    friend bool operator==(const Active&, const Active&) = default;
  };
  std::optional<Passive> passive = Passive{};  // nullopt: `off`
  std::optional<Active> active{};

  friend bool operator==(const HealthCheckConfig&, const HealthCheckConfig&) = default;
};

// A group of equivalent servers and how they are used. Routes with equal services share
// connections.
struct ServiceConfig {
  std::vector<Upstream> servers{};
  LoadBalancing balance = LoadBalancing::round_robin;
  UpstreamTimeouts timeouts{};
  // Further servers to try after a failure, 0 to 10. A failed connect is retried for any method; a
  // connection that was lost before the response only for idempotent methods without a body.
  int retries = 1;
  HealthCheckConfig health{};
  std::size_t idle_connections = 64;  // idle connections kept for each server and thread

  friend bool operator==(const ServiceConfig&, const ServiceConfig&) = default;
};

// ---- Keys

// One attribute of a request that is part of its key.
struct KeySource {
  enum class SourceKind : std::uint8_t {  // the attribute
    ip,                                   // of the client, taken from trusted proxies
    header,                               // header:X-User-Id
    query,                                // query:sku_id
    cookie,                               // cookie:session
    path,                                 // normalised
    segment,                              // segment:2 is "b" of /a/b/c
    host,                                 // lower case, without port
    method,
    jwt,       // jwt:sub, a claim of the bearer token
    constant,  // const:all, the same for every request
  };
  SourceKind kind = SourceKind::ip;
  std::string
      name{};  // of the header (lower case), parameter, cookie or claim; the text of a constant
  int segment = 0;   // from 1
  int v4_bits = 32;  // ip/24; ip/24/64 for both families
  int v6_bits = 64;  // a client usually has a whole /64

  friend bool operator==(const KeySource&, const KeySource&) = default;
};

// A key, or a key part: several sources are joined to one value.
struct KeyPart {
  std::string name{};  // of the part; empty for `key:`
  std::vector<KeySource> sources{};

  friend bool operator==(const KeyPart&, const KeyPart&) = default;
};

// The signature algorithms of tokens (RFC 7518).
enum class JwtAlgorithm : std::uint8_t { hs256, rs256, es256 };

// How the token is found and verified that claims are read from (`jwt:` of a route).
struct JwtRules {
  struct VerifyKey {
    JwtAlgorithm algorithm = JwtAlgorithm::hs256;
    std::string id{};    // required `kid`; empty: any
    std::string text{};  // the secret, or the public key in PEM

    friend bool operator==(const VerifyKey&, const VerifyKey&) = default;
  };
  // Where the token is: after `Bearer` in this header, or the whole value of another header or a
  // cookie.
  std::string header = "authorization";
  std::string cookie{};  // if not empty, used instead of the header
  // `verify: off`: claims are accepted without verification, because a proxy in front verifies
  // them.
  bool verifies = true;
  // A token that none of these verifies, or that is expired or not valid yet, has no claims.
  std::vector<VerifyKey> keys{};
  Nanos leeway = std::chrono::seconds{60};  // tolerated clock difference
  std::string issuer{};                     // required `iss`; empty: any
  std::string audience{};                   // required in `aud`; empty: any

  friend bool operator==(const JwtRules&, const JwtRules&) = default;
};

class JwtReader;

// ---- Costs and replies

// The permits of a request.
struct RequestCost {
  enum class CostKind : std::uint8_t {
    fixed,   // `cost: 5`
    header,  // `cost: header:X-Cost`: an integer from 1; otherwise `fixed`
    bytes,   // of both bodies: the announced length is taken, the rest settled at the end
  };
  CostKind kind = CostKind::fixed;
  Permits fixed = 1;
  std::string header{};  // lower case
  // `cost: { header: X-Cost, most: 100 }`: bounds the value that a client may send.
  Permits most = 1'000'000;

  friend bool operator==(const RequestCost&, const RequestCost&) = default;
};

// Paced body bytes: `bandwidth: 10MB/s`, or a map with limit, key and of.
struct Bandwidth {
  std::string policy{};  // gateway/<route>/bandwidth, which counts bytes
  KeyPart key{};         // who shares the bandwidth; default: the key of the route, else ip
  bool requests = true;  // `of: requests`, `of: responses`, or both
  bool responses = true;

  friend bool operator==(const Bandwidth&, const Bandwidth&) = default;
};

using HeaderLine = std::pair<std::string, std::string>;

// The reply to a denied request (`refused:`).
struct RefusalConfig {
  int status = 429;  // 302 with a redirect
  std::vector<HeaderLine> headers{};
  // Nullopt: problem+json with the reason and the time to retry. The placeholders {limited_by},
  // {policy} and {retry_after} are replaced.
  std::optional<std::string>
      body{};  // `body:`, or the content of `file:` when the policy file was read
  std::string content_type =
      "text/plain; charset=utf-8";  // of the body; `.html` and `.json` files have their own
  std::string redirect{};           // Location; empty: none
  // Graceful degradation: this service answers instead, and the client sees its status.
  std::shared_ptr<const ServiceConfig> fallback{};
  // Replies for single limits, by name. These have no fallback.
  std::map<std::string, std::shared_ptr<const RefusalConfig>, std::less<>> by_limit{};
};

// The reply to a request without a source of its key (`empty_key:`). Nullopt (`allow`): limits that
// count by the missing part are skipped, the others still decide.
struct EmptyKey {
  std::optional<int> deny = 403;  // `deny 403`, `allow`

  friend bool operator==(const EmptyKey&, const EmptyKey&) = default;
};

// Bounds for requests that wait for their turn (limits with `queue`).
struct QueueConfig {
  std::size_t most = 1'000;  // waiting requests of a route on this node; more are denied
  Nanos longest = std::chrono::seconds{30};  // a request that would wait longer is denied at once

  friend bool operator==(const QueueConfig&, const QueueConfig&) = default;
};

// The forwarding fields that tell a server who the client is.
enum class ForwardedStyle : std::uint8_t {
  both,      // the default
  x,         // X-Forwarded-For, -Proto, -Host, -Port
  standard,  // Forwarded (RFC 7239)
  off,       // adds none; those of untrusted clients are still removed
};

// The Host that the upstream sees.
enum class UpstreamHost : std::uint8_t {
  keep,      // of the request (the default)
  upstream,  // of the server
};

// The path that the upstream sees.
enum class UpstreamPath : std::uint8_t {
  normalised,  // as it was matched (the default): route and server cannot disagree
  as_sent,     // the bytes that the client sent
};

// ---- Routes

struct RouteConfig {
  // `name:`, else its index from 0. With names, counters keep their keys when routes are added.
  std::string name{};
  MatchRules match{};
  ServiceConfig service{};

  // The policy that decides: a name under `policies:`, or gateway/<route> for the route's own
  // `limits:`. Empty: unlimited.
  std::string policy{};
  bool own_policy = false;  // `policy` stands for the route's own `limits:`
  // `key:` is one part without a name; `parts:` are named. Empty only without a policy.
  std::vector<KeyPart> key{};
  EmptyKey empty_key{};
  std::shared_ptr<const JwtReader> jwt{};  // null: no source is a claim
  RequestCost cost{};
  std::optional<Bandwidth> bandwidth{};
  QueueConfig queue{};

  RefusalConfig refused{};
  wire::HeaderStyle headers = wire::HeaderStyle::ietf;  // default: `headers:` of the file

  std::uint64_t max_body = UINT64_MAX;  // bytes of a request body, above: 413 (`off`: unlimited)
  ForwardedStyle forwarded = ForwardedStyle::both;
  UpstreamHost host = UpstreamHost::keep;
  UpstreamPath path = UpstreamPath::normalised;
};

// Limits and timeouts of client connections.
struct ClientLimits {
  std::size_t max_header = 32 << 10;        // bytes of a request head, above: 431
  std::size_t max_header_count = 100;       // lines, above: 431
  std::size_t max_connections = 16'384;     // more wait in the listen backlog
  Nanos header = std::chrono::seconds{10};  // from the first byte of a head to its last
  Nanos body = std::chrono::seconds{30};    // longest silence of a client that sends a body
  Nanos idle = std::chrono::seconds{75};    // between two requests
  Nanos send = std::chrono::seconds{30};    // longest time in which a client reads nothing

  friend bool operator==(const ClientLimits&, const ClientLimits&) = default;
};

// How the key of a request is logged.
enum class KeyLogging : std::uint8_t {
  off,     // not at all (the default)
  hashed,  // as SHA-256: requests of one key can be grouped without showing the key
  plain,
};

// The access log, one line for each request.
struct AccessLogConfig {
  std::string path{};  // `access_log: FILE`, `stdout`; empty: none (the default)
  bool json =
      // `access_log: { file: …, format: json }`; else nginx's "combined" with additional fields.
      false;
  KeyLogging key = KeyLogging::off;

  friend bool operator==(const AccessLogConfig&, const AccessLogConfig&) = default;
};

// The header of a trusted proxy that carries the client's address.
enum class ClientFrom : std::uint8_t {
  // Either one (the default). A proxy may set one of them and forward the other as the client wrote
  // it: if both are present and differ, neither is used.
  either,
  x_forwarded_for,
  forwarded,
};

struct GatewayConfig {
  Endpoint listen{"127.0.0.1", 8080};
  std::optional<TlsFiles> tls{};
  bool http2 = true;                       // offered to clients
  std::vector<IpRange> trusted_proxies{};  // whose forwarding fields are used; default: none
  ClientFrom client_from = ClientFrom::either;
  std::vector<RouteConfig> routes{};  // the first match wins; no match: 404
  wire::LegacyHeaders legacy_headers{};
  ClientLimits client{};
  AccessLogConfig access_log{};
};

}  // namespace weir::gateway
