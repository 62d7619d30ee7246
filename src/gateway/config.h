#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rate_headers.h"
#include "gateway/address.h"
#include "policy/config.h"
#include "weir/time.h"

// All that the `gateway:` section of a policy file can say, as plain values. The defaults are those
// of a file that does not say anything about them. Fields that are said to be "of a route" may
// stand beside `routes:`, too, and hold for all routes that do not say otherwise.

namespace weir::gateway {

using policy::Endpoint;
using policy::Tls;

// ---- Which requests

// All three must fit. What is not written fits everything.
struct Match {
  // shop.example.com, or *.example.com for all names below it (not itself). Lower case, no port, no
  // dot at the end. Empty: any.
  std::vector<std::string> hosts{};
  // /exact, with * for one segment or a part of one, ** for any number of segments at the end or
  // between: /users/*/orders, /static/**, /files/*.pdf. Empty: any (as /**).
  std::vector<std::string> paths{};
  // As written in the request: methods have case. Empty: any. GET stands for HEAD, too.
  std::vector<std::string> methods{};
};

// ---- The services behind

// One server of a service: http://10.0.0.7:9001. Names are looked up when the file is read.
struct Upstream {
  bool tls = false;         // https://
  std::string host{};       // a name or an address, without brackets
  std::uint16_t port = 80;  // 443 of https
  std::string text{};       // as it was written, for logs and numbers

  friend bool operator==(const Upstream&, const Upstream&) = default;
};

enum class Balance : std::uint8_t {
  round_robin,        // one after the other (the default)
  least_connections,  // the one with the fewest requests in progress
};

struct Timeouts {
  Nanos connect = std::chrono::seconds{2};  // until a connection to a server stands, TLS included
  Nanos read = std::chrono::seconds{60};    // the longest silence of a server that owes something
  Nanos total = kForever;                   // for all of an exchange (`off`)

  friend bool operator==(const Timeouts&, const Timeouts&) = default;
};

// When a server gets nothing for a while. Passive health watches the requests that are sent anyway.
struct Health {
  struct Passive {
    int failures = 3;                        // in a row: not connected, reset, or timed out
    Nanos pause = std::chrono::seconds{10};  // how long it rests then (`for:`)

    friend bool operator==(const Passive&, const Passive&) = default;
  };
  // Asks every server on its own, if `path` is written.
  struct Active {
    std::string path{};                       // GET this
    Nanos every = std::chrono::seconds{5};    // so often
    Nanos timeout = std::chrono::seconds{2};  // for the answer
    int healthy = 2;                          // good answers in a row that bring it back
    int unhealthy = 2;                        // bad ones that take it out
    int least_status = 200;                   // a good answer has a status from here …
    int most_status = 399;                    // … to here

    friend bool operator==(const Active&, const Active&) = default;
  };
  std::optional<Passive> passive = Passive{};  // `off` for none
  std::optional<Active> active{};

  friend bool operator==(const Health&, const Health&) = default;
};

// The servers that do the same, and how they are treated. Equal ones may share connections.
struct Service {
  std::vector<Upstream> servers{};
  Balance balance = Balance::round_robin;
  Timeouts timeouts{};
  // More servers to try when one fails: when no connection could be made, for any method; when it
  // was lost before the answer, only for methods that may be repeated and have sent no body. 0
  // to 10.
  int retries = 1;
  Health health{};
  std::size_t idle_connections = 64;  // kept open to each server, by each thread

  friend bool operator==(const Service&, const Service&) = default;
};

// ---- Whose a request is

// One thing that a request says about who or what it is.
struct KeySource {
  enum class Kind : std::uint8_t {
    ip,       // of the client, as trusted proxies tell
    header,   // header:X-User-Id
    query,    // query:sku_id
    cookie,   // cookie:session
    path,     // of the request, normalised
    segment,  // segment:2 is "b" of /a/b/c
    host,     // lower case, without port
    method,
    jwt,       // jwt:sub, a claim of the bearer's token
    constant,  // const:all, the same for everybody
  };
  Kind kind = Kind::ip;
  std::string
      name{};        // of the header (lower case), parameter, cookie or claim; the constant's text
  int segment = 0;   // from 1
  int v4_bits = 32;  // ip/24; ip/24/64 for both kinds
  int v6_bits = 64;  // who has one IPv6 address has 2^64 of them

  friend bool operator==(const KeySource&, const KeySource&) = default;
};

// A key, or a part of one: several sources together are one value.
struct KeyPart {
  std::string name{};  // of the part; empty for `key:`
  std::vector<KeySource> sources{};

  friend bool operator==(const KeyPart&, const KeyPart&) = default;
};

// What a key is worth that came in a token (`jwt:` of a route): what verifies its signature.
struct JwtRules {
  enum class Algorithm : std::uint8_t { hs256, rs256, es256 };
  struct VerifyKey {
    Algorithm algorithm = Algorithm::hs256;
    std::string id{};    // `kid` that the token must name; empty: any
    std::string text{};  // the secret, or the public key in PEM

    friend bool operator==(const VerifyKey&, const VerifyKey&) = default;
  };
  // Where the token is: `Bearer …` of this header, or all of it in any other header or in a cookie.
  std::string header = "authorization";
  std::string cookie{};  // used if it is not empty, instead of the header
  // `verify: off`: claims are believed without a look at the signature, since a proxy in front has
  // verified them.
  bool verifies = true;
  // A token that none of them verifies, or whose time has not come or is over, says nothing.
  std::vector<VerifyKey> keys{};
  Nanos leeway = std::chrono::seconds{60};  // for clocks that differ
  std::string issuer{};                     // `iss` must be this; empty: any
  std::string audience{};                   // `aud` must be or have this; empty: any

  friend bool operator==(const JwtRules&, const JwtRules&) = default;
};

class JwtReader;

// ---- What is asked for, and what is answered

// The permits of a request.
struct Cost {
  enum class Kind : std::uint8_t {
    fixed,   // `cost: 5`
    header,  // `cost: header:X-Cost`: a whole number from 1; anything else counts as `fixed`
    bytes,   // of the request's and the response's body: taken as announced, settled when known
  };
  Kind kind = Kind::fixed;
  Permits fixed = 1;
  std::string header{};  // lower case
  // `cost: { header: X-Cost, most: 100 }`: a client cannot ask for more than this at once.
  Permits most = 1'000'000;

  friend bool operator==(const Cost&, const Cost&) = default;
};

// Bytes of bodies that pass, paced: `bandwidth: 10MB/s`, or a map with limit, key and of.
struct Bandwidth {
  std::string policy{};  // gateway/<route>/bandwidth, which counts bytes
  KeyPart key{};         // whose they are together; default: as of the route, and ip without one
  bool requests = true;  // `of: requests`, `of: responses`, or both
  bool responses = true;

  friend bool operator==(const Bandwidth&, const Bandwidth&) = default;
};

using HeaderLine = std::pair<std::string, std::string>;

// What is answered to who is refused.
struct Refused {
  int status = 429;  // 302 with a redirect
  std::vector<HeaderLine> headers{};
  // Nothing: problem+json that says why, and when to come again. {limited_by}, {policy} and
  // {retry_after} in it are replaced.
  std::optional<std::string>
      body{};  // `body:`, or what was in `file:` when the policy file was read
  std::string content_type =
      "text/plain; charset=utf-8";  // of a body; `.html`, `.json` files have theirs
  std::string redirect{};           // Location; empty: none
  // Degrade: this service answers instead, and the client sees its status.
  std::shared_ptr<const Service> fallback{};
  // What is answered instead if the limit of that name refuses. These have no fallback.
  std::map<std::string, std::shared_ptr<const Refused>, std::less<>> by_limit{};
};

// A request without something that its key or parts are made of: what it is answered, or nothing
// (`allow`) to leave out the limits that count by what is missing. The others still decide.
struct EmptyKey {
  std::optional<int> deny = 403;  // `deny 403`, `allow`

  friend bool operator==(const EmptyKey&, const EmptyKey&) = default;
};

// Requests that wait for their turn (limits with `queue`).
struct Queue {
  std::size_t most = 1'000;                  // waiting at a route on this node; more are refused
  Nanos longest = std::chrono::seconds{30};  // a turn that comes later is refused at once

  friend bool operator==(const Queue&, const Queue&) = default;
};

// Which fields tell a service who asks.
enum class ForwardedStyle : std::uint8_t {
  both,      // the default
  x,         // X-Forwarded-For, -Proto, -Host, -Port
  standard,  // Forwarded (RFC 7239)
  off,       // none is added; what untrusted clients say is still removed
};

// The Host that a service sees.
enum class UpstreamHost : std::uint8_t {
  keep,      // that of the request (the default)
  upstream,  // that of the server it is sent to
};

// The path that a service sees.
enum class UpstreamPath : std::uint8_t {
  normalised,  // as it was matched (the default): route and service cannot disagree about it
  as_sent,     // byte by byte what the client sent
};

// ---- Routes

struct Route {
  // `name:`, else its position from 0. Stable names keep usage when routes are added.
  std::string name{};
  Match match{};
  Service service{};

  // The policy that decides: one of `policies:` by name, or gateway/<name of the route> for
  // `limits:` that are written here. Empty: the route limits nothing.
  std::string policy{};
  bool own_policy = false;  // that is the latter
  // `key:` is one part without a name; `parts:` are some with names. Empty only without a policy.
  std::vector<KeyPart> key{};
  EmptyKey empty_key{};
  std::shared_ptr<const JwtReader> jwt{};  // made of JwtRules; none: no source needs it
  Cost cost{};
  std::optional<Bandwidth> bandwidth{};
  Queue queue{};

  Refused refused{};
  HeaderStyle headers = HeaderStyle::ietf;  // default: `headers:` of the file

  std::uint64_t max_body = UINT64_MAX;  // bytes of a request's body; more is answered 413 (`off`)
  ForwardedStyle forwarded = ForwardedStyle::both;
  UpstreamHost host = UpstreamHost::keep;
  UpstreamPath path = UpstreamPath::normalised;
};

// What clients are given time and room for.
struct ClientLimits {
  std::size_t max_header = 32 << 10;        // bytes of all lines of a request's head: 431
  std::size_t max_header_count = 100;       // lines: 431
  std::size_t max_connections = 16'384;     // more wait in the listener's queue
  Nanos header = std::chrono::seconds{10};  // from the first byte of a head to its last
  Nanos body = std::chrono::seconds{30};    // the longest silence of a client that sends a body
  Nanos idle = std::chrono::seconds{75};    // between two requests
  Nanos send = std::chrono::seconds{30};    // the longest time in which a client takes nothing

  friend bool operator==(const ClientLimits&, const ClientLimits&) = default;
};

// How the key of a request is logged.
enum class LoggedKey : std::uint8_t {
  off,     // not at all (the default)
  hashed,  // the SHA-256 of it, by which its requests can be found together
  plain,
};

// One line for each request.
struct AccessLog {
  std::string path{};  // `access_log: FILE`, `stdout`; empty: none (the default)
  bool json =
      false;  // `access_log: { file: …, format: json }`; else as nginx's "combined" and more
  LoggedKey key = LoggedKey::off;

  friend bool operator==(const AccessLog&, const AccessLog&) = default;
};

// Which field of a trusted proxy tells the client's address.
enum class ClientFrom : std::uint8_t {
  // Whichever is there (the default). A proxy that knows one of them passes the other on as its
  // client wrote it: where both are there and tell different clients, neither is believed.
  either,
  x_forwarded_for,
  forwarded,
};

struct Config {
  Endpoint listen{"127.0.0.1", 8080};
  std::optional<Tls> tls{};
  bool http2 = true;                            // with clients that speak it
  std::vector<AddressRange> trusted_proxies{};  // whose X-Forwarded-… are believed; nobody's
  ClientFrom client_from = ClientFrom::either;
  std::vector<Route> routes{};  // the first that matches is taken; none: 404
  LegacyHeaders legacy_headers{};
  ClientLimits client{};
  AccessLog access_log{};
};

}  // namespace weir::gateway
