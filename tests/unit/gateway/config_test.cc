#include "gateway/config_yaml.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/jwt.h"

namespace weir::gateway {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// The only files that exist.
Result<std::string, Error> files(const std::string& path) {
  if (path == "sorry.html") return std::string{"<h1>sorry</h1>"};
  if (path == "large.txt") return std::string((1 << 20) + 1, 'x');
  return Error{fmt::format("cannot open {}: No such file or directory", path)};
}

struct Read {
  FullConfig file;
  std::vector<std::string> problems;
  std::vector<std::string> warnings;
};

std::vector<std::string> lines_of(const policy::Problems& problems) {
  std::vector<std::string> lines;
  for (const auto& [place, message] : problems) {
    lines.push_back(fmt::format("{}:{}: {}", place.line, place.column, message));
  }
  return lines;
}

Read read(const std::string& text) {
  policy::Problems problems, warnings;
  Read made;
  made.file = read_config({"weir.yaml", text}, problems, warnings, files);
  made.problems = lines_of(problems);
  made.warnings = lines_of(warnings);
  return made;
}

GatewayConfig good(const std::string& text) {
  Read made = read(text);
  EXPECT_THAT(made.problems, IsEmpty());
  return made.file.gateway.value_or(GatewayConfig{});
}

// The single route of a gateway with these fields and an upstream.
RouteConfig route(const std::string& fields) {
  GatewayConfig config =
      good("policies: { p: { limits: [ 1/s ] } }\ngateway: { routes: [ { upstream: http://a, " +
           fields + " } ] }");
  EXPECT_EQ(config.routes.size(), 1u);
  return config.routes.empty() ? RouteConfig{} : config.routes.front();
}
std::vector<std::string> wrong(const std::string& fields) {
  return read("policies: { p: { limits: [ 1/s ] } }\ngateway: { routes: [ { upstream: http://a, " +
              fields + " } ] }")
      .problems;
}

TEST(GatewayConfig, ReadsTheExampleOfTheDocs) {
  const GatewayConfig config = good(R"(
policies:
  seckill:
    limits:
      - { by: user, limit: 1/5s }
      - { by: sku,  limit: 2000/s burst 2000 }
  admin: { limits: [ 5/s ] }
gateway:
  listen: 0.0.0.0:8080
  trusted_proxies: [10.0.0.0/8]
  routes:
    - match: { host: Shop.example.com, path: /seckill/**, method: POST }
      upstream: [ http://127.0.0.1:9001, "https://[::1]" ]
      policy: seckill
      parts: { user: header:X-User-Id, sku: query:sku_id }
      empty_key: allow
      refused: { status: 429, body: '{"error":"sold out, try later"}', content_type: application/json }
    - match: { path: /admin/** }
      upstream: http://127.0.0.1:9003
      policy: admin
      key: path
    - match: { path: /** }
      upstream: http://127.0.0.1:9003
      limits: [ 50/s burst 100, 20 concurrent ]
      key: ip
)");
  EXPECT_EQ(config.listen, (Endpoint{"0.0.0.0", 8080}));
  EXPECT_EQ(config.trusted_proxies, (std::vector{*parse_range("10.0.0.0/8")}));
  ASSERT_EQ(config.routes.size(), 3u);
  const RouteConfig& shop = config.routes[0];
  EXPECT_EQ(shop.name, "0");
  EXPECT_THAT(shop.match.hosts, ElementsAre("shop.example.com"));
  EXPECT_THAT(shop.match.paths, ElementsAre("/seckill/**"));
  EXPECT_THAT(shop.match.methods, ElementsAre("POST"));
  ASSERT_EQ(shop.service.servers.size(), 2u);
  EXPECT_EQ(shop.service.servers[0].host, "127.0.0.1");
  EXPECT_EQ(shop.service.servers[0].port, 9001);
  EXPECT_EQ(shop.service.servers[1],
            (Upstream{.tls = true, .host = "::1", .port = 443, .text = "https://[::1]"}));
  EXPECT_EQ(shop.policy, "seckill");
  EXPECT_FALSE(shop.own_policy);
  using Kind = KeySource::SourceKind;
  EXPECT_EQ(shop.key,
            (std::vector<KeyPart>{{"sku", {{.kind = Kind::query, .name = "sku_id"}}},
                                  {"user", {{.kind = Kind::header, .name = "x-user-id"}}}}));
  EXPECT_EQ(shop.empty_key.deny, std::nullopt);
  EXPECT_EQ(shop.refused.body, R"({"error":"sold out, try later"})");
  EXPECT_EQ(config.routes[1].empty_key.deny, 403);
  EXPECT_EQ(config.routes[2].policy, "gateway/2");
  EXPECT_TRUE(config.routes[2].own_policy);
  EXPECT_EQ(config.routes[2].key, (std::vector<KeyPart>{{"", {{.kind = Kind::ip}}}}));
}

TEST(GatewayConfig, IsAbsentWithoutAGatewaySection) {
  const Read made = read("policies: { a: { limits: [ 1/s ] } }");
  EXPECT_FALSE(made.file.gateway);
  EXPECT_THAT(made.problems, IsEmpty());
}

TEST(GatewayConfig, HasDefaultsForAbsentFields) {
  const GatewayConfig config = good("gateway: { routes: [ { upstream: http://a } ] }");
  EXPECT_EQ(config.listen, (Endpoint{"127.0.0.1", 8080}));
  EXPECT_EQ(config.client, ClientLimits{});
  EXPECT_EQ(config.access_log, AccessLogConfig{});
  const RouteConfig& only = config.routes[0];
  EXPECT_EQ(only.policy, "");
  EXPECT_EQ(only.service.timeouts, UpstreamTimeouts{});
  EXPECT_EQ(only.service.servers[0].port, 80);
  EXPECT_EQ(only.headers, wire::HeaderStyle::ietf);
  EXPECT_EQ(only.jwt, nullptr);
  EXPECT_EQ(only.max_body, UINT64_MAX);
}

TEST(GatewayConfig, InheritsTheHeadersFieldOfTheFile) {
  const GatewayConfig config =
      good("headers: legacy\ngateway: { routes: [ { upstream: http://a } ] }");
  EXPECT_EQ(config.routes[0].headers, wire::HeaderStyle::legacy);
}

TEST(GatewayConfig, RoutesInheritDefaultsAndMayOverrideThem) {
  const GatewayConfig config = good(R"(
gateway:
  headers: scg
  timeouts: { connect: 1s, read: 5s, total: 10s }
  retries: 0
  max_body: 1MiB
  empty_key: deny 401
  refused: { status: 503, body: sorry }
  routes:
    - upstream: http://a
    - { upstream: http://a, headers: off, timeouts: { read: 1s, total: off }, max_body: off, empty_key: deny, refused: { file: sorry.html } }
)");
  const RouteConfig& first = config.routes[0];
  EXPECT_EQ(first.headers, wire::HeaderStyle::scg);
  EXPECT_EQ(first.service.timeouts, (UpstreamTimeouts{1s, 5s, 10s}));
  EXPECT_EQ(first.service.retries, 0);
  EXPECT_EQ(first.max_body, 1u << 20);
  EXPECT_EQ(first.empty_key.deny, 401);
  EXPECT_EQ(first.refused.status, 503);
  const RouteConfig& second = config.routes[1];
  EXPECT_EQ(second.headers, wire::HeaderStyle::off);
  EXPECT_EQ(second.service.timeouts, (UpstreamTimeouts{1s, 1s, kForever}));
  EXPECT_EQ(second.max_body, UINT64_MAX);
  EXPECT_EQ(second.empty_key.deny, 403);
  EXPECT_EQ(second.refused.status, 429);
  EXPECT_EQ(second.refused.body, "<h1>sorry</h1>");
  EXPECT_EQ(second.refused.content_type, "text/html; charset=utf-8");
}

TEST(GatewayConfig, ReadsTheSettingsOfClientConnections) {
  const GatewayConfig config = good(R"(
gateway:
  tls: { cert: a.pem, key: b.pem }
  http2: false
  client_from: forwarded
  max_header: 8KiB
  max_header_count: 50
  max_connections: 100
  client_timeouts: { header: 5s, body: 6s, idle: 7s, send: 8s }
  access_log: { file: stdout, format: json }
  routes: [ { upstream: http://a } ]
)");
  EXPECT_EQ(config.tls->cert, "a.pem");
  EXPECT_FALSE(config.http2);
  EXPECT_EQ(config.client_from, ClientFrom::forwarded);
  EXPECT_EQ(config.client, (ClientLimits{8192, 50, 100, 5s, 6s, 7s, 8s}));
  EXPECT_EQ(config.access_log, (AccessLogConfig{"stdout", true}));
  EXPECT_TRUE(good("gateway: { routes: [ { upstream: http://a } ] }").http2);
  EXPECT_EQ(good("gateway: { access_log: a.log, routes: [ { upstream: http://a } ] }").access_log,
            (AccessLogConfig{"a.log", false}));
}

TEST(GatewayConfig, ReadsTheSettingsOfServices) {
  const ServiceConfig service =
      route(
          "balance: least_connections, retries: 3, idle_connections: 5, health: { "
          "passive: { failures: 5, for: 1min }, active: { path: /up, every: 1s, "
          "timeout: 500ms, healthy: 1, unhealthy: 4, status: 200-204 } }")
          .service;
  EXPECT_EQ(service.balance, LoadBalancing::least_connections);
  EXPECT_EQ(service.retries, 3);
  EXPECT_EQ(service.idle_connections, 5u);
  EXPECT_EQ(service.health.passive, (HealthCheckConfig::Passive{5, 60s}));
  EXPECT_EQ(service.health.active, (HealthCheckConfig::Active{"/up", 1s, 500ms, 1, 4, 200, 204}));
  EXPECT_EQ(route("health: { active: /up }").service.health.active,
            HealthCheckConfig::Active{.path = "/up"});
  EXPECT_EQ(route("health: off").service.health.passive, std::nullopt);
  EXPECT_EQ(route("health: { passive: off }").service.health.passive, std::nullopt);
}

TEST(GatewayConfig, ReadsAllKindsOfKeySources) {
  using Kind = KeySource::SourceKind;
  const auto key = [](const std::string& text) {
    return route("jwt: { verify: off }, policy: p, key: " + text).key.at(0).sources;
  };
  EXPECT_THAT(key("ip"), ElementsAre(KeySource{.kind = Kind::ip, .v4_bits = 32, .v6_bits = 64}));
  EXPECT_THAT(key("ip/24"), ElementsAre(KeySource{.v4_bits = 24, .v6_bits = 64}));
  EXPECT_THAT(key("ip/48"), ElementsAre(KeySource{.v4_bits = 32, .v6_bits = 48}));
  EXPECT_THAT(key("ip/24/56"), ElementsAre(KeySource{.v4_bits = 24, .v6_bits = 56}));
  EXPECT_THAT(key("header:X-User"), ElementsAre(KeySource{.kind = Kind::header, .name = "x-user"}));
  EXPECT_THAT(key("'query:a b'"), ElementsAre(KeySource{.kind = Kind::query, .name = "a b"}));
  EXPECT_THAT(key("cookie:Session"),
              ElementsAre(KeySource{.kind = Kind::cookie, .name = "Session"}));
  EXPECT_THAT(key("segment:2"), ElementsAre(KeySource{.kind = Kind::segment, .segment = 2}));
  EXPECT_THAT(key("jwt:https://a/b"),
              ElementsAre(KeySource{.kind = Kind::jwt, .name = "https://a/b"}));
  EXPECT_THAT(key("const:all"), ElementsAre(KeySource{.kind = Kind::constant, .name = "all"}));
  EXPECT_THAT(key("[ host, method, path ]"),
              ElementsAre(KeySource{.kind = Kind::host}, KeySource{.kind = Kind::method},
                          KeySource{.kind = Kind::path}));
}

TEST(GatewayConfig, RefusesInvalidKeySources) {
  const auto flaw = [](const std::string& key) { return wrong("policy: p, key: " + key).at(0); };
  EXPECT_THAT(flaw("ipp"), HasSubstr("(did you mean \"ip\"?)"));
  EXPECT_THAT(flaw("header"), HasSubstr("header needs an argument"));
  EXPECT_THAT(flaw("ip/0"), HasSubstr("ip/24 for IPv4"));
  EXPECT_THAT(flaw("ip/129"), HasSubstr("ip/24 for IPv4"));
  EXPECT_THAT(flaw("ip/33/64"), HasSubstr("ip/24 for IPv4"));
  EXPECT_THAT(flaw("ip:24"), HasSubstr("a key is made of"));
  EXPECT_THAT(flaw("path/2"), HasSubstr("a key is made of"));
  EXPECT_THAT(flaw("path:2"), HasSubstr("path takes no argument"));
  EXPECT_THAT(flaw("segment:0"), HasSubstr("counted from 1"));
  EXPECT_THAT(flaw("'header:a b'"), HasSubstr("not the name of a header"));
  EXPECT_THAT(flaw("[]"), HasSubstr("at least one"));
  EXPECT_THAT(flaw("{ a: b }"), HasSubstr("must be a non-empty text or a list of such texts"));
  EXPECT_THAT(flaw("[ip, ip, ip, ip, ip, ip, ip, ip, ip]"), HasSubstr("at most 8"));
}

TEST(GatewayConfig, ReadsCosts) {
  EXPECT_EQ(route("cost: 5").cost, (RequestCost{.fixed = 5}));
  EXPECT_EQ(route("cost: header:X-Cost").cost,
            (RequestCost{.kind = RequestCost::CostKind::header, .header = "x-cost"}));
  EXPECT_EQ(route("cost: { header: X-Cost, fixed: 2, most: 9 }").cost,
            (RequestCost{
                .kind = RequestCost::CostKind::header, .fixed = 2, .header = "x-cost", .most = 9}));
  EXPECT_EQ(route("cost: bytes").cost.kind, RequestCost::CostKind::bytes);
  EXPECT_THAT(wrong("cost: 0"), ElementsAre(HasSubstr("\"cost\" is from 1")));
  EXPECT_THAT(wrong("cost: much"), ElementsAre(HasSubstr("a number from 1, header:NAME or bytes")));
  EXPECT_THAT(wrong("cost: { most: 5 }"), ElementsAre(HasSubstr("\"cost\" needs a header")));
}

TEST(GatewayConfig, ReadsHowKeysAreLogged) {
  const auto logged = [](const std::string& fields) {
    return read("gateway: { access_log: { file: a.log" + fields +
                " }, routes: [ { upstream: http://a } ] }")
        .file.gateway->access_log.key;
  };
  EXPECT_EQ(logged(""), KeyLogging::off);
  EXPECT_EQ(logged(", key: hashed"), KeyLogging::hashed);
  EXPECT_EQ(logged(", key: plain"), KeyLogging::plain);
}

TEST(GatewayConfig, ReadsBandwidths) {
  const RouteConfig paced = route("bandwidth: 10MB/s, name: files");
  ASSERT_TRUE(paced.bandwidth);
  EXPECT_EQ(paced.bandwidth->policy, "gateway/files/bandwidth");
  EXPECT_EQ(paced.bandwidth->key.sources, std::vector<KeySource>{KeySource{}});
  const RouteConfig keyed =
      route("policy: p, key: header:A, bandwidth: { limit: 1MB/s, of: responses }");
  EXPECT_EQ(keyed.bandwidth->key, keyed.key.front());
  EXPECT_FALSE(keyed.bandwidth->requests);
  EXPECT_TRUE(keyed.bandwidth->responses);
  EXPECT_THAT(wrong("bandwidth: 10/s"), ElementsAre(HasSubstr("at least 1024 bytes at once")));
  EXPECT_THAT(wrong("bandwidth: 10 concurrent"), ElementsAre(HasSubstr("a single rate of bytes")));
  EXPECT_THAT(wrong("bandwidth: { of: responses }"),
              testing::Contains(HasSubstr("\"bandwidth\" needs a limit")));
}

TEST(GatewayConfig, ReadsTheRepliesToDeniedRequests) {
  EXPECT_EQ(route("refused: { body: '' }").refused.body, "");
  EXPECT_EQ(route("refused: { body: sorry }").refused.content_type, "text/plain; charset=utf-8");
  EXPECT_EQ(route("refused: { body: '{}' }").refused.content_type, "application/json");
  const RefusalConfig redirect = route("refused: { redirect: 'https://a/b' }").refused;
  EXPECT_EQ(redirect.status, 302);
  EXPECT_EQ(redirect.redirect, "https://a/b");
  EXPECT_EQ(route("refused: { redirect: /wait, status: 307 }").refused.status, 307);
  const RefusalConfig degraded = route("retries: 4, refused: { fallback: 'http://b:81' }").refused;
  ASSERT_NE(degraded.fallback, nullptr);
  EXPECT_EQ(degraded.fallback->servers[0].port, 81);
  EXPECT_EQ(degraded.fallback->retries, 4);
  EXPECT_EQ(route("refused: { headers: { X-A: b, Retry-After: 9 } }").refused.headers,
            (std::vector<HeaderLine>{{"X-A", "b"}, {"Retry-After", "9"}}));
}

TEST(GatewayConfig, ReadsTheRepliesOfSingleLimits) {
  const std::string limits = "limits: [ { limit: 1/s, name: user }, 2/s ], key: ip, ";
  const RefusalConfig refused =
      route(limits +
            "refused: { body: later, limits: { user: { status: 200, body: sold out }, 1: "
            "{ redirect: /wait }, block: { status: 403 } } }")
          .refused;
  EXPECT_EQ(refused.body, "later");
  ASSERT_EQ(refused.by_limit.size(), 3u);
  EXPECT_EQ(refused.by_limit.at("user")->status, 200);
  EXPECT_EQ(refused.by_limit.at("user")->body, "sold out");
  EXPECT_EQ(refused.by_limit.at("1")->status, 302);
  EXPECT_THAT(wrong(limits + "refused: { limits: { usr: {} } }"),
              ElementsAre(HasSubstr("has no limit \"usr\" (did you mean \"user\"?)")));
  EXPECT_THAT(wrong(limits + "refused: { limits: { user: { fallback: http://b } } }"), SizeIs(1));
  EXPECT_THAT(wrong("refused: { limits: [ a ] }"), ElementsAre(HasSubstr("map from names")));
}

TEST(GatewayConfig, RefusesInvalidReplies) {
  EXPECT_THAT(wrong("refused: { body: }"), ElementsAre(HasSubstr("\"body\" is a text, not ")));
  EXPECT_THAT(wrong("refused: { status: 201 }"), ElementsAre(HasSubstr("from 400 to 599")));
  EXPECT_THAT(wrong("refused: { redirect: /a, status: 200 }"),
              ElementsAre(HasSubstr("from 300 to 399")));
  EXPECT_THAT(wrong("refused: { file: none.html }"),
              ElementsAre(HasSubstr("cannot open none.html")));
  EXPECT_THAT(wrong("refused: { file: large.txt }"), ElementsAre(HasSubstr("more than 1MiB")));
  EXPECT_THAT(wrong("refused: { file: sorry.html, body: a }"),
              ElementsAre(HasSubstr("one of them is enough")));
  EXPECT_THAT(wrong("refused: { redirect: 'javascript:x' }"),
              ElementsAre(HasSubstr("\"redirect\" is https://")));
  EXPECT_THAT(wrong(R"(refused: { redirect: "/a\r\nSet-Cookie: x" })"),
              ElementsAre(HasSubstr("\"redirect\" is https://")));
  EXPECT_THAT(wrong(R"(refused: { headers: { X-A: "b\r\nX-B: c" } })"),
              ElementsAre(HasSubstr("one line of text")));
  EXPECT_THAT(wrong("refused: { headers: { Content-Length: 5 } }"),
              ElementsAre(HasSubstr("written by the gateway")));
  EXPECT_THAT(wrong("refused: { content_type: a/b }"),
              ElementsAre(HasSubstr("no effect without body or file")));
}

TEST(GatewayConfig, RefusesInvalidMatchRules) {
  const auto flaw = [](const std::string& match) {
    return wrong("match: { " + match + " }").at(0);
  };
  EXPECT_THAT(flaw("path: a"), HasSubstr("starts with a slash"));
  EXPECT_THAT(flaw("path: '/a?b'"), HasSubstr("no query"));
  EXPECT_THAT(flaw("path: /a**"), HasSubstr("whole segments"));
  EXPECT_THAT(flaw("path: /***"), HasSubstr("whole segments"));
  EXPECT_THAT(flaw("path: /a/../b"), HasSubstr("resolved before"));
  EXPECT_THAT(flaw("path: //b"), HasSubstr("resolved before"));
  EXPECT_THAT(flaw("path: /a%2Fb"), HasSubstr("in different ways"));
  EXPECT_THAT(flaw("path: /%2A"), HasSubstr("resolved before"));
  EXPECT_THAT(flaw("host: 'a:80'"), HasSubstr("a name without port"));
  EXPECT_THAT(flaw("host: 'a.*.b'"), HasSubstr("a name without port"));
  EXPECT_THAT(flaw("method: get"), HasSubstr("in upper case"));
  EXPECT_THAT(flaw("pth: /a"), HasSubstr("did you mean \"path\"?"));
  EXPECT_THAT(route("match: { path: [ /caf%C3%A9, /b/ ], host: ['*.A.com', '[::1]'] }").match.paths,
              ElementsAre("/caf\xc3\xa9", "/b"));
}

TEST(GatewayConfig, RefusesUnknownPoliciesAndMissingKeys) {
  EXPECT_THAT(wrong("policy: q, key: ip"), ElementsAre(HasSubstr("there is no policy \"q\"")));
  EXPECT_THAT(wrong("policy: p"), ElementsAre(HasSubstr("this route has limits but no key")));
  EXPECT_THAT(wrong("policy: p, limits: [ 1/s ], key: ip"),
              ElementsAre(HasSubstr("one of them is enough")));
  EXPECT_THAT(wrong("policy: p, key: ip, parts: { a: ip }"),
              ElementsAre(HasSubstr("key or parts")));
  EXPECT_THAT(wrong("key: ip"), ElementsAre(HasSubstr("a key without limits counts nothing")));
  EXPECT_THAT(wrong("policy: p, key: ip, shadow: true"),
              ElementsAre(HasSubstr("\"shadow\" belongs to limits")));
}

TEST(GatewayConfig, RefusesLimitsByPartsWithoutASource) {
  EXPECT_THAT(
      wrong("limits: [ { limit: 1/s, by: [ user, sku ] } ], parts: { user: ip }"),
      ElementsAre(HasSubstr(
          "its limits count by sku: write parts: { sku: header:X-sku, user: header:X-user }")));
  EXPECT_THAT(wrong("limits: [ { limit: 1/s, by: user } ], key: ip"),
              ElementsAre(HasSubstr("by user: write parts: { user: header:X-user }")));
  EXPECT_THAT(wrong("limits: [ { limit: 1/s, by: user } ]"),
              ElementsAre(HasSubstr("this route has limits but no key: write parts: { user:")));
  // More parts than needed are allowed: other limits may count by the whole key.
  EXPECT_EQ(
      route("limits: [ { limit: 1/s, by: user }, 5/s ], parts: { user: ip, sku: path }").key.size(),
      2u);
  // Limits of overrides and of schedules count as well.
  EXPECT_THAT(wrong("limits: [ 1/s ], overrides: { vip: { limit: 5/s, by: user } }, key: ip"),
              ElementsAre(HasSubstr("by user")));
}

TEST(GatewayConfig, ReadsHowTokensAreVerified) {
  const RouteConfig verified = route(
      "policy: p, key: jwt:sub, jwt: { key: a secret of more than thirty-two bytes, "
      "leeway: 5s, issuer: i, audience: a, cookie: token }");
  ASSERT_NE(verified.jwt, nullptr);
  EXPECT_EQ(verified.jwt->rules().keys.size(), 1u);
  EXPECT_EQ(verified.jwt->rules().leeway, 5s);
  EXPECT_EQ(verified.jwt->rules().cookie, "token");
  // The jwt settings are dropped if no key has a claim.
  EXPECT_EQ(route("policy: p, key: ip, jwt: { key: a secret of more than thirty-two bytes }").jwt,
            nullptr);
  EXPECT_THAT(read("gateway: { routes: [ { upstream: http://a, jwt: { key: short } } ] }").warnings,
              ElementsAre(HasSubstr("a secret of 5 bytes can be guessed")));
  EXPECT_THAT(wrong("jwt: { issuer: i }"), ElementsAre(HasSubstr("write key: or key_file:")));
  EXPECT_THAT(wrong("jwt: {}"), ElementsAre(HasSubstr("nothing verifies these tokens")));
  EXPECT_THAT(wrong("jwt: { key_file: none.pem }"), ElementsAre(HasSubstr("cannot open none.pem")));
  EXPECT_THAT(wrong("jwt: { key: a, key_file: b }"), ElementsAre(HasSubstr("either key")));
  EXPECT_THAT(wrong("jwt: { key: abc, algorithm: none }"),
              ElementsAre(HasSubstr("HS256, RS256 or ES256")));
  EXPECT_THAT(wrong("jwt: { key: abc, algorithm: RS256 }"),
              ElementsAre(HasSubstr("not a public key in PEM")));
  EXPECT_THAT(wrong("jwt: { keys: [ { key: '-----BEGIN PUBLIC KEY-----', algorithm: HS256 } ] }"),
              ElementsAre(HasSubstr("a public key must not be an HS256 secret")));
}

// A key from an unverified token is whatever the client likes.
TEST(GatewayConfig, RefusesKeysFromTokensThatNothingVerifies) {
  EXPECT_THAT(wrong("policy: p, key: jwt:sub"),
              ElementsAre(HasSubstr("write jwt: { key: … } to verify tokens")));
  EXPECT_THAT(wrong("policy: p, parts: { a: ip, b: [ ip, jwt:sub ] }"), SizeIs(1));
  EXPECT_THAT(wrong("bandwidth: { limit: 1MB/s, key: jwt:sub }"), SizeIs(1));
  const RouteConfig unverified = route("policy: p, key: jwt:sub, jwt: { verify: off }");
  ASSERT_NE(unverified.jwt, nullptr);
  EXPECT_FALSE(unverified.jwt->rules().verifies);
  EXPECT_THAT(
      read("gateway: { routes: [ { upstream: http://a, jwt: { verify: off } } ] }").warnings,
      ElementsAre(HasSubstr("tokens are not verified")));
  EXPECT_THAT(wrong("jwt: { verify: off, key: a secret of more than thirty-two bytes }"),
              ElementsAre(HasSubstr("write one or the other")));
  EXPECT_THAT(wrong("jwt: { verify: off, issuer: i }"),
              ElementsAre(HasSubstr("write one or the other")));
  EXPECT_THAT(wrong("jwt: { verify: maybe }"), SizeIs(1));
}

TEST(GatewayConfig, RefusesAPortThatTheDaemonUses) {
  EXPECT_THAT(
      read("gateway: { listen: 0.0.0.0:7380, routes: [ { upstream: http://a } ] }").problems,
      ElementsAre(HasSubstr("\"http\" of the daemon listens at 127.0.0.1:7380")));
  EXPECT_THAT(
      read("listen: { http: 127.0.0.1:8080 }\ngateway: { routes: [ { upstream: http://a } ] }")
          .problems,
      ElementsAre(HasSubstr("\"http\" of the daemon listens at 127.0.0.1:8080")));
  EXPECT_THAT(read("listen: { http: off }\ngateway: { listen: 127.0.0.1:7380, routes: [ { "
                   "upstream: http://a } ] }")
                  .problems,
              IsEmpty());
}

TEST(GatewayConfig, WarnsOfUnreachableRoutesAndOfTrustingEveryClient) {
  EXPECT_THAT(read("gateway: { routes: [ { upstream: http://a }, { match: { path: /b }, upstream: "
                   "http://b } ] }")
                  .warnings,
              ElementsAre(HasSubstr("this route is never reached")));
  EXPECT_THAT(
      read("gateway: { trusted_proxies: 0.0.0.0/0, routes: [ { upstream: http://a } ] }").warnings,
      ElementsAre(HasSubstr("every client is trusted")));
}

TEST(GatewayConfig, ReportsAllProblemsWithTheirPlaces) {
  EXPECT_THAT(read(R"(gateway:
  listn: a
  trusted_proxies: [ 10.0.0.0/33 ]
  routes:
    - upstream: 127.0.0.1:9000
      limits: [ 50/x ]
      keey: ip
    - { name: a/b, upstream: 'http://a/b', retries: 11 }
    - { name: x, upstream: [] }
    - { name: x, upstream: 'http://a:0' }
    - 5
)")
                  .problems,
              ElementsAre("2:3: \"gateway\" has no field \"listn\" (did you mean \"listen\"?)",
                          HasSubstr("3:22: \"10.0.0.0/33\" is not an address"),
                          HasSubstr("5:7: this route has limits but no key"),
                          HasSubstr("5:17: \"upstream\" is http://host:port"),
                          HasSubstr("6:20: unknown unit \"x\""),
                          "7:7: a route has no field \"keey\" (did you mean \"key\"?)",
                          HasSubstr("8:15: the name of a route"),
                          HasSubstr("8:30: \"upstream\" is a host and a port without path"),
                          "8:53: \"retries\" is from 0 to 10, not \"11\"",
                          HasSubstr("9:28: \"upstream\" is an empty list"),
                          "10:15: two routes have the name \"x\": choose another",
                          HasSubstr("10:28: no server listens on port 0"),
                          "11:7: a route is a map with match and upstream, not \"5\""));
  EXPECT_THAT(read("gateway: {}").problems, ElementsAre(HasSubstr("a gateway needs routes")));
  EXPECT_THAT(read("gateway: { routes: [] }").problems, ElementsAre(HasSubstr("not empty")));
  EXPECT_THAT(read("gateway: []").problems,
              ElementsAre(HasSubstr("is a map with routes, not a list")));
}

}  // namespace
}  // namespace weir::gateway
