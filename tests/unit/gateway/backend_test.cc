#include "gateway/backend.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace weir::gateway {
namespace {

using Clock = UpstreamServer::Clock;

ServiceConfig three(LoadBalancing balance = LoadBalancing::round_robin) {
  ServiceConfig service{.balance = balance};
  for (std::uint16_t port : {1, 2, 3}) {
    service.servers.push_back(
        {.host = "127.0.0.1", .port = port, .text = "http://127.0.0.1:" + std::to_string(port)});
  }
  return service;
}

class BackendTest : public testing::Test {
 protected:
  std::shared_ptr<Backend> open(const ServiceConfig& service) {
    return *Backend::open(service, metrics);
  }
  static void fail(UpstreamServer& server, int times) {
    for (int i = 0; i < times; ++i) server.record_failure(UpstreamFailure::connect, Clock::now());
  }
  GatewayMetrics metrics;
};

TEST_F(BackendTest, ChoosesServersRoundRobin) {
  const auto backend = open(three());
  std::map<int, int> requests;
  for (int i = 0; i < 30; ++i) ++requests[backend->choose({}).upstream().port];
  EXPECT_EQ(requests, (std::map<int, int>{{1, 10}, {2, 10}, {3, 10}}));
}

TEST_F(BackendTest, ChoosesTheServerWithTheFewestRequests) {
  const auto backend = open(three(LoadBalancing::least_connections));
  backend->servers()[0].in_flight = 2;
  backend->servers()[1].in_flight = 1;
  backend->servers()[2].in_flight = 2;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(backend->choose({}).upstream().port, 2);
}

TEST_F(BackendTest, EjectsServersThatFailInARow) {
  const auto backend = open(three());
  UpstreamServer& bad = backend->servers()[0];
  fail(bad, 2);
  bad.record_success();
  fail(bad, 2);
  EXPECT_TRUE(bad.is_up(Clock::now()));
  fail(bad, 1);
  EXPECT_FALSE(bad.is_up(Clock::now()));
  for (int i = 0; i < 9; ++i) EXPECT_NE(backend->choose({}).upstream().port, 1);
  EXPECT_TRUE(bad.is_up(Clock::now() + std::chrono::seconds{11}));
  EXPECT_EQ(bad.metrics().ejections, 1u);
  EXPECT_FALSE(bad.metrics().up);
}

// The callback runs on changes, not for each failed request.
TEST_F(BackendTest, ReportsEachStateChangeOnce) {
  std::vector<std::string> changes;
  ServiceConfig service = three();
  service.health.active = HealthCheckConfig::Active{.path = "/up", .healthy = 1, .unhealthy = 2};
  const auto backend = *Backend::open(service, metrics, [&](const Upstream& server, bool up) {
    changes.push_back((up ? "up " : "down ") + std::to_string(server.port));
  });
  UpstreamServer& bad = backend->servers()[1];
  fail(bad, 2);
  EXPECT_TRUE(changes.empty());
  fail(bad, 20);
  EXPECT_EQ(changes, (std::vector<std::string>{"down 2"}));
  bad.record_success();
  bad.record_success();
  EXPECT_EQ(changes, (std::vector<std::string>{"down 2", "up 2"}));
  for (int i = 0; i < 5; ++i) bad.record_check(false);
  for (int i = 0; i < 5; ++i) bad.record_check(true);
  EXPECT_EQ(changes, (std::vector<std::string>{"down 2", "up 2", "down 2", "up 2"}));
}

TEST_F(BackendTest, ChoosesAServerThatWasNotTried) {
  const auto backend = open(three());
  UpstreamServer* tried[] = {&backend->servers()[0], &backend->servers()[1]};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(backend->choose(tried).upstream().port, 3);
}

TEST_F(BackendTest, ChoosesTheServerWhoseEjectionEndsFirstIfAllAreEjected) {
  const auto backend = open(three());
  fail(backend->servers()[1], 3);
  fail(backend->servers()[0], 3);
  fail(backend->servers()[2], 3);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(backend->choose({}).upstream().port, 2);
}

TEST_F(BackendTest, EjectsForLongerEachTime) {
  ServiceConfig service = three();
  service.health.passive =
      HealthCheckConfig::Passive{.failures = 1, .ejection_time = std::chrono::seconds{1}};
  const auto backend = open(service);
  UpstreamServer& bad = backend->servers()[0];
  auto now = Clock::now();
  for (const int seconds : {1, 2, 4, 8, 8}) {
    bad.record_failure(UpstreamFailure::reset, now);
    EXPECT_FALSE(bad.is_up(now + std::chrono::milliseconds{seconds * 1000 - 1}));
    now += std::chrono::seconds{seconds};
    EXPECT_TRUE(bad.is_up(now));
  }
}

TEST_F(BackendTest, ChangesStateAfterEnoughEqualChecksInARow) {
  ServiceConfig service = three();
  service.health.active = HealthCheckConfig::Active{.path = "/", .healthy = 2, .unhealthy = 3};
  const auto backend = open(service);
  UpstreamServer& server = backend->servers()[0];
  const auto up = [&] { return server.is_up(Clock::now()); };
  for (const bool good : {false, false, true, false, false}) server.record_check(good);
  EXPECT_TRUE(up());
  server.record_check(false);
  EXPECT_FALSE(up());
  server.record_check(true);
  EXPECT_FALSE(up());
  server.record_check(true);
  EXPECT_TRUE(up());
}

TEST_F(BackendTest, CannotBeOpenedWithAnUnknownHost) {
  ServiceConfig service = three();
  service.servers[1].host = "no.such.host.invalid";
  service.servers[1].text = "http://no.such.host.invalid";
  const auto backend = Backend::open(service, metrics);
  ASSERT_FALSE(backend);
  EXPECT_NE(backend.error().message.find("http://no.such.host.invalid"), std::string::npos);
}

}  // namespace
}  // namespace weir::gateway
