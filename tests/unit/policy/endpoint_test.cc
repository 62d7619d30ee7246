#include "policy/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Kind = StoreAddress::Kind;

StoreAddress store(std::string_view text) {
  auto address = parse_store(text, {});
  EXPECT_TRUE(address) << text;
  return address ? *address : StoreAddress{};
}

TEST(StoreAddressTest, HasAHostAndADatabase) {
  const StoreAddress address = store("redis://redis.example:7000/3");
  EXPECT_EQ(address.kind, Kind::redis);
  EXPECT_FALSE(address.tls);
  EXPECT_THAT(address.hosts, ElementsAre(Endpoint{"redis.example", 7000}));
  EXPECT_EQ(address.database, 3u);
  EXPECT_EQ(address.user + address.password, "");
}

TEST(StoreAddressTest, HasDefaultPortsForRedisAndSentinels) {
  EXPECT_THAT(store("rediss://[::1]").hosts, ElementsAre(Endpoint{"::1", 6379}));
  EXPECT_TRUE(store("rediss://[::1]").tls);
  EXPECT_THAT(store("redis+cluster://a,b:1").hosts,
              ElementsAre(Endpoint{"a", 6379}, Endpoint{"b", 1}));
  const StoreAddress sentinels = store("redis+sentinel://a,b:1/main");
  EXPECT_EQ(sentinels.kind, Kind::sentinel);
  EXPECT_THAT(sentinels.hosts, ElementsAre(Endpoint{"a", 26379}, Endpoint{"b", 1}));
  EXPECT_EQ(sentinels.master, "main");
}

TEST(StoreAddressTest, AcceptsAnyCharacterInAPassword) {
  EXPECT_EQ(store("redis://user:pa:ss@a").user, "user");
  EXPECT_EQ(store("redis://user:pa:ss@a").password, "pa:ss");
  EXPECT_EQ(store("redis://:p@ss@a").password, "p@ss");
  EXPECT_EQ(store("redis://:p%40%2Fs%3A@a").password, "p@/s:");
  EXPECT_EQ(store("redis://:100%@a").password, "100%");
  EXPECT_EQ(store("redis://:5%of@a").password, "5%of");
  EXPECT_EQ(store("redis://:5%zz@a").password, "5%zz");
  EXPECT_EQ(store("redis://:a%2@a").password, "a%2");
}

TEST(StoreAddressTest, RefusesAUserWithoutAPassword) {
  for (const char* text : {"redis://secret@a", "redis://secret:@a"}) {
    const auto address = parse_store(text, {});
    ASSERT_FALSE(address);
    EXPECT_THAT(address.error().message, HasSubstr("write user:password@"));
    EXPECT_THAT(address.error().message, Not(HasSubstr("secret")));
  }
}

TEST(StoreAddressTest, ReadsAUnixSocketAndMemory) {
  EXPECT_EQ(store("unix:///run/redis.sock").kind, Kind::unix_socket);
  EXPECT_EQ(store("unix:///run/redis.sock").path, "/run/redis.sock");
  EXPECT_EQ(store("memory").kind, Kind::memory);
}

}  // namespace
}  // namespace weir::policy
