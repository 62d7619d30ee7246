// Authentication and authorization of the HTTP and RESP listeners, for calls from this machine and
// from others.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "feed.h"
#include "server/browser_guard.h"
#include "server/http_session.h"
#include "server/resp_session.h"
#include "test_server.h"
#include "weir/quota.h"

namespace weir::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const net::Peer kLocal{.address = "127.0.0.1", .loopback = true};
const net::Peer kRemote{.address = "10.0.0.1", .loopback = false};

class AccessTest : public testing::Test {
 protected:
  static PolicySet some_policies() {
    PolicySet set;
    set.add("p", Limit::window(10, std::chrono::hours{1}));
    return set;
  }

  TestServer server{some_policies()};
  ServerContext& context = server.context;
};

// ---- HTTP

struct Ask {
  std::string_view method = "POST";
  std::string_view path = "/v1/take";
  std::string_view body = R"({"policy":"p","key":"k"})";
};

constexpr Ask kTake;
constexpr Ask kAdminVerbs[] = {
    {.path = "/v1/reset"},
    {.path = "/v1/settle", .body = R"({"policy":"p","key":"k","delta":1})"},
    {.method = "PUT", .path = "/v1/policies/q", .body = R"({"limits":["1/s"]})"},
    {.path = "/v1/boost", .body = R"({"policy":"q","times":2,"for":"1h"})"},
    {.path = "/v1/block", .body = R"({"policy":"q","key":"b","for":"1h"})"},
    {.path = "/v1/pause", .body = R"({"policy":"q","for":"1h"})"},
    {.path = "/v1/squeeze", .body = R"({"times":0.5,"for":"1h"})"},
    {.method = "DELETE", .path = "/v1/policies/q"},
    {.method = "GET", .path = "/v1/orders", .body = ""},
};

class HttpAccess : public AccessTest {
 protected:
  // Returns the status; `response` has the whole response. Each of `fields` ends with a CRLF.
  int ask(const Ask& what, std::string_view fields = {}, const net::Peer& peer = kLocal,
          std::string_view host = "127.0.0.1:7380") {
    std::string text;
    text.append(what.method).append(" ").append(what.path).append(" HTTP/1.1\r\nHost: ");
    text.append(host).append("\r\n").append(fields);
    text += "Content-Length: " + std::to_string(what.body.size()) + "\r\n\r\n";
    text.append(what.body);
    HttpSession session(context, peer);
    response.clear();
    session.on_input(text, response);
    EXPECT_THAT(response, StartsWith("HTTP/1.1 "));
    return std::stoi(response.substr(9));
  }

  std::string response;
};

TEST_F(HttpAccess, RefusesCallsWithoutThePassword) {
  context.access.password = "sesame";
  for (const std::string_view wrong :
       {"", "Authorization: Bearer sesam\r\n", "Authorization: Bearer sesame2\r\n",
        "Authorization: Bearer Sesame\r\n", "Authorization: Bearer \r\n",
        "Authorization: Bearer\r\n", "Authorization: sesame\r\n",
        "Authorization: Basic c2VzYW1l\r\n", "Authorization: Basic sesame\r\n",
        "X-Authorization: Bearer sesame\r\n",
        "Authorization: Bearer x\r\nAuthorization: Bearer sesame\r\n"}) {
    EXPECT_EQ(ask(kTake, wrong), 401) << wrong;
    EXPECT_THAT(response, HasSubstr("\r\nWWW-Authenticate: Bearer\r\n"));
  }
  EXPECT_EQ(ask(kTake, "Authorization: Bearer sesame\r\n", kRemote), 200);
  EXPECT_EQ(ask({.path = "/v1/peek"}, "Authorization: bEARER sesame\r\n", kRemote), 200);
  EXPECT_THAT(response, HasSubstr("\"remaining\":9,")) << "a refused call has taken something";
}

// Also from this machine.
TEST_F(HttpAccess, RequiresThePasswordOnEveryPathButHealthChecks) {
  context.access.password = "sesame";
  for (const std::string_view path : {"/", "/metrics", "/v1/policies", "/v1/auth?policy=p&key=k"}) {
    EXPECT_EQ(ask({.method = "GET", .path = path, .body = ""}), 401) << path;
  }
  for (const std::string_view path : {"/v1/peek", "/v1/enter", "/v1/leave", "/v1/explain",
                                      "/v1/throttle", "/v1/settle", "/v1/reset"}) {
    EXPECT_EQ(ask({.path = path}), 401) << path;
  }
  for (const std::string_view path : {"/healthz", "/readyz", "/healthcheck"}) {
    EXPECT_EQ(ask({.method = "GET", .path = path, .body = ""}), 200) << path;
  }
}

// Otherwise a client without rights could fill the memory.
TEST_F(HttpAccess, RefusesAnUnauthorizedRequestBeforeItsBody) {
  context.access.password = "sesame";
  for (const std::string_view path : {"/v1/take", "/v1/policies/q", "/metrics", "/nowhere"}) {
    for (const std::string_view length :
         {"Content-Length: 1000000\r\n", "Transfer-Encoding: chunked\r\n",
          "Content-Length: 1000000\r\nExpect: 100-continue\r\n"}) {
      HttpSession session(context, kRemote);
      std::string out;
      const auto head = fmt::format("POST {} HTTP/1.1\r\nHost: a\r\n{}\r\n", path, length);
      session.on_input(head, out);
      EXPECT_THAT(out, StartsWith("HTTP/1.1 40")) << head;
      EXPECT_THAT(out, HasSubstr("\r\nConnection: close\r\n")) << head;
      EXPECT_TRUE(session.ends()) << head;
      EXPECT_LT(session.memory(), 1'000u) << head;
    }
  }
}

TEST_F(HttpAccess, KeepsNoBodyOfAHealthCheck) {
  context.access.password = "sesame";
  HttpSession session(context, kRemote);
  std::string out;
  session.on_input("GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n", out);
  EXPECT_THAT(out, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(session.ends());
}

TEST_F(HttpAccess, ReadsTheBodyOfARequestWithThePassword) {
  context.access.password = "sesame";
  HttpSession session(context, kRemote);
  std::string out;
  session.on_input(
      "POST /v1/take HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer sesame\r\n"
      "Content-Length: 24\r\n\r\n{\"policy\":",
      out);
  EXPECT_EQ(out, "");
  session.on_input("\"p\",\"key\":\"k\"}", out);
  EXPECT_THAT(out, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_FALSE(session.ends());
}

TEST_F(HttpAccess, DoesNotAcceptThePasswordAsTheAdminToken) {
  context.access = {.password = "sesame", .admin_token = "root"};
  for (const Ask& verb : kAdminVerbs) {
    EXPECT_EQ(ask(verb, "Authorization: Bearer sesame\r\n"), 401) << verb.path;
    EXPECT_THAT(response, HasSubstr("this needs the admin token"));
    EXPECT_EQ(ask(verb, "Authorization: Bearer roo\r\n"), 401) << verb.path;
    EXPECT_EQ(ask(verb), 401) << verb.path;
  }
  // The token also allows what the password allows.
  EXPECT_EQ(ask(kTake, "Authorization: Bearer root\r\n"), 200);
  for (const Ask& verb : kAdminVerbs) {
    EXPECT_EQ(ask(verb, "Authorization: Bearer root\r\n", kRemote), 200) << verb.path;
  }
}

// With a token configured, the loopback address gives no rights.
TEST_F(HttpAccess, RequiresTheAdminTokenFromThisMachineToo) {
  context.access.admin_token = "root";
  EXPECT_EQ(ask(kTake, {}, kRemote), 200);
  for (const Ask& verb : kAdminVerbs) {
    EXPECT_EQ(ask(verb), 401) << verb.path;
    EXPECT_EQ(ask(verb, "Authorization: Bearer \r\n"), 401) << verb.path;
    EXPECT_EQ(ask(verb, "Authorization: Basic root\r\n"), 401) << verb.path;
  }
}

TEST_F(HttpAccess, RefusesRemoteChangesWithoutAnAdminToken) {
  EXPECT_EQ(ask(kTake, {}, kRemote), 200);
  for (const Ask& verb : kAdminVerbs) {
    EXPECT_EQ(ask(verb, {}, kRemote), 403) << verb.path;
    // A header that claims a loopback address, or an empty token, gives no rights.
    EXPECT_EQ(ask(verb, "X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\n", kRemote),
              403);
    EXPECT_EQ(ask(verb, "Authorization: Bearer \r\n", kRemote), 403) << verb.path;
  }
  for (const Ask& verb : kAdminVerbs) EXPECT_EQ(ask(verb), 200) << verb.path;
}

// An attacker can point any name of its own to this machine (DNS rebinding).
TEST_F(HttpAccess, RefusesChangesWithAForeignHost) {
  for (const Ask& verb : kAdminVerbs) {
    for (const std::string_view host :
         {"evil.example", "evil.example:7380", "127.evil.example", "127.0.0.1.evil.example",
          "localhost.evil.example", "LOCALHOST.evil.example", "weir.", ".weir", "10.0.0.1", "[::2]",
          "[::2]:7380", ":7380", "1127.0.0.1"}) {
      EXPECT_EQ(ask(verb, {}, kLocal, host), 403) << verb.path << " " << host;
    }
  }
  for (const std::string_view host : {"localhost", "127.0.0.1", "127.1.2.3:80", "[::1]:7380"}) {
    EXPECT_EQ(ask(kAdminVerbs[0], {}, kLocal, host), 200) << host;
  }
}

// Case does not matter. A name without a dot is not part of the public DNS.
TEST_F(HttpAccess, AcceptsChangesWithANameOfThisMachineAsHost) {
  const std::string own = own_host_name();
  for (const std::string& host : {std::string{"LOCALHOST"}, std::string{"LocalHost:7380"},
                                  std::string{"x"}, std::string{"weir:7380"}, own, own + ":7380"}) {
    EXPECT_EQ(ask(kAdminVerbs[0], {}, kLocal, host), 200) << host;
    EXPECT_EQ(ask(kAdminVerbs[0], {}, kRemote, host), 403) << host;
  }
}

// Otherwise a page could read, by DNS rebinding, all that needs no password.
TEST_F(HttpAccess, RefusesAnUnknownHostWithoutAPassword) {
  context.access.host_names = {"weir.corp.example"};
  const Ask asks[] = {kTake,
                      {.method = "GET", .path = "/metrics", .body = ""},
                      {.method = "GET", .path = "/v1/policies", .body = ""},
                      {.method = "GET", .path = "/", .body = ""},
                      {.path = "/v1/explain"}};
  for (const Ask& what : asks) {
    for (const std::string_view host :
         {"evil.example", "evil.example:7380", "127.0.0.1.evil.example",
          "weir.corp.example.evil.example", "x.local.evil.example", "localhost.", ":7380"}) {
      EXPECT_EQ(ask(what, {}, kLocal, host), 403) << what.path << " " << host;
      EXPECT_EQ(ask(what, {}, kRemote, host), 403) << what.path << " " << host;
    }
    for (const std::string_view host :
         {"localhost", "LocalHost:7380", "127.0.0.1:7380", "10.1.2.3", "[::1]:7380", "[fe80::2]",
          "weir", "weir.default.svc.cluster.local:7380", "Weir.Corp.Example:7380"}) {
      EXPECT_NE(ask(what, {}, kLocal, host), 403) << what.path << " " << host;
    }
  }
  // Health checks may use any name: their response says nothing else.
  EXPECT_EQ(ask({.method = "GET", .path = "/healthz", .body = ""}, {}, kRemote, "lb.example"), 200);
  context.access.admin_token = "root";
  EXPECT_EQ(ask(kTake, "Authorization: Bearer root\r\n", kRemote, "any.example"), 200);
}

TEST(BrowserGuard, AcceptsTheOwnHostNameOnly) {
  EXPECT_TRUE(is_own_host("db1.corp.example", "db1.corp.example"));
  EXPECT_TRUE(is_own_host("DB1.Corp.example:7380", "db1.corp.EXAMPLE"));
  EXPECT_FALSE(is_own_host("db2.corp.example", "db1.corp.example"));
  EXPECT_FALSE(is_own_host("db1.corp.example.evil.example", "db1.corp.example"));
  EXPECT_FALSE(is_own_host("corp.example", "db1.corp.example"));
  EXPECT_FALSE(is_own_host("", "")) << "an empty name matches an unknown host name";
  EXPECT_FALSE(is_own_host(":7380", ""));
}

// A page can also use an address of this machine (CSRF); Origin names the site of the page.
TEST_F(HttpAccess, RefusesChangesWithAForeignOrigin) {
  for (const Ask& verb : kAdminVerbs) {
    for (const std::string_view origin :
         {"https://evil.example", "http://127.evil.example", "null", "http://evil.example:7380",
          "file://", "x", "http://neighbour", "http://neighbour:7380"}) {
      const std::string field = "Origin: " + std::string(origin) + "\r\n";
      EXPECT_EQ(ask(verb, field), 403) << verb.path << " " << origin;
    }
  }
  EXPECT_EQ(ask(kAdminVerbs[0], "Origin: http://localhost:3000\r\n"), 200);
  EXPECT_EQ(ask(kAdminVerbs[0], "Origin: http://127.0.0.1:7380\r\n"), 200);
  EXPECT_EQ(ask(kAdminVerbs[0], "Origin: http://" + own_host_name() + ":7380\r\n"), 200);
}

// ---- RESP

class RespAccess : public AccessTest {
 protected:
  RespAccess() { connect(kLocal); }

  void connect(const net::Peer& peer) { session.emplace(context, peer); }

  std::string say(std::initializer_list<std::string_view> words) {
    std::string text;
    wire::RespWriter writer(text, 2);
    writer.array(words.size());
    for (const std::string_view word : words) writer.bulk(word);
    return say_bytes(text);
  }
  std::string say_bytes(std::string_view text) {
    std::string out;
    feed(*session, text, out);
    return out;
  }
  void expect_changes(bool allowed) {
    EXPECT_THAT(say({"WEIR.RESET", "p", "k"}), StartsWith(allowed ? "+OK\r\n" : "-NO"));
    EXPECT_THAT(say({"WEIR.SETTLE", "p", "k", "1"}), StartsWith(allowed ? "*8\r\n" : "-NO"));
  }

  std::optional<RespSession> session;
};

TEST_F(RespAccess, RefusesCommandsWithoutThePassword) {
  context.access.password = "sesame";
  for (const std::string_view command :
       {"PING", "INFO", "COMMAND", "CONFIG", "SELECT", "ECHO", "CLIENT", "WEIR.TAKE", "WEIR.PEEK",
        "WEIR.SETTLE", "WEIR.ENTER", "WEIR.LEAVE", "WEIR.RESET", "WEIR.EXPLAIN", "WEIR.POLICIES",
        "CL.THROTTLE"}) {
    EXPECT_EQ(say({command, "p", "k"}), "-NOAUTH Authentication required.\r\n") << command;
  }
  EXPECT_EQ(say({"AUTH", "sesame"}), "+OK\r\n");
  EXPECT_THAT(say({"WEIR.TAKE", "p", "k"}), StartsWith("*8\r\n:1\r\n:10\r\n:9\r\n"));
}

TEST_F(RespAccess, BoundsTheSizeOfCommandsBeforeAuthentication) {
  const std::string long_argument(16'000, 'x');
  const auto answer_to = [&](std::string_view bytes) {
    RespSession fresh(context, kRemote);
    std::string out;
    fresh.on_input(bytes, out);
    EXPECT_EQ(fresh.ends(), !out.empty());
    return out;
  };
  EXPECT_EQ(answer_to("*11\r\n"), "");
  EXPECT_EQ(answer_to("*2\r\n$4\r\nECHO\r\n$16384\r\n" + long_argument), "");
  context.access.password = "sesame";
  EXPECT_EQ(answer_to("*10\r\n"), "");
  EXPECT_EQ(answer_to("*11\r\n"), "-ERR Protocol error: unauthenticated multibulk length\r\n");
  EXPECT_EQ(answer_to("*2\r\n$4\r\nECHO\r\n$16384\r\n"),
            "-ERR Protocol error: unauthenticated bulk length\r\n");
  EXPECT_EQ(answer_to("*2\r\n$4\r\nAUTH\r\n$16000\r\n" + long_argument), "");
}

TEST_F(RespAccess, RefusesAWrongPassword) {
  context.access.password = "sesame";
  for (const auto& words : std::initializer_list<std::initializer_list<std::string_view>>{
           {"AUTH", "sesam"},
           {"AUTH", "sesame2"},
           {"AUTH", ""},
           {"AUTH", "default", "sesam"},
           {"AUTH", "default", ""},
           {"AUTH", "somebody", "sesame"},
           {"AUTH", "admin", "sesame"},
           {"AUTH", "admin", ""},
           {"AUTH", "", "sesame"},
           {"HELLO", "3", "AUTH", "default", "sesam"},
           {"HELLO", "3", "AUTH", "somebody", "sesame"}}) {
    EXPECT_THAT(say(words), StartsWith("-WRONGPASS")) << *(words.begin() + 1);
    EXPECT_THAT(say({"WEIR.TAKE", "p", "k"}), StartsWith("-NOAUTH"));
  }
  EXPECT_THAT(say({"HELLO", "3"}), StartsWith("-NOAUTH"));
  EXPECT_THAT(say({"HELLO", "3", "AUTH", "default"}), StartsWith("-ERR"));
  EXPECT_THAT(say({"WEIR.TAKE", "p", "k"}), StartsWith("-NOAUTH"));
}

TEST_F(RespAccess, AuthenticatesByUserNameOrHello) {
  context.access.password = "sesame";
  EXPECT_EQ(say({"AUTH", "default", "sesame"}), "+OK\r\n");
  EXPECT_EQ(say({"PING"}), "+PONG\r\n");
  connect(kRemote);
  EXPECT_THAT(say({"HELLO", "3", "AUTH", "default", "sesame"}), StartsWith("%7\r\n"));
  EXPECT_EQ(say({"PING"}), "+PONG\r\n");
}

TEST_F(RespAccess, DoesNotAuthenticateByAHelloWithAnError) {
  context.access = {.password = "sesame", .admin_token = "root"};
  EXPECT_THAT(say({"HELLO", "3", "AUTH", "default", "sesame", "FOO"}), StartsWith("-ERR Syntax"));
  EXPECT_THAT(say({"HELLO", "3", "AUTH", "default", "root", "SETNAME"}), StartsWith("-ERR Syntax"));
  EXPECT_THAT(say({"PING"}), StartsWith("-NOAUTH"));
  EXPECT_THAT(say({"HELLO", "2", "SETNAME", "me", "AUTH", "default", "sesame"}),
              StartsWith("*14\r\n"));
  EXPECT_EQ(say({"PING"}), "+PONG\r\n");
}

// A wrong password does not revoke earlier rights, RESET does.
TEST_F(RespAccess, LosesItsRightsOnReset) {
  context.access.password = "sesame";
  say({"AUTH", "sesame"});
  EXPECT_THAT(say({"AUTH", "wrong"}), StartsWith("-WRONGPASS"));
  EXPECT_EQ(say({"PING"}), "+PONG\r\n");
  EXPECT_EQ(say({"RESET"}), "+RESET\r\n");
  EXPECT_THAT(say({"PING"}), StartsWith("-NOAUTH"));
}

TEST_F(RespAccess, DoesNotAcceptThePasswordAsTheAdminToken) {
  context.access = {.password = "sesame", .admin_token = "root"};
  EXPECT_EQ(say({"AUTH", "sesame"}), "+OK\r\n");
  expect_changes(false);
  EXPECT_THAT(say({"AUTH", "admin", "sesame"}), StartsWith("-WRONGPASS"));
  EXPECT_THAT(say({"AUTH", "admin", "roo"}), StartsWith("-WRONGPASS"));
  expect_changes(false);
  EXPECT_EQ(say({"AUTH", "admin", "root"}), "+OK\r\n");
  expect_changes(true);
}

TEST_F(RespAccess, RequiresTheAdminTokenFromThisMachineToo) {
  context.access.admin_token = "root";
  EXPECT_EQ(say({"PING"}), "+PONG\r\n");
  expect_changes(false);
  EXPECT_THAT(say({"AUTH", ""}), StartsWith("-WRONGPASS"));
  expect_changes(false);
}

TEST_F(RespAccess, RefusesRemoteChangesWithoutAnAdminToken) {
  connect(kRemote);
  EXPECT_THAT(say({"WEIR.TAKE", "p", "k"}), StartsWith("*8\r\n:1\r\n"));
  expect_changes(false);
  EXPECT_THAT(say({"AUTH", ""}), StartsWith("-ERR AUTH <password> called without any password"));
  EXPECT_THAT(say({"AUTH", "admin", ""}), StartsWith("-ERR AUTH"));
  EXPECT_THAT(say({"HELLO", "2", "AUTH", "admin", ""}), StartsWith("*14\r\n"));
  expect_changes(false);
  connect(kLocal);
  expect_changes(true);
}

// A page can make a browser on this machine send HTTP to any port, with commands in the body.
TEST_F(RespAccess, ClosesAConnectionThatSendsHttp) {
  say({"WEIR.TAKE", "p", "k", "10"});
  const std::string reset = "WEIR.RESET p k\r\n";
  for (const std::string& text :
       {"POST / HTTP/1.1\r\nHost: 127.0.0.1:7379\r\n\r\n" + reset,
        "GET /x HTTP/1.1\r\nHost: a\r\n" + reset, "Host: 127.0.0.1:7379\r\n" + reset,
        "PUT / HTTP/1.0\r\n" + reset, "host: a\r\n" + reset}) {
    connect(kLocal);
    EXPECT_EQ(say_bytes(text), "-ERR this is HTTP: ask the HTTP listener\r\n");
    EXPECT_TRUE(session->ends());
  }
  connect(kLocal);
  EXPECT_THAT(say({"WEIR.PEEK", "p", "k"}), StartsWith("*8\r\n:0\r\n:10\r\n:0\r\n"));
}

}  // namespace
}  // namespace weir::server
