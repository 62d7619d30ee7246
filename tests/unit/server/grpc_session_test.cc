#include "server/grpc_session.h"

#include <envoy/service/ratelimit/v3/rls.pb.h>
#include <gmock/gmock.h>
#include <grpc/health/v1/health.pb.h>
#include <grpc/reflection/v1/reflection.pb.h>

#include <thread>

#include "h2_test_client.h"
#include "server/http_session.h"
#include "test_server.h"
#include "weir/quota.h"

namespace weir::server {
namespace {

namespace pb = ::envoy::service::ratelimit::v3;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using wire::Frame;
using wire::TestFields;

constexpr const char* kShouldRateLimit =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

TestFields call_of(const std::string& path) {
  TestFields fields = wire::H2Peer::post(path);
  fields.emplace_back("content-type", "application/grpc");
  fields.emplace_back("te", "trailers");
  return fields;
}

std::string framed(std::string_view message) {
  std::string prefix(5, '\0');
  wire::write_grpc_prefix(prefix.data(), message.size());
  return prefix.append(message);
}

pb::RateLimitRequest some_request() {
  pb::RateLimitRequest request;
  request.set_domain("shop");
  request.set_hits_addend(3);
  auto& first = *request.add_descriptors();
  first.add_entries()->set_key("user");
  first.mutable_entries(0)->set_value("alice");
  first.add_entries()->set_key("path");
  auto& second = *request.add_descriptors();
  second.add_entries()->set_key("ip");
  second.mutable_limit()->set_requests_per_unit(7);
  second.mutable_limit()->set_unit(::envoy::type::v3::HOUR);
  second.mutable_hits_addend()->set_value(0);
  second.set_is_negative_hits(true);
  return request;
}

class GrpcSessionTest : public testing::Test {
 protected:
  GrpcSessionTest() {
    server.context.envoy = {
        .should_rate_limit =
            [this](const envoy::RateLimitRequest& call, Link&, EnvoyService::Callback done) {
              calls.push_back(text_of(call));
              waiting ? pending.push_back(std::move(done)) : done(answer);
            },
        .is_configured = [this] { return configured; }};
  }

  static std::string text_of(const envoy::RateLimitRequest& call) {
    std::string text{call.domain};
    text += " " + std::to_string(call.hits);
    for (const envoy::RateLimitDescriptor& descriptor : call.descriptors) {
      text += " [";
      for (const auto& [key, value] : descriptor.entries) {
        text.append(key).append("=").append(value).append(",");
      }
      if (descriptor.limit) {
        text += std::to_string(descriptor.limit->requests_per_unit) + "/" +
                std::to_string(static_cast<int>(descriptor.limit->unit));
      }
      if (descriptor.hits) text += " hits " + std::to_string(*descriptor.hits);
      if (descriptor.gives_back) text += " back";
      text += "]";
    }
    return text;
  }

  H2Reply ask(const TestFields& fields, std::string_view body) {
    return client.replies[client.ask(fields, body)];
  }
  H2Reply ask(const std::string& path, std::string_view message) {
    return ask(call_of(path), framed(message));
  }
  H2Reply ask_envoy() { return ask(kShouldRateLimit, some_request().SerializeAsString()); }

  TestServer server{PolicySet{}};
  std::vector<std::string> calls;
  Result<envoy::RateLimitResponse, envoy::ServiceError> answer{envoy::RateLimitResponse{}};
  bool waiting = false;
  bool configured = true;
  std::vector<EnvoyService::Callback> pending;
  GrpcSession session{server.context};
  H2TestClient client{session};
};

// ---- Envoy

TEST_F(GrpcSessionTest, PassesTheCallToTheService) {
  ask_envoy();
  EXPECT_THAT(calls, ElementsAre("shop 3 [user=alice,path=,] [ip=,7/3 hits 0 back]"));
}

TEST_F(GrpcSessionTest, EncodesTheAnswerOfTheService) {
  envoy::RateLimitResponse made;
  made.overall = envoy::Code::over_limit;
  made.statuses.push_back({.code = envoy::Code::over_limit,
                           .limit = envoy::CurrentLimit{10, envoy::Unit::week, "weekly"},
                           .until_reset = std::chrono::milliseconds{58'500}});
  made.statuses.push_back({.code = envoy::Code::ok, .remaining = 4'294'967'295});
  made.response_headers.push_back({"RateLimit-Limit", "10"});
  made.metadata = R"({"domain":"shop","hits":3})";
  answer = made;
  const H2Reply reply = ask_envoy();
  EXPECT_EQ(reply.status(), "200");
  EXPECT_EQ(reply.fields.at("content-type"), "application/grpc");
  EXPECT_THAT(reply.trailers, ElementsAre(std::pair("grpc-status", "0")));
  EXPECT_TRUE(reply.ended);
  const wire::GrpcMessage read = wire::read_grpc_message(reply.body, 10'000);
  pb::RateLimitResponse response;
  ASSERT_TRUE(response.ParseFromString(std::string(read.message)));
  EXPECT_EQ(response.overall_code(), pb::RateLimitResponse::OVER_LIMIT);
  ASSERT_EQ(response.statuses_size(), 2);
  EXPECT_EQ(response.statuses(0).code(), pb::RateLimitResponse::OVER_LIMIT);
  EXPECT_EQ(response.statuses(0).current_limit().requests_per_unit(), 10u);
  EXPECT_EQ(response.statuses(0).current_limit().unit(), pb::RateLimitResponse::RateLimit::WEEK);
  EXPECT_EQ(response.statuses(0).current_limit().name(), "weekly");
  EXPECT_EQ(response.statuses(0).duration_until_reset().seconds(), 58);
  EXPECT_EQ(response.statuses(0).duration_until_reset().nanos(), 500'000'000);
  EXPECT_FALSE(response.statuses(1).has_current_limit());
  EXPECT_EQ(response.statuses(1).limit_remaining(), 4'294'967'295u);
  EXPECT_EQ(response.response_headers_to_add(0).key(), "RateLimit-Limit");
#ifndef __SANITIZE_THREAD__  // Debian's library was not compiled for maps to be laid out as there.
  EXPECT_THAT(response.dynamic_metadata().SerializeAsString(),
              testing::HasSubstr("\n\x06"
                                 "domain\x12\x06\x1a\x04"
                                 "shop"));
#endif
}

TEST_F(GrpcSessionTest, AnswersAllCallsOfOneTurnInThatTurn) {
  std::string input;
  for (std::int32_t stream = 1; stream < 100; stream += 2) {
    input += client.peer.headers(stream, call_of(kShouldRateLimit), false);
    input += wire::H2Peer::data(stream, framed(some_request().SerializeAsString()), true);
  }
  const int before = client.turns;
  client.send(input);
  EXPECT_EQ(client.turns, before + 1);
  for (std::int32_t stream = 1; stream < 100; stream += 2) {
    EXPECT_EQ(client.replies[stream].grpc_status(), "0");
  }
}

TEST_F(GrpcSessionTest, ReadsAMessageInManyFrames) {
  const std::string body = framed(some_request().SerializeAsString());
  client.send(client.peer.headers(1, call_of(kShouldRateLimit), false));
  for (const char& c : body) client.send(wire::H2Peer::data(1, {&c, 1}, &c == &body.back()));
  EXPECT_EQ(client.replies[1].grpc_status(), "0");
}

TEST_F(GrpcSessionTest, ReportsWhyACallFailed) {
  answer = envoy::ServiceError{.text = "rate limit domain must not be empty"};
  H2Reply reply = ask_envoy();
  EXPECT_EQ(reply.grpc_status(), "2");
  EXPECT_EQ(reply.grpc_message(), "rate limit domain must not be empty");
  EXPECT_THAT(reply.body, IsEmpty());
  answer = envoy::ServiceError{.text = "100% gone\n", .store = true};
  reply = ask_envoy();
  EXPECT_EQ(reply.grpc_status(), "14");
  EXPECT_EQ(reply.grpc_message(), "100%25 gone%0A");
  server.context.envoy = {};
  reply = ask_envoy();
  EXPECT_EQ(reply.grpc_status(), "2");
  EXPECT_EQ(reply.grpc_message(), "no rate limit configuration loaded");
}

// ---- Deferred answers

TEST_F(GrpcSessionTest, AnswersOtherStreamsWhileOneWaitsForTheStore) {
  waiting = true;
  const std::int32_t slow = client.ask(call_of(kShouldRateLimit), framed(""));
  EXPECT_FALSE(session.waits());
  EXPECT_TRUE(session.in_message());
  waiting = false;
  EXPECT_EQ(ask_envoy().grpc_status(), "0");
  EXPECT_FALSE(client.replies[slow].ended);
  EXPECT_EQ(client.woken, 0);
  pending[0](answer);
  EXPECT_EQ(client.woken, 1);
  client.send("");
  EXPECT_EQ(client.replies[slow].grpc_status(), "0");
  EXPECT_FALSE(session.in_message());
}

TEST_F(GrpcSessionTest, IgnoresAnAnswerAfterItsEnd) {
  waiting = true;
  {
    GrpcSession other_session(server.context);
    H2TestClient its_client(other_session);
    its_client.ask(call_of(kShouldRateLimit), framed(""));
  }
  pending[0](answer);
}

// A client must not exceed the maximum of concurrent calls by resetting streams (rapid reset).
TEST_F(GrpcSessionTest, CountsResetStreamsThatAreStillBeingDecided) {
  waiting = true;
  for (std::int32_t i = 0; i < 256; ++i) {
    const std::int32_t stream = client.ask(call_of(kShouldRateLimit), framed(""));
    client.send(wire::H2Peer::reset(stream));
  }
  EXPECT_THAT(pending, SizeIs(256));
  const std::int32_t refused = client.ask(call_of(kShouldRateLimit), framed(""));
  EXPECT_THAT(pending, SizeIs(256));
  ASSERT_FALSE(client.others.empty());
  EXPECT_EQ(client.others.back().type, Frame::rst_stream);
  EXPECT_EQ(client.others.back().stream, refused);
  pending[0](answer);
  client.ask(call_of(kShouldRateLimit), framed(""));
  EXPECT_THAT(pending, SizeIs(257));
}

TEST_F(GrpcSessionTest, DoesNotChargeACallPastItsDeadline) {
  TestFields fields = call_of(kShouldRateLimit);
  fields.emplace_back("grpc-timeout", "1n");
  EXPECT_EQ(ask(fields, framed("")).grpc_status(), "4");
  fields.back().second = "0n";
  EXPECT_EQ(ask(fields, framed("")).grpc_status(), "4");
  EXPECT_THAT(calls, IsEmpty());  // not charged: the client no longer waits
  fields.back().second = "1H";
  EXPECT_EQ(ask(fields, framed("")).grpc_status(), "0");
  fields.back().second = "99999999H";
  EXPECT_EQ(ask(fields, framed("")).grpc_status(), "0");
  fields.back().second = "soon";
  EXPECT_EQ(ask(fields, framed("")).grpc_status(), "13");
}

TEST_F(GrpcSessionTest, ReportsADeadlineThatPassedWhileDeciding) {
  waiting = true;
  TestFields fields = call_of(kShouldRateLimit);
  fields.emplace_back("grpc-timeout", "50m");
  const std::int32_t stream = client.ask(fields, framed(""));
  ASSERT_THAT(pending, SizeIs(1));
  std::this_thread::sleep_for(std::chrono::milliseconds{51});
  pending[0](answer);
  client.send("");
  EXPECT_EQ(client.replies[stream].grpc_status(), "4");
}

// ---- Malformed calls

TEST_F(GrpcSessionTest, RefusesUnknownMethods) {
  EXPECT_EQ(ask("/a/b", "").grpc_status(), "12");
  EXPECT_EQ(ask("/", "").grpc_status(), "12");
  const H2Reply reply = ask("/envoy.service.ratelimit.v3.RateLimitService/Other", "");
  EXPECT_EQ(reply.status(), "200");
  EXPECT_EQ(reply.grpc_status(), "12");
  EXPECT_EQ(reply.grpc_message(), "there is no such method");
  EXPECT_TRUE(reply.ended);
}

TEST_F(GrpcSessionTest, RefusesRequestsThatAreNotGrpc) {
  TestFields fields = wire::H2Peer::post(kShouldRateLimit);
  EXPECT_EQ(ask(fields, "x").status(), "415");
  fields.emplace_back("content-type", "application/json");
  EXPECT_EQ(ask(fields, "x").status(), "415");
  fields.back().second = "application/grpc+json";
  EXPECT_EQ(ask(fields, "x").status(), "415");
  EXPECT_EQ(ask(wire::H2Peer::get("/"), "").status(), "405");
}

TEST_F(GrpcSessionTest, RefusesCompressedMessages) {
  TestFields fields = call_of(kShouldRateLimit);
  std::string body = framed("x");
  body[0] = 1;
  EXPECT_EQ(ask(fields, body).grpc_status(), "13");
  fields.emplace_back("grpc-encoding", "gzip");
  const H2Reply reply = ask(fields, body);
  EXPECT_EQ(reply.grpc_status(), "12");
  EXPECT_EQ(reply.fields.at("grpc-accept-encoding"), "identity");
  fields.back().second = "identity";
  EXPECT_EQ(ask(fields, framed("")).grpc_status(), "0");
}

TEST_F(GrpcSessionTest, RefusesMalformedMessages) {
  const TestFields fields = call_of(kShouldRateLimit);
  EXPECT_EQ(ask(fields, "").grpc_status(), "12");
  EXPECT_EQ(ask(fields, framed("abc").substr(0, 6)).grpc_status(), "13");
  EXPECT_EQ(ask(fields, framed("") + framed("")).grpc_status(), "12");
  EXPECT_EQ(ask(fields, framed("\xff\xff")).grpc_status(), "13");
  EXPECT_EQ(ask(fields, framed("\x0a\x02\xc3\x28")).grpc_status(), "13");  // no UTF-8
  EXPECT_THAT(calls, IsEmpty());
}

TEST_F(GrpcSessionTest, RefusesTooLongMessages) {
  std::string prefix(5, '\0');
  wire::write_grpc_prefix(prefix.data(), GrpcSession::kMaxMessage + 1);
  EXPECT_EQ(ask(call_of(kShouldRateLimit), prefix).grpc_status(), "8");
  client.send(client.peer.headers(99, call_of(kShouldRateLimit), false));
  for (std::size_t sent = 0; sent < GrpcSession::kMaxMessage + 6; sent += 16'000) {
    client.send(wire::H2Peer::data(99, std::string(16'000, '\0'), false));
  }
  EXPECT_EQ(client.replies[99].grpc_status(), "8");
}

TEST_F(GrpcSessionTest, AcceptsManyEntries) {
  pb::RateLimitRequest request;
  request.set_domain("d");
  auto& descriptor = *request.add_descriptors();
  for (int i = 0; i < 10'000; ++i) descriptor.add_entries()->set_key("k" + std::to_string(i));
  const std::string body = framed(request.SerializeAsString());
  client.send(client.peer.headers(1, call_of(kShouldRateLimit), false));
  for (std::size_t at = 0; at < body.size(); at += 16'000) {
    client.send(wire::H2Peer::data(1, std::string_view(body).substr(at, 16'000),
                                   at + 16'000 >= body.size()));
  }
  EXPECT_EQ(client.replies[1].grpc_status(), "0");
  EXPECT_EQ(std::ranges::count(calls.at(0), ','), 10'000);
}

TEST_F(GrpcSessionTest, RefusesATooLongHeader) {
  TestFields fields = call_of(kShouldRateLimit);
  fields.emplace_back("x", std::string(16'384, 'x'));
  const H2Reply reply = ask(fields, framed(""));
  EXPECT_EQ(reply.grpc_status(), "8");
}

TEST_F(GrpcSessionTest, RequiresThePassword) {
  server.context.access.password = "secret";
  EXPECT_EQ(ask_envoy().grpc_status(), "16");
  TestFields fields = call_of(kShouldRateLimit);
  fields.emplace_back("authorization", "Bearer wrong");
  EXPECT_EQ(ask(fields, framed("")).grpc_status(), "16");
  fields.back().second = "Bearer secret";
  EXPECT_EQ(ask(fields, framed("")).grpc_status(), "0");
  EXPECT_EQ(ask("/grpc.health.v1.Health/Check", "").grpc_status(), "0");
  EXPECT_EQ(ask("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "").grpc_status(),
            "16");
}

TEST_F(GrpcSessionTest, AnswersAnHttp1RequestWith505) {
  GrpcSession other(server.context);
  std::string out;
  other.on_input("GET / HTTP/1.1\r\nHost: x\r\n\r\n", out);
  EXPECT_THAT(out, testing::StartsWith("HTTP/1.1 505 "));
  EXPECT_TRUE(other.ends());
}

// ---- Health

class GrpcHealthTest : public GrpcSessionTest {
 protected:
  static std::string request(const std::string& name) {
    grpc::health::v1::HealthCheckRequest message;
    message.set_service(name);
    return message.SerializeAsString();
  }
  // The statuses in the order of their messages.
  static std::vector<int> statuses(std::string_view body) {
    std::vector<int> all;
    for (wire::GrpcMessage read; read = wire::read_grpc_message(body, 100), read.size > 0;) {
      grpc::health::v1::HealthCheckResponse response;
      EXPECT_TRUE(response.ParseFromString(std::string(read.message)));
      all.push_back(response.status());
      body.remove_prefix(read.size);
    }
    return all;
  }
  std::vector<int> check(const std::string& name) {
    return statuses(ask("/grpc.health.v1.Health/Check", request(name)).body);
  }
  std::int32_t watch(const std::string& name) {
    return client.ask(call_of("/grpc.health.v1.Health/Watch"), framed(request(name)));
  }
};

TEST_F(GrpcHealthTest, ReportsTheHealthOfEachService) {
  EXPECT_THAT(check(""), ElementsAre(1));
  EXPECT_THAT(check("ratelimit"), ElementsAre(1));
  EXPECT_THAT(check("envoy.service.ratelimit.v3.RateLimitService"), ElementsAre(1));
  configured = false;
  EXPECT_THAT(check(""), ElementsAre(1));
  EXPECT_THAT(check("ratelimit"), ElementsAre(2));
  server.context.is_draining = true;
  EXPECT_THAT(check(""), ElementsAre(2));
  EXPECT_EQ(ask("/grpc.health.v1.Health/Check", request("other")).grpc_status(), "5");
}

TEST_F(GrpcHealthTest, SendsChangesToWatchers) {
  const std::int32_t stream = watch("ratelimit");
  EXPECT_THAT(statuses(client.replies[stream].body), ElementsAre(1));
  EXPECT_FALSE(client.replies[stream].ended);
  EXPECT_FALSE(session.in_message());
  EXPECT_FALSE(session.on_tick());
  configured = false;
  EXPECT_TRUE(session.on_tick());
  client.send("");
  EXPECT_THAT(statuses(client.replies[stream].body), ElementsAre(1, 2));
  EXPECT_FALSE(session.on_tick());
  EXPECT_THAT(statuses(client.replies[watch("other")].body), ElementsAre(3));
}

TEST_F(GrpcHealthTest, EndsWatchesAtShutdown) {
  const std::int32_t stream = watch("");
  server.context.is_draining = true;
  session.on_shutdown();
  client.send("");
  EXPECT_THAT(statuses(client.replies[stream].body), ElementsAre(1, 2));
  EXPECT_EQ(client.replies[stream].grpc_status(), "14");
  EXPECT_FALSE(session.ends());
  // The peer acknowledges the PING behind the GOAWAY, which ends the connection.
  std::string ping;
  for (const Frame& frame : client.others) {
    if (frame.type == Frame::ping) ping = frame.payload;
  }
  client.send(wire::H2Peer::ping(ping, true));
  EXPECT_EQ(client.others.back().type, Frame::goaway);
  EXPECT_TRUE(session.ends());
}

// ---- Reflection

class GrpcReflectionTest : public GrpcSessionTest {
 protected:
  grpc::reflection::v1::ServerReflectionResponse reflect(
      const grpc::reflection::v1::ServerReflectionRequest& request, const std::string& version) {
    const H2Reply reply =
        ask("/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo",
            request.SerializeAsString());
    EXPECT_EQ(reply.grpc_status(), "0");
    grpc::reflection::v1::ServerReflectionResponse response;
    const auto read = wire::read_grpc_message(reply.body, 100'000);
    EXPECT_TRUE(response.ParseFromString(std::string(read.message)));
    return response;
  }
};

TEST_F(GrpcReflectionTest, ListsServices) {
  grpc::reflection::v1::ServerReflectionRequest request;
  request.set_list_services("");
  for (const char* version : {"v1", "v1alpha"}) {
    std::vector<std::string> names;
    const auto response = reflect(request, version);
    for (const auto& each : response.list_services_response().service()) {
      names.push_back(each.name());
    }
    EXPECT_THAT(names, ElementsAre("envoy.service.ratelimit.v3.RateLimitService",
                                   "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                                   "grpc.reflection.v1alpha.ServerReflection"));
  }
}

TEST_F(GrpcReflectionTest, FindsTheFilesOfSymbols) {
  grpc::reflection::v1::ServerReflectionRequest request;
  request.set_file_containing_symbol("envoy.service.ratelimit.v3.RateLimitService");
  // The file and all its imports.
  EXPECT_EQ(reflect(request, "v1").file_descriptor_response().file_descriptor_proto_size(), 8);
  request.set_file_by_filename("grpc/health/v1/health.proto");
  EXPECT_EQ(reflect(request, "v1").file_descriptor_response().file_descriptor_proto_size(), 1);
  request.set_file_containing_symbol("no.such.Thing");
  EXPECT_EQ(reflect(request, "v1").error_response().error_code(), 5);
  request.Clear();
  EXPECT_EQ(reflect(request, "v1").error_response().error_code(), 3);
}

// A client may wait for a response before it sends the next message.
TEST_F(GrpcReflectionTest, AnswersEachMessageAsItArrives) {
  grpc::reflection::v1::ServerReflectionRequest request;
  request.set_list_services("");
  const std::string body = framed(request.SerializeAsString());
  const auto stream =
      client.ask(call_of("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"), body, false);
  const std::size_t once = client.replies[stream].body.size();
  EXPECT_GT(once, 100u);
  EXPECT_FALSE(client.replies[stream].ended);
  client.send(wire::H2Peer::data(stream, body, false));
  EXPECT_EQ(client.replies[stream].body.size(), 2 * once);
  client.send(wire::H2Peer::data(stream, "", true));
  EXPECT_EQ(client.replies[stream].grpc_status(), "0");
}

// Requests are short and responses long: a client that never reads must not fill the memory.
TEST_F(GrpcReflectionTest, EndsAStreamWhoseResponsesAreNotRead) {
  client.send(wire::H2Peer::settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}}));
  grpc::reflection::v1::ServerReflectionRequest request;
  request.set_file_containing_symbol("envoy.service.ratelimit.v3.RateLimitService");
  const std::string body = framed(request.SerializeAsString());
  const auto stream =
      client.ask(call_of("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"), body, false);
  for (int i = 0; i < 10'000; ++i) client.send(wire::H2Peer::data(stream, body, false));
  client.send(wire::H2Peer::window(0, 1 << 30) + wire::H2Peer::window(stream, 1 << 30));
  while (!client.replies[stream].ended && session.in_message()) client.send("");
  EXPECT_EQ(client.replies[stream].grpc_status(), "8");
  EXPECT_GT(client.replies[stream].body.size(), 4u << 20);
  EXPECT_LT(client.replies[stream].body.size(), 5u << 20);
}

// The stream has ended with an error that the client has not read yet.
TEST_F(GrpcReflectionTest, KeepsTheFirstStatusOfAStreamAtShutdown) {
  client.send(wire::H2Peer::settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}}));
  grpc::reflection::v1::ServerReflectionRequest request;
  request.set_list_services("");
  const auto stream =
      client.ask(call_of("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
                 framed(request.SerializeAsString()) + framed("no question"), false);
  session.on_shutdown();
  client.send(wire::H2Peer::window(stream, 1 << 20));
  EXPECT_EQ(client.replies[stream].grpc_status(), "13");
  EXPECT_EQ(client.replies[stream].grpc_message(), "the message is not a ServerReflectionRequest");
}

// ---- The HTTP API over HTTP/2

class H2ApiSessionTest : public GrpcSessionTest {
 protected:
  static PolicySet some_policies() {
    PolicySet set;
    set.add("p", Limit::window(2, std::chrono::hours{1}));
    return set;
  }
  H2Reply post(const std::string& path, std::string_view body) {
    TestFields fields = wire::H2Peer::post(path);
    fields.emplace_back("content-type", "application/json");
    return http.replies[http.ask(fields, body)];
  }
  H2Reply get(const TestFields& fields) { return http.replies[http.ask(fields, "")]; }

  TestServer api{some_policies()};
  HttpSession over{api.context, {.address = "127.0.0.1", .loopback = true}};
  H2TestClient http{over};
};

TEST_F(H2ApiSessionTest, DecidesTakes) {
  constexpr std::string_view body = R"({"policy":"p","key":"k"})";
  const H2Reply reply = post("/v1/take", body);
  EXPECT_EQ(reply.status(), "200");
  EXPECT_THAT(reply.body, HasSubstr("\"remaining\":1"));
  EXPECT_THAT(reply.fields.at("ratelimit"), HasSubstr("r=1"));
  EXPECT_EQ(reply.fields.at("content-length"), std::to_string(reply.body.size()));
  EXPECT_EQ(reply.fields.at("content-type"), "application/json");
  post("/v1/take", body);
  const H2Reply refused = post("/v1/take", body);
  EXPECT_EQ(refused.status(), "429");
  EXPECT_TRUE(refused.fields.contains("retry-after"));
  EXPECT_THAT(post("/v1/take", "[" + std::string(body) + "]").body,
              HasSubstr("[{\"allowed\":false"));
}

TEST_F(H2ApiSessionTest, ServesAllPagesAndErrors) {
  EXPECT_EQ(get(wire::H2Peer::get("/healthz")).body, "ok\n");
  EXPECT_THAT(get(wire::H2Peer::get("/metrics")).body, HasSubstr("weir_build_info"));
  TestFields head = wire::H2Peer::get("/healthz");
  head[0].second = "HEAD";
  const H2Reply without = get(head);
  EXPECT_EQ(without.fields.at("content-length"), "3");
  EXPECT_EQ(without.body, "");
  EXPECT_TRUE(without.ended);
  head.emplace_back("host", "another");
  EXPECT_EQ(get(head).status(), "400");
  EXPECT_EQ(get(head).body, "");
  EXPECT_EQ(get(wire::H2Peer::get("/nothing")).status(), "404");
  const H2Reply wrong = get(wire::H2Peer::get("/v1/take"));
  EXPECT_EQ(wrong.status(), "405");
  EXPECT_EQ(wrong.fields.at("allow"), "POST");
  EXPECT_EQ(post("/v1/take", "{").status(), "400");
  EXPECT_EQ(post("/v1/take", "").status(), "411");
  TestFields untyped = wire::H2Peer::post("/v1/take");
  untyped.emplace_back("content-type", "text/html");
  EXPECT_EQ(http.replies[http.ask(untyped, "x")].status(), "415");
  TestFields large = wire::H2Peer::post("/v1/take");
  large.emplace_back("content-length", "99999999");
  EXPECT_EQ(http.replies[http.ask(large, "x", false)].status(), "413");
}

TEST_F(H2ApiSessionTest, ChecksThePassword) {
  api.context.access.password = "secret";
  EXPECT_EQ(get(wire::H2Peer::get("/v1/policies")).status(), "401");
  TestFields fields = wire::H2Peer::get("/v1/policies");
  fields.emplace_back("authorization", "Bearer secret");
  EXPECT_EQ(get(fields).status(), "200");
  fields[3].second = "evil.example";
  fields.back().second = "Bearer wrong";
  EXPECT_EQ(get(fields).status(), "401");
}

// Short responses may take long to make.
TEST_F(H2ApiSessionTest, YieldsAfterItsTurn) {
  TestFields head = wire::H2Peer::get("/metrics");
  head[0].second = "HEAD";
  std::string input;
  for (std::int32_t stream = 1; stream < 4'000; stream += 2) {
    input += http.peer.headers(stream, head, true);
  }
  std::string out;
  const std::size_t used = over.on_input(input, out);
  EXPECT_GT(used, 0u);
  EXPECT_LT(used, input.size());
  EXPECT_LT(out.size(), net::Protocol::kOutputHighWater);
}

// Only the first bytes of a connection can be the preface of HTTP/2.
TEST_F(H2ApiSessionTest, RefusesThePrefaceInTheMiddleOfAConnection) {
  HttpSession other(api.context, {.address = "127.0.0.1", .loopback = true});
  std::string out;
  other.on_input("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", out);
  EXPECT_THAT(out, HasSubstr("200 OK"));
  out.clear();
  other.on_input(wire::H2Peer::preface(), out);
  EXPECT_THAT(out, testing::StartsWith("HTTP/1.1 "));
  EXPECT_TRUE(other.ends());
}

TEST_F(H2ApiSessionTest, AnswersEnvoysCallsInJson) {
  EXPECT_EQ(post("/json", R"({"domain":"d"})").status(), "400");
  api.context.envoy = server.context.envoy;
  H2Reply reply = post("/json", R"({"domain":"d"})");
  EXPECT_EQ(reply.status(), "200");
  EXPECT_EQ(reply.body, R"({"overallCode":"OK"})");
  answer = envoy::RateLimitResponse{.overall = envoy::Code::over_limit, .statuses = {}};
  EXPECT_EQ(post("/json", "{}").status(), "429");
  answer = envoy::RateLimitResponse{.overall = envoy::Code::unknown, .statuses = {}};
  reply = post("/json", "{}");
  EXPECT_EQ(reply.status(), "500");
  EXPECT_EQ(reply.body, "{}");
  answer = envoy::ServiceError{.text = "no domain"};
  reply = post("/json", "{}");
  EXPECT_EQ(reply.status(), "400");
  EXPECT_EQ(reply.body, "Bad Request\n");
  answer = envoy::ServiceError{.text = "gone", .store = true};
  EXPECT_EQ(post("/json", "{}").status(), "503");
  EXPECT_EQ(post("/json", "{").status(), "400");
  // As in envoyproxy/ratelimit, any method will do; but there must be a body.
  answer = envoy::RateLimitResponse{};
  EXPECT_EQ(get(wire::H2Peer::get("/json")).status(), "400");
  for (const char* method : {"PUT", "GET", "PATCH"}) {
    TestFields fields = wire::H2Peer::post("/json");
    fields[0].second = method;
    EXPECT_EQ(http.replies[http.ask(fields, "{}")].status(), "200") << method;
  }
}

}  // namespace
}  // namespace weir::server
