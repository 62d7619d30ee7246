#include "gateway/client_address.h"

#include <gtest/gtest.h>

#include "fields.h"

namespace weir::gateway {
namespace {

const std::vector<IpRange> kTrusted = ranges({"10.0.0.0/8", "2001:db8::/32"});

std::string client(std::string_view peer, const FieldList& fields,
                   ClientFrom from = ClientFrom::either) {
  return to_text(client_address(address(peer), fields, kTrusted, from));
}

TEST(ClientAddress, IsThePeerIfThePeerIsNotTrusted) {
  EXPECT_EQ(client("192.0.2.1", {}), "192.0.2.1");
  EXPECT_EQ(client("192.0.2.1", {{"X-Forwarded-For", "1.1.1.1"}}), "192.0.2.1");
  EXPECT_EQ(client("192.0.2.1", {{"Forwarded", "for=1.1.1.1"}}), "192.0.2.1");
  EXPECT_EQ(client("10.0.0.1", {}), "10.0.0.1");
}

TEST(ClientAddress, IsTheRightmostUntrustedAddress) {
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "1.1.1.1"}}), "1.1.1.1");
  EXPECT_EQ(client("10.0.0.1", {{"x-forwarded-for", "6.6.6.6, 1.1.1.1, 10.0.0.2"}}), "1.1.1.1");
  EXPECT_EQ(client("::ffff:10.0.0.1", {{"X-Forwarded-For", "::ffff:1.1.1.1"}}), "1.1.1.1");
  // All of them are trusted: the farthest is used.
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "10.0.0.9, 10.0.0.2"}}), "10.0.0.9");
}

// Several lines are one list. (Spring's helper ignores all but one, so that all clients share the
// proxy's bucket.)
TEST(ClientAddress, IsFoundInSeveralLines) {
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "6.6.6.6"},
                                {"Accept", "*/*"},
                                {"X-Forwarded-For", "1.1.1.1"},
                                {"X-Forwarded-For", "10.0.0.2"}}),
            "1.1.1.1");
}

TEST(ClientAddress, IsReadWithPortsAndBrackets) {
  const auto by_x = [](std::string_view text) {
    return client("10.0.0.1", {{"X-Forwarded-For", text}});
  };
  EXPECT_EQ(by_x("1.1.1.1:4711"), "1.1.1.1");
  EXPECT_EQ(by_x("2001:DB9::1"), "2001:db9::1");
  EXPECT_EQ(by_x("[2001:db9::1]"), "2001:db9::1");
  EXPECT_EQ(by_x("[2001:db9::1]:4711"), "2001:db9::1");
  EXPECT_EQ(by_x(" \t1.1.1.1\t ,, , 10.0.0.2 ,"), "1.1.1.1");
}

// A client cannot choose its address: at worst it is counted as the proxy that sent the element.
TEST(ClientAddress, IsTheProxyThatSentAnUnreadableElement) {
  for (const char* text : {"unknown", "_hidden", "1.1.1.1.1", "<script>", "[::1", "::1%eth0",
                           "\"1.1.1.1\"", "1.1.1.1 2.2.2.2"}) {
    EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", text}}), "10.0.0.1") << text;
    const std::string list = std::string{"1.1.1.1, "} + text + ", 10.0.0.2";
    EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", list}}), "10.0.0.2") << text;
  }
}

TEST(ClientAddress, IsReadFromForwarded) {
  const auto by_standard = [](std::string_view text) {
    return client("10.0.0.1", {{"Forwarded", text}});
  };
  EXPECT_EQ(by_standard("for=1.1.1.1"), "1.1.1.1");
  EXPECT_EQ(by_standard("FOR=\"1.1.1.1:80\";proto=http"), "1.1.1.1");
  EXPECT_EQ(by_standard("by=10.0.0.1;for=\"[2001:db9::1]:4711\";proto=https, for=10.0.0.2"),
            "2001:db9::1");
  EXPECT_EQ(by_standard("for=6.6.6.6, for=1.1.1.1;host=\"a, for=7.7.7.7\""), "1.1.1.1");
  EXPECT_EQ(by_standard("for=unknown, for=10.0.0.2"), "10.0.0.2");
  EXPECT_EQ(by_standard("for=_x"), "10.0.0.1");
  EXPECT_EQ(by_standard("proto=https"), "10.0.0.1");
  EXPECT_EQ(by_standard("for"), "10.0.0.1");
  // An unclosed quote of a client swallows the elements on its left, not those that proxies
  // appended.
  EXPECT_EQ(by_standard("for=\"6.6.6.6, for=1.1.1.1"), "1.1.1.1");
}

// A proxy that sets one of the two headers forwards the other one as its client wrote it.
TEST(ClientAddress, IsThePeerIfBothHeadersDiffer) {
  const FieldList both{{"X-Forwarded-For", "1.1.1.1"}, {"Forwarded", "for=6.6.6.6"}};
  EXPECT_EQ(client("10.0.0.1", both), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", both, ClientFrom::x_forwarded_for), "1.1.1.1");
  EXPECT_EQ(client("10.0.0.1", both, ClientFrom::forwarded), "6.6.6.6");
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "1.1.1.1"}, {"Forwarded", "for=1.1.1.1"}}),
            "1.1.1.1");
  EXPECT_EQ(client("10.0.0.1", {{"Forwarded", "for=6.6.6.6"}}, ClientFrom::x_forwarded_for),
            "10.0.0.1");
}

TEST(ClientAddress, StopsAfterABoundedNumberOfProxies) {
  std::string list = "1.1.1.1";
  for (int i = 0; i < 100; ++i) list += ", 10.0.0.2";
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", list}}), "10.0.0.2");
}

}  // namespace
}  // namespace weir::gateway
