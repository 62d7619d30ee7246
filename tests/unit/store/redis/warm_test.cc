// A link that is warm allocates nothing.

#include <gtest/gtest.h>

#include "../../allocations.h"
#include "server.h"
#include "store/redis/link.h"

namespace weir::store::redis {
namespace {

class Callers final : public StoreCallback {
 public:
  static constexpr std::size_t kCount = 64;

  Callers() {
    keys_.reserve(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      keys_.push_back("weir:{caller " + std::to_string(i) + "}");
      items_[i] = {.limit = &limit_, .key = keys_[i]};
      requests_[i].items = {&items_[i], 1};
    }
  }

  void on_response(StoreResponse& answer) override {
    ++answers;
    decided += answer.kind == StoreResponse::Kind::decided ? 1 : 0;
  }

  // Sends all takes at once.
  void take(RedisLink& link) {
    answers = decided = 0;
    for (const StoreRequest& request : requests_) link.ask(request, *this);
    while (answers < kCount) link.wait(std::chrono::seconds{1});
  }

  std::size_t answers = 0;
  std::size_t decided = 0;

 private:
  core::Limit limit_ =
      *core::Bucket::make({.count = 1, .period = std::chrono::hours{24}}, 1'000'000);
  std::vector<std::string> keys_;
  std::array<StoreItem, kCount> items_{};
  std::array<StoreRequest, kCount> requests_{};
};

TEST(WarmRedisLinkTest, AllocatesNothing) {
  RedisServer server;
  LinkOptions options;
  options.connection.timeout = std::chrono::seconds{60};
  options.address = {.host = "127.0.0.1", .port = server.port()};
  options.make_codec = make_script_codec;
  RedisLink link(options, std::make_shared<LinkCounts>(), 1);
  Callers callers;
  while (!link.fsm().is_ready()) link.wait(std::chrono::seconds{1});
  for (int i = 0; i < 10; ++i) callers.take(link);
  const std::size_t before = allocations();
  for (int i = 0; i < 100; ++i) {
    callers.take(link);
    ASSERT_EQ(callers.decided, Callers::kCount);
  }
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace weir::store::redis
