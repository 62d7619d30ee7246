#include "policy/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::policy {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> lines_of(const Problems& problems) {
  std::vector<std::string> lines;
  for (const Problem& problem : problems) {
    lines.push_back(std::to_string(problem.place.line) + ":" +
                    std::to_string(problem.place.column) + ": " + problem.message);
  }
  return lines;
}

// The problems of a file, each with its position.
std::vector<std::string> wrong(const std::string& text) {
  Problems problems;
  Problems warnings;
  (void)read_config({"weir.yaml", text}, problems, warnings);
  return lines_of(problems);
}

std::string one_wrong(const std::string& text) {
  const auto all = wrong(text);
  EXPECT_EQ(all.size(), 1u) << text << testing::PrintToString(all);
  return all.empty() ? "" : all.front();
}

DaemonConfig good(const std::string& text) {
  Problems problems;
  Problems warnings;
  DaemonConfig config = read_config({"weir.yaml", text}, problems, warnings);
  EXPECT_THAT(lines_of(problems), IsEmpty()) << text;
  EXPECT_THAT(lines_of(warnings), IsEmpty()) << text;
  return config;
}

std::string text_of(const std::optional<Endpoint>& endpoint) {
  return endpoint ? endpoint->host + " " + std::to_string(endpoint->port) : "off";
}

// ---- Policies

TEST(DaemonConfig, NamesEveryPolicy) {
  EXPECT_EQ(one_wrong("policies:\n  \"\": { limits: [ 5/s ] }"),
            "2:3: the name of a policy has 1 to 256 bytes, not 0");
  const std::string policy = ": { limits: [ 5/s ] }";
  EXPECT_EQ(one_wrong("policies:\n  " + std::string(257, 'x') + policy),
            "2:3: the name of a policy has 1 to 256 bytes, not 257");
  good("policies:\n  " + std::string(256, 'x') + policy);
}

TEST(DaemonConfig, ReportsAnUnknownScopeOnce) {
  EXPECT_EQ(one_wrong("policies: { p: { limits: [ { limit: 5/s, scope: nod } ] } }"),
            "1:49: a scope is node, fleet, leased or split, not \"nod\" (did you mean \"node\"?)");
}

TEST(DaemonConfig, SuggestsAWordInTheRightCase) {
  EXPECT_THAT(one_wrong("headers: IETF"), HasSubstr("did you mean \"ietf\"?"));
}

// ---- All of it

TEST(DaemonConfig, HasADefaultForEverything) {
  const DaemonConfig config = good("policies:\n");
  EXPECT_EQ(text_of(config.listen.resp), "127.0.0.1 7379");
  EXPECT_EQ(text_of(config.listen.http), "127.0.0.1 7380");
  EXPECT_EQ(text_of(config.listen.grpc), "127.0.0.1 7381");
  EXPECT_EQ(config.store, "memory");
  EXPECT_EQ(config.store_timeout, 50ms);
  EXPECT_EQ(config.memory, std::size_t{64} << 20);
  EXPECT_EQ(config.connection_memory, std::size_t{64} << 20);
  EXPECT_EQ(config.state, "");
  EXPECT_EQ(config.password, "");
  EXPECT_EQ(config.admin_token, "");
  EXPECT_FALSE(config.tls);
  EXPECT_EQ(config.headers, wire::HeaderStyle::ietf);
  EXPECT_THAT(config.policies, IsEmpty());
}

TEST(DaemonConfig, ReadsEveryField) {
  const DaemonConfig config = good(R"(
version: 1
listen: { resp: "[::1]:6000", http: 0.0.0.0:80, grpc: off }
store: memory
store_timeout: 1.5s
memory: 1GiB
connection_memory: 128MiB
state: /var/lib/weir/state
password: secret
admin_token: 12345
server_names: [ Weir.example.com, weir ]
headers: both
x-anything: { goes: here }
policies:
  api: { limits: [ 5/s ], on_store_failure: closed, when_full: deny }
  login: { limits: 5/min }
)");
  EXPECT_EQ(text_of(config.listen.resp), "::1 6000");
  EXPECT_EQ(text_of(config.listen.http), "0.0.0.0 80");
  EXPECT_EQ(text_of(config.listen.grpc), "off");
  EXPECT_EQ(config.store_timeout, 1500ms);
  EXPECT_EQ(config.memory, std::size_t{1} << 30);
  EXPECT_EQ(config.connection_memory, std::size_t{128} << 20);
  EXPECT_EQ(config.state, "/var/lib/weir/state");
  EXPECT_EQ(config.password, "secret");
  EXPECT_EQ(config.admin_token, "12345");
  EXPECT_THAT(config.server_names, ElementsAre("weir.example.com", "weir"));
  EXPECT_EQ(config.headers, wire::HeaderStyle::both);
  ASSERT_EQ(config.policies.size(), 2u);
  EXPECT_EQ(config.policies.at("api").on_store_failure, OnStoreFailure::closed);
  EXPECT_EQ(config.policies.at("api").when_full, WhenFull::deny);
  EXPECT_EQ(config.policies.at("login").on_store_failure, OnStoreFailure::local);
}

// All problems are reported at once, in the order of the file.
TEST(DaemonConfig, TellsAllProblemsInTheOrderOfTheFile) {
  EXPECT_THAT(
      wrong(R"(headers: itef
policies:
  a: { limits: [ 5/sec ] }
memory: 5
stat: x
store: redis+cluster://127.0.0.1/1
)"),
      ElementsAre("1:10: \"headers\" is ietf, legacy, both or off, not \"itef\" (did you "
                  "mean \"ietf\"?)",
                  "3:20: unknown unit \"sec\": did you mean \"5/s\"?",
                  "4:9: \"memory\" is at least 1MiB, not \"5\": 64MiB hold 1.4 million keys",
                  "5:1: a policy file has no field \"stat\" (did you mean \"state\"?)",
                  "6:33: redis+cluster:// takes nothing after the host: write it like "
                  "redis+cluster://h1:6379,h2:6379"));
}

// Duplicate fields are found by the YAML reader, which goes on after them.
TEST(DaemonConfig, ReportsDuplicateFieldsAmongTheOtherProblems) {
  EXPECT_THAT(
      wrong("store: memroy\nstore: memory\nmemory: 5\n"),
      ElementsAre(HasSubstr("1:8: a store is"), "2:1: \"store\" is given twice, first on line 1",
                  HasSubstr("3:9: \"memory\" is at least")));
}

// These 14 KB would expand to 1.4 million limits.
TEST(DaemonConfig, BoundsTheExpansionOfAliases) {
  std::string text = "x-limits: &limits [ ";
  for (int i = 1; i <= 16; ++i) text += std::to_string(i) + "/s, ";
  text += "]\nx-overrides: &overrides { ";
  for (int i = 0; i < 300; ++i) text += "k" + std::to_string(i) + ": *limits, ";
  text += "}\npolicies:\n";
  for (int i = 0; i < 300; ++i) {
    text += "  p" + std::to_string(i) + ": { limits: *limits, overrides: *overrides }\n";
  }
  EXPECT_THAT(one_wrong(text), HasSubstr("more than 500000 values"));
}

// Thousands of customers may share one plan by alias.
TEST(DaemonConfig, TakesAliasesAsPeopleUseThem) {
  std::string text =
      "x-gold: &gold [ { limit: 5/s, name: rate }, { limit: 9/day, name: quota } ]\n";
  text += "policies:\n  api:\n    limits: *gold\n    overrides:\n";
  for (int i = 0; i < 5000; ++i) text += "      k" + std::to_string(i) + ": *gold\n";
  EXPECT_EQ(good(text).policies.at("api").overrides.size(), 5000u);
}

// A problem in an aliased node is reported once, not at each alias.
TEST(DaemonConfig, ReportsAProblemRepeatedByAnAliasOnce) {
  EXPECT_EQ(one_wrong("x-plan: &plan [ 5/sec ]\npolicies:\n  a: { limits: *plan }\n"
                      "  b: { limits: *plan }\n"),
            "1:19: unknown unit \"sec\": did you mean \"5/s\"?");
}

TEST(DaemonConfig, IsAMap) {
  EXPECT_EQ(one_wrong("- a"),
            "1:1: a policy file is a map with policies, not a list: write policies: { api: { "
            "limits: [ 100/s ] } }");
  EXPECT_EQ(one_wrong(""),
            "1:1: a policy file is a map with policies, not nothing: write policies: { api: { "
            "limits: [ 100/s ] } }");
  EXPECT_EQ(one_wrong("a: ["), "1:4: this is never closed: a ] is missing");
  EXPECT_EQ(one_wrong("policies: [ a ]"),
            "1:11: \"policies\" is a map from names to policies, not a list");
  EXPECT_EQ(one_wrong("store: memory\nstore: memory"),
            "2:1: \"store\" is given twice, first on line 1");
}

TEST(DaemonConfig, IsOfVersionOne) {
  good("version: 1");
  EXPECT_EQ(one_wrong("version: 2"),
            "1:10: \"version\" is that of the format of this file, and there is only 1, not \"2\"");
  EXPECT_THAT(one_wrong("version: 1.0"), HasSubstr("not \"1.0\""));
  EXPECT_THAT(one_wrong("version:"), HasSubstr("not nothing"));
  EXPECT_THAT(one_wrong("version: [ 1 ]"), HasSubstr("not a list"));
}

// ---- Doors

TEST(DaemonConfig, ReadsListenerAddresses) {
  EXPECT_EQ(text_of(good("listen: { resp: off }").listen.resp), "off");
  EXPECT_EQ(text_of(good("listen: { resp: localhost:1 }").listen.resp), "localhost 1");
  EXPECT_EQ(text_of(good("listen: { resp: a-b.example:65535 }").listen.resp), "a-b.example 65535");
  EXPECT_EQ(text_of(good("listen: { http: \"[::]:80\" }").listen.http), ":: 80");
  EXPECT_EQ(text_of(good("listen: { http: \"127.0.0.1:0\" }").listen.http), "127.0.0.1 0");
  // Port 0 means any free port, so two listeners with it do not conflict.
  good("listen: { http: 127.0.0.1:0, resp: 127.0.0.1:0 }");
}

TEST(DaemonConfig, ExplainsInvalidListenerAddresses) {
  const auto door = [](const std::string& text) {
    return one_wrong("listen: { resp: " + text + " }");
  };
  EXPECT_EQ(door("7379"), "1:17: \"7379\" has no host: write host:port, as in 127.0.0.1:7379");
  EXPECT_EQ(door("localhost"),
            "1:17: \"localhost\" has no port: write host:port, as in 127.0.0.1:7379");
  EXPECT_EQ(door("\":7379\""),
            "1:18: a host is missing: write 127.0.0.1 for this machine alone, or 0.0.0.0");
  EXPECT_THAT(door("\"*:7379\""), HasSubstr("a host is missing"));
  EXPECT_EQ(door("\"::1:7379\""), "1:18: write an IPv6 address in brackets, as in [::1]:7379");
  EXPECT_EQ(door("\"[::x]:7379\""), "1:18: \"::x\" is not an IPv6 address");
  EXPECT_THAT(door("\"[::1]\""), HasSubstr("has no port"));
  EXPECT_EQ(door("127.0.0.256:1"), "1:17: \"127.0.0.256\" is not an IPv4 address");
  EXPECT_EQ(door("a/b:1"), "1:17: \"a/b\" is not the name of a host");
  EXPECT_EQ(door("localhost:65536"), "1:27: a port is a number from 0 to 65535, not \"65536\"");
  EXPECT_THAT(door("localhost:-1"), HasSubstr("a port is a number"));
  EXPECT_THAT(door("\"localhost:\""), HasSubstr("a port is a number from 0 to 65535, not \"\""));
  EXPECT_EQ(door("[ off ]"), "1:17: \"resp\" is host:port or off, not a list");
  EXPECT_EQ(one_wrong("listen: off"),
            "1:9: \"listen\" is a map with resp, http, grpc, not \"off\"");
  EXPECT_EQ(one_wrong("listen: { rsp: off }"),
            "1:11: \"listen\" has no field \"rsp\" (did you mean \"resp\"?)");
}

TEST(DaemonConfig, RefusesTwoListenersOnOnePort) {
  EXPECT_EQ(one_wrong("listen: { resp: 127.0.0.1:80, http: 127.0.0.1:80 }"),
            "1:37: \"resp\" listens at 127.0.0.1:80: choose another port, or write resp: off");
  // One of the two may be a default.
  EXPECT_EQ(one_wrong("listen: { http: 127.0.0.1:7379 }"),
            "1:17: \"resp\" listens at 127.0.0.1:7379: choose another port, or write resp: off");
  EXPECT_EQ(one_wrong("listen: { resp: 127.0.0.1:7380 }"),
            "1:17: \"http\" listens at 127.0.0.1:7380: choose another port, or write http: off");
  // 0.0.0.0 covers every address.
  EXPECT_THAT(one_wrong("listen: { http: 0.0.0.0:7379 }"), HasSubstr("\"resp\" listens at"));
  EXPECT_THAT(one_wrong("listen: { resp: \"[::1]:80\", http: \"[::1]:80\" }"),
              HasSubstr("\"resp\" listens at [::1]:80"));
  good("listen: { resp: 127.0.0.1:80, http: 127.0.0.2:80 }");
  good("listen: { resp: off, http: 127.0.0.1:7379 }");
}

TEST(DaemonConfig, ReadsTheGrpcListener) {
  Problems problems;
  Problems warnings;
  const DaemonConfig config =
      read_config({"weir.yaml", "listen: { grpc: 127.0.0.1:9000 }"}, problems, warnings);
  EXPECT_THAT(lines_of(problems), IsEmpty());
  EXPECT_THAT(lines_of(warnings), IsEmpty());
  EXPECT_EQ(text_of(config.listen.grpc), "127.0.0.1 9000");
}

// ---- Stores

TEST(DaemonConfig, ReadsAddressesOfSharedStores) {
  for (const char* store :
       {"redis://127.0.0.1:6379", "redis://127.0.0.1", "redis://user:pa:ss@redis.example:6379/3",
        "rediss://:pass@[::1]:6379", "unix:///run/redis.sock", "redis+cluster://a:1,b:2",
        "redis+sentinel://a,b:26379,[::1]:1/main", "rediss+cluster://me:pass@a",
        "rediss+sentinel://a/main"}) {
    EXPECT_EQ(good(std::string{"store: "} + store).store, store);
  }
  EXPECT_EQ(sharing_of(good("store: redis://127.0.0.1")), Sharing::fleet);
  EXPECT_EQ(sharing_of(good("store: memory")), Sharing::none);
}

TEST(DaemonConfig, ExplainsInvalidStoreAddresses) {
  const auto store = [](const std::string& text) { return one_wrong("store: " + text); };
  EXPECT_EQ(store("memroy"),
            "1:8: a store is memory, redis://, rediss://, redis+sentinel://, redis+cluster:// or "
            "unix:///path, not \"memroy\" (did you mean \"memory\"?)");
  EXPECT_THAT(store("rediss:/x"), HasSubstr("did you mean \"rediss://\"?"));
  EXPECT_THAT(store("reddis://me:secret@host"),
              AllOf(HasSubstr("did you mean \"redis://\"?"), Not(HasSubstr("secret"))));
  EXPECT_THAT(store("redis://"), HasSubstr("1:16: a host is missing"));
  EXPECT_THAT(store("redis://a:x"), HasSubstr("1:18: a port is a number"));
  EXPECT_EQ(store("redis://a/main"),
            "1:17: redis:// takes the number of a database after the host: write it like "
            "redis://127.0.0.1:6379/0");
  EXPECT_EQ(store("redis://a:1,b:2"),
            "1:19: redis:// has one host: write it like redis://127.0.0.1:6379/0");
  EXPECT_THAT(store("redis+sentinel://a,b"),
              HasSubstr("takes the name of the master after the host"));
  EXPECT_THAT(store("redis+cluster://a/3"), HasSubstr("takes nothing after the host"));
  EXPECT_THAT(store("redis+cluster://a,,b"), HasSubstr("1:26: a host is missing"));
  EXPECT_EQ(store("unix://redis.sock"),
            "1:15: a path that starts with / is missing: write it like unix:///run/redis.sock");
  EXPECT_EQ(store("[ memory ]"), "1:8: \"store\" must be a non-empty text, not a list");
  EXPECT_EQ(store("\"\""), "1:8: \"store\" must be a non-empty text, not an empty one");
  EXPECT_EQ(store(""), "1:1: \"store\" must be a non-empty text, not nothing");
  EXPECT_EQ(one_wrong("memory: 1GiB\nstore:\n# none\nheaders: off\n"),
            "2:1: \"store\" must be a non-empty text, not nothing");
}

TEST(DaemonConfig, ReadsTheStoreTimeout) {
  EXPECT_EQ(good("store_timeout: 2ms").store_timeout, 2ms);
  EXPECT_THAT(one_wrong("store_timeout: 50"), HasSubstr("a time needs a unit"));
  EXPECT_EQ(one_wrong("store_timeout: 0s"),
            "1:16: \"store_timeout\" must be above zero: write one like 50ms");
  EXPECT_THAT(one_wrong("store_timeout: soon"), HasSubstr("unknown unit \"soon\""));
  EXPECT_EQ(one_wrong("store_timeout: 50 ms"),
            "1:18: write no blank between number and unit: \"50ms\"");
  for (const std::string unit : {"", "s", "m", "sec", " s"}) {
    EXPECT_LT(one_wrong("store_timeout: " + std::string(1000, '1') + unit).size(), 200u) << unit;
  }
  EXPECT_THAT(one_wrong("store_timeout: 50 parsecs"), HasSubstr("unknown unit \" parsecs\""));
  EXPECT_EQ(one_wrong("store_timeout: {}"),
            "1:16: \"store_timeout\" is a time like 50ms, not a map");
}

TEST(DaemonConfig, ReadsTheSizeOfMemory) {
  EXPECT_EQ(good("memory: 1MiB").memory, std::size_t{1} << 20);
  EXPECT_EQ(good("memory: 0.5GB").memory, 500'000'000u);
  EXPECT_EQ(good("memory: 1048576").memory, 1'048'576u);
  EXPECT_THAT(one_wrong("memory: 1048575"), HasSubstr("is at least 1MiB, not \"1048575\""));
  EXPECT_THAT(one_wrong("memory: 64mb"), HasSubstr("unknown size \"mb\""));
  EXPECT_EQ(one_wrong("memory: 64 MiB"), "1:11: write no blank between number and unit: \"64MiB\"");
  for (const std::string unit : {"", "MiB", "mb", " MiB", ".5"}) {
    EXPECT_LT(one_wrong("memory: " + std::string(1000, '1') + unit).size(), 200u) << unit;
  }
  EXPECT_THAT(one_wrong("memory: 64 mb"), HasSubstr("unknown size \" mb\""));
  EXPECT_THAT(one_wrong("memory: lots"), HasSubstr("not a number"));
  EXPECT_THAT(one_wrong("memory: -1"), HasSubstr("below zero"));
  EXPECT_THAT(one_wrong("memory: 1000000000000TiB"), HasSubstr("too large"));
  EXPECT_EQ(one_wrong("memory: []"), "1:9: \"memory\" is a size like 64MiB, not a list");
}

// ---- Texts and words

TEST(DaemonConfig, RefusesEmptyTexts) {
  for (const std::string field : {"state", "password", "admin_token"}) {
    EXPECT_THAT(one_wrong(field + ": \"\""),
                HasSubstr("\"" + field + "\" must be a non-empty text, not an empty one"));
    EXPECT_THAT(one_wrong(field + ":"),
                HasSubstr("\"" + field + "\" must be a non-empty text, not nothing"));
    EXPECT_THAT(one_wrong(field + ": { a: b }"), HasSubstr("not a map"));
  }
}

TEST(DaemonConfig, ReadsTheStyleOfHeaders) {
  EXPECT_EQ(good("headers: ietf").headers, wire::HeaderStyle::ietf);
  EXPECT_EQ(good("headers: legacy").headers, wire::HeaderStyle::legacy);
  EXPECT_EQ(good("headers: both").headers, wire::HeaderStyle::both);
  EXPECT_EQ(good("headers: off").headers, wire::HeaderStyle::off);
  EXPECT_THAT(one_wrong("headers: legcy"), HasSubstr("did you mean \"legacy\"?"));
  EXPECT_THAT(one_wrong("headers: [ off ]"), HasSubstr("not a list"));
}

TEST(ReadConfig, ReadsNamesOfHeaders) {
  EXPECT_EQ(good("headers: legacy").legacy_headers, wire::LegacyHeaders{});
  EXPECT_EQ(good("headers: {}").headers, wire::HeaderStyle::legacy);
  const DaemonConfig config =
      good("headers: { style: both, limit: RateLimit-Limit, reset: Reset-At, reset_as: epoch }");
  EXPECT_EQ(config.headers, wire::HeaderStyle::both);
  EXPECT_EQ(config.legacy_headers,
            (wire::LegacyHeaders{{"RateLimit-Limit", "X-RateLimit-Remaining", "Reset-At"}, true}));
  EXPECT_FALSE(good("headers: { reset_as: seconds }").legacy_headers.reset_is_date);
  EXPECT_THAT(one_wrong("headers: { stile: both }"), HasSubstr("did you mean \"style\"?"));
  EXPECT_THAT(one_wrong("headers: { style: bth }"), HasSubstr("did you mean \"both\"?"));
  EXPECT_THAT(one_wrong("headers: { limit: 'a b' }"), HasSubstr("the name of a header"));
  EXPECT_THAT(one_wrong("headers: { reset_as: date }"), HasSubstr("seconds or epoch"));
}

TEST(DaemonConfig, ReadsOnStoreFailure) {
  const auto word = [](const std::string& text) {
    return "policies: { a: { limits: [ 5/s ], on_store_failure: " + text + " } }";
  };
  EXPECT_EQ(good(word("open")).policies.at("a").on_store_failure, OnStoreFailure::open);
  EXPECT_EQ(good(word("local")).policies.at("a").on_store_failure, OnStoreFailure::local);
  EXPECT_EQ(one_wrong(word("close")),
            "1:53: \"on_store_failure\" is open, closed or local, not \"close\" (did you mean "
            "\"closed\"?)");
}

// ---- TLS

TEST(DaemonConfig, ReadsThePathsOfTlsFiles) {
  const DaemonConfig config = good("tls: { cert: a.pem, key: b.pem, ca: c.pem }");
  ASSERT_TRUE(config.tls);
  EXPECT_EQ(config.tls->cert, "a.pem");
  EXPECT_EQ(config.tls->key, "b.pem");
  EXPECT_EQ(config.tls->ca, "c.pem");
  EXPECT_EQ(good("tls: { cert: a.pem, key: b.pem }").tls->ca, "");
}

TEST(DaemonConfig, NeedsACertificateAndItsKeyForTls) {
  EXPECT_THAT(wrong("tls: { cert: a.pem, kye: b.pem }"),
              ElementsAre(HasSubstr("\"tls\" needs a key: write key: FILE.pem"),
                          HasSubstr("\"tls\" has no field \"kye\"")));
  EXPECT_THAT(one_wrong("tls: { key: b.pem }"), HasSubstr("\"tls\" needs a cert"));
  EXPECT_THAT(one_wrong("tls: on"), HasSubstr("\"tls\""));
}

// ---- Envoy's rules, which others read

EnvoyRatelimit envoy_of(std::string name, std::string text) {
  Problems problems;
  Problems warnings;
  EnvoyRatelimit envoy = read_config({std::move(name), std::move(text)}, problems, warnings).envoy;
  EXPECT_THAT(lines_of(problems), IsEmpty());
  return envoy;
}

TEST(DaemonConfig, ResolvesThePathOfEnvoysRulesFromItsFolder) {
  EXPECT_EQ(envoy_of("weir.yaml", "envoy_ratelimit: rules").path, "rules");
  EXPECT_EQ(envoy_of("/etc/weir/weir.yaml", "envoy_ratelimit: rules").path, "/etc/weir/rules");
  EXPECT_EQ(envoy_of("/etc/weir/weir.yaml", "envoy_ratelimit: /srv/r.yaml").path, "/srv/r.yaml");
  EXPECT_EQ(envoy_of("weir.yaml", "memory: 8MiB").path, "");
}

TEST(DaemonConfig, ReadsTheSettingsOfEnvoysRules) {
  const EnvoyRatelimit usual = envoy_of("weir.yaml", "envoy_ratelimit: rules");
  EXPECT_FALSE(usual.as_envoyproxy || usual.merge_domains || usual.response_headers ||
               usual.dynamic_metadata || usual.shadow_mode || usual.quota_mode);
  EXPECT_EQ(usual.on_store_failure, OnStoreFailure::error);
  const EnvoyRatelimit all = envoy_of("weir.yaml",
                                      "compat: envoyproxy\nenvoy_ratelimit: { path: rules, "
                                      "on_store_failure: closed, merge_domains: "
                                      "true, response_headers: true, dynamic_metadata: true, "
                                      "shadow_mode: true, quota_mode: true }");
  EXPECT_EQ(all, (EnvoyRatelimit{.path = "rules",
                                 .as_envoyproxy = true,
                                 .merge_domains = true,
                                 .response_headers = true,
                                 .dynamic_metadata = true,
                                 .shadow_mode = true,
                                 .quota_mode = true,
                                 .on_store_failure = OnStoreFailure::closed}));
}

TEST(DaemonConfig, ReadsNamesOfResponseHeadersForEnvoy) {
  const auto headers = [](const std::string& said) {
    return envoy_of("weir.yaml",
                    "envoy_ratelimit: { path: rules, response_headers: " + said + " }");
  };
  EXPECT_TRUE(headers("{}").response_headers);
  EXPECT_EQ(headers("{}").header_names, wire::HeaderNames{});
  EXPECT_FALSE(headers("false").response_headers);
  const EnvoyRatelimit some = headers("{ limit: X-Limit, reset: x_reset~1 }");
  EXPECT_TRUE(some.response_headers);
  EXPECT_EQ(some.header_names, (wire::HeaderNames{.limit = "X-Limit", .reset = "x_reset~1"}));
  EXPECT_EQ(headers("{ remaining: left }").header_names.remaining, "left");
}

TEST(DaemonConfig, RefusesInvalidHeaderNames) {
  const auto wrong = [](const std::string& said) {
    return one_wrong("envoy_ratelimit: { path: rules, response_headers: " + said + " }");
  };
  for (const char* name : {"'X Limit'", "'X-Limit:'", "''", "'\u00e4'", "[]", "null"}) {
    EXPECT_THAT(wrong("{ limit: " + std::string{name} + " }"),
                HasSubstr("\"limit\" is the name of a header like X-RateLimit-Limit, not "))
        << name;
  }
  EXPECT_THAT(wrong("{ limit: " + std::string(257, 'x') + " }"), HasSubstr("name of a header"));
  EXPECT_THAT(wrong("{ limits: X-Limit }"), HasSubstr("did you mean \"limit\"?"));
  EXPECT_THAT(wrong("yes"), HasSubstr("\"response_headers\" is true or false, not \"yes\""));
  EXPECT_THAT(wrong("[]"),
              HasSubstr("\"response_headers\" is a map with limit, remaining, reset, not a list"));
}

TEST(DaemonConfig, ExplainsInvalidSettingsOfEnvoysRules) {
  EXPECT_THAT(one_wrong("envoy_ratelimit: []"),
              HasSubstr("\"envoy_ratelimit\" must be a non-empty text"));
  EXPECT_THAT(one_wrong("envoy_ratelimit: {}"), HasSubstr("needs a path"));
  EXPECT_THAT(one_wrong("envoy_ratelimit: { path: a, merge_domain: true }"),
              HasSubstr("did you mean \"merge_domains\"?"));
  EXPECT_THAT(one_wrong("envoy_ratelimit: { path: a, on_store_failure: shut }"),
              HasSubstr("on_store_failure"));
  EXPECT_THAT(one_wrong("compat: envoy\nenvoy_ratelimit: a"),
              HasSubstr("\"compat\" is envoyproxy, not \"envoy\""));
}

// ---- Scopes

// A renewal must find all permits of the holder, which only a single store can decide.
TEST(DaemonConfig, RefusesTwoScopesBesideAConcurrentLimit) {
  const std::string redis = "store: redis://127.0.0.1:6379\npolicies: { a: { limits: ";
  EXPECT_EQ(
      one_wrong(redis + "[ 8 concurrent, { limit: 5/s, scope: node } ] } }"),
      "2:26: all limits beside a concurrent limit need its scope: write the same scope for all");
  good(redis + "[ 8 concurrent, 5/s, { limit: 9/s, scope: fleet } ] } }");
  good(redis + "[ { limit: 8 concurrent, scope: node }, { limit: 5/s, scope: node } ] } }");
  good(redis + "[ 9/s, { limit: 5/s, scope: node } ] } }");
}

TEST(DaemonConfig, RefusesScopeLeasedForLimitsThatCannotBeLeased) {
  const std::string redis = "store: redis://127.0.0.1:6379\npolicies: { a: { limits: [ ";
  EXPECT_THAT(one_wrong(redis + "{ limit: 5/s queue 9, scope: leased } ] } }"),
              testing::AllOf(testing::StartsWith("2:28: "), testing::HasSubstr("cannot be leased"),
                             testing::HasSubstr("write scope: fleet")));
  EXPECT_EQ(
      one_wrong(redis + "{ limit: 8 concurrent }, { limit: 5/s, scope: leased } ] } }"),
      "2:26: all limits beside a concurrent limit need its scope: write the same scope for all");
}

TEST(DaemonConfig, RefusesScopeSplitForLimitsThatCannotBeSplit) {
  const std::string redis = "store: redis://127.0.0.1:6379\npolicies: { a: { limits: [ { limit: ";
  for (const std::string limit : {"5/s", "5/s queue 9", "5/s window", "5/s window from first",
                                  "5/s sliding", "5/s sliding exact", "5/day"}) {
    good(redis + limit + ", scope: split } ] } }");
  }
  for (const std::string limit : {"5/s smooth", "5/s warmup 1s", "5 concurrent"}) {
    EXPECT_EQ(one_wrong(redis + limit + ", scope: split } ] } }"),
              "2:28: this kind of limit cannot be split among nodes, only buckets, queues, windows "
              "and quotas can: write scope: fleet or scope: node");
  }
  EXPECT_THAT(wrong(redis + "5/s queue 9, like: nginx, scope: split } ] } }"),
              ElementsAre(HasSubstr("cannot be split")));
  good(redis + "5/s, scope: split }, { limit: 5/s, scope: node }, 5/s ] } }");
}

TEST(DaemonConfig, RefusesScopesThatNeedASharedStore) {
  good("policies: { a: { limits: [ { limit: 5/s, scope: node } ] } }");
  EXPECT_EQ(one_wrong("policies: { a: { limits: [ { limit: 5/s, scope: fleet } ] } }"),
            "1:49: scope fleet needs a store that nodes share: write store: "
            "redis://127.0.0.1:6379, or scope: node");
  good(
      "store: redis://127.0.0.1:6379\npolicies: { a: { limits: [ { limit: 5/s, scope: fleet } ] } "
      "}");
  for (const std::string scope : {"leased", "split"}) {
    EXPECT_EQ(
        one_wrong("policies: { a: { limits: [ { limit: 5/s, scope: " + scope + " } ] } }"),
        "1:49: scope " + scope +
            " needs a store that nodes share: write store: redis://127.0.0.1:6379, or scope: node");
  }
  good(
      "store: redis://127.0.0.1:6379\npolicies: { a: { limits: [ { limit: 5/s, scope: leased }, { "
      "limit: 5/day, scope: leased } ] } }");
  // In overrides and schedules, too.
  EXPECT_EQ(wrong(R"(
policies:
  a:
    limits: { limit: 5/s, scope: fleet }
    overrides:
      one: { limit: 5/s, scope: fleet }
      many: [ 5/s, { limit: 5/s, scope: fleet } ]
      map: { limits: [ { limit: 5/s, scope: fleet } ] }
    schedule:
      - { days: mon, limits: [ { limit: 5/s, scope: fleet } ] }
)")
                .size(),
            5u);
}

// Timelines and library users read the policies of a file that is written for the daemon.
TEST(ReadPolicies, IgnoresAllOtherSettings) {
  Problems problems;
  const PolicySet set = read_policies({"weir.yaml", R"(
store: redis://127.0.0.1:6379
tls: { cert: a, key: b }
gateway: {}
compat: envoyproxy
envoy_ratelimit: limits.yaml
listen: { grpc: 0.0.0.0:7381 }
policies:
  a: { limits: [ { limit: 5/s, scope: fleet } ] }
)"},
                                      problems);
  EXPECT_THAT(lines_of(problems), IsEmpty());
  EXPECT_EQ(set.at("a").limits[0].scope, Scope::fleet);
  // Mistakes are still reported.
  read_policies({"weir.yaml", "store: memroy"}, problems);
  EXPECT_THAT(lines_of(problems), ElementsAre(HasSubstr("did you mean \"memory\"?")));
}

// ---- Limits of routes

// Inline policies of routes are ordinary policies, so read_policies returns them.
TEST(DaemonConfig, HasThePoliciesOfRoutes) {
  Problems problems;
  const PolicySet set = read_policies({"weir.yaml", R"(
gateway:
  routes:
    - { name: shop, limits: [ 5/s, 3 concurrent ], on_store_failure: closed, upstream: anything }
    - { limits: { limit: 7/s, by: user }, bandwidth: 10MB/s }
    - { policy: a, bandwidth: { limit: 1MB/s burst 2MB, key: ip } }
policies:
  a: { limits: [ 1/s ] }
)"},
                                      problems);
  EXPECT_THAT(lines_of(problems), IsEmpty());
  EXPECT_EQ(set.size(), 5u);
  EXPECT_EQ(set.at("gateway/shop").limits.size(), 2u);
  EXPECT_EQ(set.at("gateway/shop").on_store_failure, OnStoreFailure::closed);
  EXPECT_EQ(set.at("gateway/1").limits[0].by, std::vector<std::string>{"user"});
  EXPECT_EQ(core::capacity(set.at("gateway/1/bandwidth").limits[0].limit), 10'000'000);
  EXPECT_EQ(core::capacity(set.at("gateway/2/bandwidth").limits[0].limit), 2'000'000);
}

TEST(DaemonConfig, ExplainsInvalidLimitsOfRoutes) {
  EXPECT_EQ(one_wrong("gateway: { routes: [ { limits: [ 5/x ] } ] }"),
            "1:36: unknown unit \"x\" (did you mean \"s\"?): a time is written like 10s, 5min, 1h, "
            "250ms");
  EXPECT_THAT(one_wrong("gateway: { routes: [ { limits: [ { limit: 1/s, scope: fleet } ] } ] }"),
              HasSubstr("scope fleet needs a store that nodes share"));
  EXPECT_THAT(one_wrong("policies: { gateway/0: { limits: [ 1/s ] } }\n"
                        "gateway: { routes: [ { limits: [ 1/s ] } ] }"),
              HasSubstr("there is a policy \"gateway/0\" already"));
  EXPECT_THAT(one_wrong("gateway: on"), HasSubstr("\"gateway\" is a map with routes, not \"on\""));
}

// ---- One policy

TEST(OnePolicy, IsReadFromYamlAndJson) {
  for (const char* text : {"limits: [ 5/s, 100/h ]\nwhen_full: deny\n",
                           R"({"limits": ["5/s", {"limit": "100/h"}], "when_full": "deny"})"}) {
    Problems problems;
    const Policy policy = read_policy(Source{"api", text}, Sharing::none, problems);
    EXPECT_THAT(lines_of(problems), IsEmpty()) << text;
    EXPECT_EQ(policy.limits.size(), 2u);
    EXPECT_EQ(policy.when_full, WhenFull::deny);
  }
}

TEST(OnePolicy, ReportsProblemsWithPositions) {
  const auto problems_of = [](const char* text) {
    Problems problems;
    (void)read_policy(Source{"api", text}, Sharing::none, problems);
    return lines_of(problems);
  };
  EXPECT_THAT(
      problems_of(R"({"limits": ["5/sec"], "wen_full": "deny"})"),
      ElementsAre("1:16: unknown unit \"sec\": did you mean \"5/s\"?",
                  "1:23: a policy has no field \"wen_full\" (did you mean \"when_full\"?)"));
  EXPECT_THAT(problems_of("limits: [ { limit: 5/s, scope: split } ]"),
              ElementsAre(HasSubstr("scope split needs a store")));
  EXPECT_THAT(problems_of("5/s"), ElementsAre("1:1: a policy is a map with limits, not \"5/s\""));
  EXPECT_THAT(problems_of("{"), ElementsAre("1:1: this is never closed: a } is missing"));
}

}  // namespace
}  // namespace weir::policy
