#include "net/ticket_keys.h"

#include <gtest/gtest.h>

namespace weir::net {
namespace {

using std::chrono_literals::operator""s;
constexpr TicketKeys::SteadyClock::time_point kFirstUse{};
constexpr auto kLifetime = TicketKeys::kLifetime;

TEST(TicketKeys, UsesOneKeyForItsLifetime) {
  TicketKeys keys;
  const auto first = keys.current(kFirstUse);
  ASSERT_TRUE(first);
  EXPECT_EQ(keys.current(kFirstUse + kLifetime - 1s)->name, first->name);
  const auto second = keys.current(kFirstUse + kLifetime);
  EXPECT_NE(second->name, first->name);
  EXPECT_NE(second->cipher, first->cipher);
  EXPECT_NE(second->mac, first->mac);
}

TEST(TicketKeys, AcceptsAKeyForAnotherLifetimeAndAsksForRenewal) {
  TicketKeys keys;
  const auto first = keys.current(kFirstUse);
  EXPECT_TRUE(keys.find(first->name, kFirstUse + kLifetime - 1s)->is_current);
  const auto old = keys.find(first->name, kFirstUse + kLifetime);
  ASSERT_TRUE(old);
  EXPECT_FALSE(old->is_current);
  EXPECT_EQ(old->key.cipher, first->cipher);
  EXPECT_TRUE(keys.find(first->name, kFirstUse + 2 * kLifetime - 1s));
  EXPECT_FALSE(keys.find(first->name, kFirstUse + 2 * kLifetime));
}

TEST(TicketKeys, ForgetsKeysThatExpiredWhileTheServerWasIdle) {
  TicketKeys keys;
  const auto first = keys.current(kFirstUse);
  EXPECT_FALSE(keys.find(first->name, kFirstUse + 2 * kLifetime));
}

TEST(TicketKeys, DoesNotFindKeysOfAnotherServer) {
  TicketKeys keys, others;
  EXPECT_FALSE(keys.find(others.current(kFirstUse)->name, kFirstUse));
}

}  // namespace
}  // namespace weir::net
