#include "weir/redis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <thread>

#include "../store/redis/server.h"
#include "core/limit.h"
#include "store/link_access.h"

namespace weir {
namespace {

using std::chrono::milliseconds;
using store::redis::RedisServer;
using testing::HasSubstr;

std::string error_of(std::string_view url, RedisOptions options = {}) {
  const auto fleet = RedisFleet::open(url, std::move(options));
  return fleet ? "" : fleet.error().message;
}

TEST(RedisFleetTest, OpensAllKindsOfUrls) {
  for (const char* url : {"redis://127.0.0.1", "redis://me:p%40ss@[::1]:1/2",
                          "rediss://:pass@redis.example", "unix:///run/redis.sock",
                          "redis+cluster://a,b:1", "rediss+sentinel://me:pass@a,[::1]:1/main"}) {
    EXPECT_EQ(error_of(url), "");
  }
}

TEST(RedisFleetTest, ReportsInvalidUrls) {
  EXPECT_THAT(error_of("redis:/x"), HasSubstr("did you mean \"redis://\"?"));
  EXPECT_THAT(error_of("memory"), HasSubstr("not a store that nodes can share"));
  EXPECT_THAT(error_of("redis+sentinel://a"),
              HasSubstr("takes the name of the master after the host"));
  EXPECT_THAT(error_of("redis+cluster://a/1"), HasSubstr("takes nothing after the host"));
}

TEST(RedisFleetTest, ReportsInvalidOptions) {
  EXPECT_THAT(error_of("redis://a", {.ca = "ca.pem"}), HasSubstr("rediss://"));
  EXPECT_THAT(error_of("rediss://a", {.cert = "a.pem"}), HasSubstr("both cert and key"));
  EXPECT_THAT(error_of("rediss://a", {.ca = "/no/such.pem"}), HasSubstr("/no/such.pem"));
  EXPECT_THAT(error_of("redis://a", {.timeout = Nanos{0}}), HasSubstr("at least 1 ms"));
}

// Takes, and waits for the response.
class Taker final : public store::StoreCallback {
 public:
  explicit Taker(std::string name = "key") : key_(std::move(name)) {
    item_.limit = &limit_;
    item_.key = key_;
    request_.items = {&item_, 1};
  }
  void on_response(store::StoreResponse& received) override {
    answered = true;
    answer = received;
  }
  store::StoreResponse& take(Link& link) {
    answered = false;
    detail::LinkAccess::store(link).ask(request_, *this);
    while (!answered) link.wait(milliseconds{50});
    return answer;
  }
  // Repeats the take until it is decided.
  store::StoreResponse& take_until_decided(Link& link) {
    while (take(link).kind != store::StoreResponse::Kind::decided) link.wait(milliseconds{5});
    return answer;
  }

  bool answered = false;
  store::StoreResponse answer{};

 private:
  const std::string key_;
  core::Limit limit_ = core::Window{.count = 3, .period = std::chrono::hours{24 * 365 * 50}};
  store::StoreItem item_{};
  store::StoreRequest request_{};
};

std::string url_of(const RedisServer& server) {
  return "redis://127.0.0.1:" + std::to_string(server.port());
}

TEST(RedisFleetTest, LinksShareALimit) {
  RedisServer server;
  const auto fleet = *RedisFleet::open(url_of(server), {.timeout = std::chrono::seconds{30}});
  const auto one = fleet->connect();
  const auto other = fleet->connect();
  Taker taker;
  EXPECT_EQ(taker.take_until_decided(*one).verdict.decision.remaining, 2);
  EXPECT_EQ(taker.take_until_decided(*other).verdict.decision.remaining, 1);
  EXPECT_EQ(taker.take_until_decided(*one).verdict.decision.remaining, 0);
  EXPECT_EQ(taker.take_until_decided(*other).verdict.decision.outcome, Outcome::limited);
}

TEST(RedisFleetTest, KeepsTheCountsOfClosedLinks) {
  RedisServer server;
  const auto fleet = *RedisFleet::open(url_of(server), {.timeout = std::chrono::seconds{30}});
  auto one = fleet->connect();
  const auto other = fleet->connect();
  Taker taker;
  taker.take_until_decided(*one);
  taker.take_until_decided(*other);
  RedisCounts counts = fleet->counts();
  EXPECT_EQ(counts.links, 2u);
  EXPECT_EQ(counts.connected, 2u);
  EXPECT_EQ(counts.connects, 2u);
  EXPECT_GE(counts.calls, 2u);
  EXPECT_GE(counts.round_trips, 2u);
  EXPECT_GT(counts.answer_time, Nanos{0});
  one.reset();
  const RedisCounts after = fleet->counts();
  EXPECT_EQ(after.links, 1u);
  EXPECT_EQ(after.connected, 1u);
  EXPECT_EQ(after.connects, 2u);
  EXPECT_EQ(after.calls, counts.calls);
}

TEST(RedisFleetTest, ThreadsHaveLinksOfTheirOwn) {
  RedisServer server;
  const auto fleet = *RedisFleet::open(url_of(server), {.timeout = std::chrono::seconds{30}});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const auto link = fleet->connect();
      Taker taker("key " + std::to_string(i));
      EXPECT_EQ(taker.take_until_decided(*link).verdict.decision.remaining, 2);
      (void)fleet->counts();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fleet->counts().links, 0u);
}

// Runs links until a condition holds.
void run_until(std::initializer_list<Link*> links, const std::function<bool()>& holds) {
  while (!holds()) {
    for (Link* link : links) link->wait(milliseconds{5});
  }
}

TEST(RedisFleetTest, IsAMemberWhileALinkRuns) {
  RedisServer server;
  const auto fleet = *RedisFleet::open(
      url_of(server), {.timeout = std::chrono::seconds{30}, .node_name = "one of us"});
  EXPECT_FALSE(fleet->is_member());
  EXPECT_EQ(fleet->membership_version(), 0u);
  EXPECT_EQ(fleet->all_nodes().generation, 0u);
  const auto link = fleet->connect();
  run_until({link.get()}, [&] { return fleet->is_member(); });
  const RedisNodes all = fleet->all_nodes();
  EXPECT_TRUE(all.member);
  EXPECT_EQ(all.generation, 1u);
  ASSERT_EQ(all.nodes.size(), 1u);
  EXPECT_EQ(all.nodes[0].name, "one_of_us");
  EXPECT_FALSE(all.nodes[0].version.empty());
  EXPECT_TRUE(all.nodes[0].self);
  EXPECT_FALSE(fleet->is_misconfigured());
  run_until({link.get()}, [&] { return !fleet->is_member() || fleet->membership_version() > 1; });
}

TEST(RedisFleetTest, KnowsOtherNodesUntilTheyLeave) {
  RedisServer server;
  const RedisOptions options{.timeout = std::chrono::seconds{30}};
  const auto fleet = *RedisFleet::open(url_of(server), options);
  auto other = *RedisFleet::open(url_of(server), options);
  const auto link = fleet->connect();
  auto others = other->connect();
  run_until({link.get(), others.get()}, [&] { return fleet->nodes() == 2; });
  run_until({link.get(), others.get()}, [&] { return other->nodes() == 2; });
  others.reset();
  other.reset();
  run_until({link.get()}, [&] { return fleet->nodes() == 1; });
  const Membership membership = fleet->membership(0);
  EXPECT_EQ(membership.version, fleet->membership_version());
  EXPECT_EQ(membership.steps.back().places.back(), (Membership::NodeRank{.nodes = 1, .rank = 0}));
}

TEST(RedisFleetTest, DistinguishesAMisconfigurationFromAnOutage) {
  RedisServer server({"--requirepass", "right"});
  const auto fleet = *RedisFleet::open("redis://:wrong@127.0.0.1:" + std::to_string(server.port()),
                                       {.timeout = std::chrono::seconds{30}});
  const auto link = fleet->connect();
  run_until({link.get()}, [&] { return fleet->is_misconfigured(); });
  EXPECT_FALSE(fleet->is_member());
}

TEST(RedisFleetTest, LogsWhereItConnects) {
  RedisServer server;
  std::vector<std::string> lines;
  const auto fleet = *RedisFleet::open(
      url_of(server),
      {.timeout = std::chrono::seconds{30},
       .log = [&](RedisOptions::Level, std::string_view text) { lines.emplace_back(text); }});
  const auto link = fleet->connect();
  Taker().take_until_decided(*link);
  EXPECT_THAT(lines, testing::Contains(url_of(server) + ": connected"));
}

}  // namespace
}  // namespace weir
