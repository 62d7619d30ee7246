#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "envoy/read_rules.h"
#include "envoy/service.h"
#include "envoy/statistics.h"
#include "store/shared_store.h"
#include "support/redis_connection.h"
#include "support/redis_server.h"
#include "weir/redis.h"

namespace weir::envoy {

// Reads rules that must be valid.
inline std::shared_ptr<const RuleSet> rules(std::string_view yaml,
                                            const ReadOptions& options = {}) {
  ReadRulesResult loaded = read_rules({{.name = "rules.yaml", .text = std::string{yaml}}}, options);
  if (loaded.rules == nullptr) throw std::invalid_argument(loaded.problems());
  return loaded.rules;
}

// [key=value, key=value]
inline RateLimitDescriptor of(
    std::initializer_list<std::pair<std::string_view, std::string_view>> entries) {
  RateLimitDescriptor descriptor;
  for (const auto& [key, value] : entries) descriptor.entries.push_back({key, value});
  return descriptor;
}
inline RateLimitDescriptor with_hits(RateLimitDescriptor descriptor, std::uint64_t hits) {
  descriptor.hits = hits;
  return descriptor;
}
inline RateLimitDescriptor returning(RateLimitDescriptor descriptor, std::uint64_t hits) {
  descriptor.hits = hits;
  descriptor.gives_back = true;
  return descriptor;
}
inline RateLimitDescriptor limited(RateLimitDescriptor descriptor, std::uint32_t requests,
                                   Unit unit) {
  descriptor.limit = LimitOverride{.requests_per_unit = requests, .unit = unit};
  return descriptor;
}

// For an engine without a fleet: never used.
class NoLink final : public Link {
 public:
  int descriptor() const noexcept override { return -1; }
  void run_ready() override {}
  void flush() override {}
  void wait(Nanos) override {}

 private:
  store::SharedStore& store() noexcept override { std::terminate(); }
};

// A service with its own store.
class World {
 public:
  enum class Store { memory, redis };

  explicit World(std::string_view yaml, const ServiceOptions& options = {},
                 Store store = Store::memory)
      : fleet_(store == Store::redis ? new_fleet() : nullptr),
        link_(fleet_ ? fleet_->connect() : std::make_unique<NoLink>()),
        engine(PolicySet{},
               {.memory = {.bytes = std::size_t{1} << 20}, .clock = &clock, .fleet = fleet_.get()}),
        service(engine) {
    service.use(rules(yaml), options);
  }

  Result<RateLimitResponse, ServiceError> ask(std::string_view domain,
                                              std::vector<RateLimitDescriptor> descriptors,
                                              std::uint32_t hits = 0) {
    const RateLimitRequest call{
        .domain = domain, .descriptors = std::move(descriptors), .hits = hits};
    std::optional<Result<RateLimitResponse, ServiceError>> answer;
    service.should_rate_limit(call, *link_, [&](Result<RateLimitResponse, ServiceError> given) {
      EXPECT_FALSE(answer.has_value());
      answer = std::move(given);
    });
    while (!answer) link_->wait(std::chrono::milliseconds{50});
    return *std::move(answer);
  }
  // The same for a request that must get a response.
  RateLimitResponse call(std::string_view domain, std::vector<RateLimitDescriptor> descriptors,
                         std::uint32_t hits = 0) {
    auto answer = ask(domain, std::move(descriptors), hits);
    EXPECT_TRUE(answer) << answer.error().text;
    return answer ? *std::move(answer)
                  : RateLimitResponse{.overall = Code::unknown, .statuses = {}};
  }

  RuleCounts counts_of(std::string_view key) const {
    for (const RuleCounts& counts : service.counts().rules) {
      if (counts.key == key) return counts;
    }
    return {};
  }

  Link& link() { return *link_; }

 private:
  static std::unique_ptr<Fleet> new_fleet() {
    weir::test_support::RedisServer& server = weir::test_support::RedisServer::shared();
    weir::test_support::RedisConnection(server.socket()).say({"FLUSHALL"});
    auto fleet =
        RedisFleet::open("unix://" + server.socket(), {.timeout = std::chrono::seconds{5}});
    if (!fleet) throw std::runtime_error(fleet.error().message);
    return *std::move(fleet);
  }

  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<Link> link_;

 public:
  ManualClock clock;
  Engine engine;
  RateLimitService service;
};

}  // namespace weir::envoy
