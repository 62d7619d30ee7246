#include "gateway/client_address.h"

#include <gtest/gtest.h>

#include "fields.h"

namespace weir::gateway {
namespace {

const std::vector<AddressRange> kTrusted = ranges({"10.0.0.0/8", "2001:db8::/32"});

std::string client(std::string_view peer, const FieldList& fields,
                   ClientFrom from = ClientFrom::either) {
  return to_text(client_address(address(peer), fields, kTrusted, from));
}

TEST(Client, IsThePeerWhereNobodyIsTrusted) {
  EXPECT_EQ(client("192.0.2.1", {}), "192.0.2.1");
  EXPECT_EQ(client("192.0.2.1", {{"X-Forwarded-For", "1.1.1.1"}}), "192.0.2.1");
  EXPECT_EQ(client("192.0.2.1", {{"Forwarded", "for=1.1.1.1"}}), "192.0.2.1");
  EXPECT_EQ(client("10.0.0.1", {}), "10.0.0.1");
}

TEST(Client, IsTheFirstFromTheRightThatIsNotTrusted) {
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "1.1.1.1"}}), "1.1.1.1");
  EXPECT_EQ(client("10.0.0.1", {{"x-forwarded-for", "6.6.6.6, 1.1.1.1, 10.0.0.2"}}), "1.1.1.1");
  EXPECT_EQ(client("::ffff:10.0.0.1", {{"X-Forwarded-For", "::ffff:1.1.1.1"}}), "1.1.1.1");
  // All of them are: the farthest.
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "10.0.0.9, 10.0.0.2"}}), "10.0.0.9");
}

// Several lines are one list; Spring's helper drops them, and everybody shares the proxy's bucket.
TEST(Client, IsFoundInSeveralLines) {
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "6.6.6.6"},
                                {"Accept", "*/*"},
                                {"X-Forwarded-For", "1.1.1.1"},
                                {"X-Forwarded-For", "10.0.0.2"}}),
            "1.1.1.1");
}

TEST(Client, HasAddressesInAllForms) {
  const auto by_x = [](std::string_view text) {
    return client("10.0.0.1", {{"X-Forwarded-For", text}});
  };
  EXPECT_EQ(by_x("1.1.1.1:4711"), "1.1.1.1");
  EXPECT_EQ(by_x("2001:DB9::1"), "2001:db9::1");
  EXPECT_EQ(by_x("[2001:db9::1]"), "2001:db9::1");
  EXPECT_EQ(by_x("[2001:db9::1]:4711"), "2001:db9::1");
  EXPECT_EQ(by_x(" \t1.1.1.1\t ,, , 10.0.0.2 ,"), "1.1.1.1");
}

// Nobody chooses his address: the worst he can do is to be counted as the proxy that told it.
TEST(Client, IsTheProxyThatToldNonsense) {
  for (const char* text : {"unknown", "_hidden", "1.1.1.1.1", "<script>", "[::1", "::1%eth0",
                           "\"1.1.1.1\"", "1.1.1.1 2.2.2.2"}) {
    EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", text}}), "10.0.0.1") << text;
    const std::string list = std::string{"1.1.1.1, "} + text + ", 10.0.0.2";
    EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", list}}), "10.0.0.2") << text;
  }
}

TEST(Client, IsToldByTheStandardAsWell) {
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
  // A quote that a client leaves open swallows what is on its left, not what proxies appended.
  EXPECT_EQ(by_standard("for=\"6.6.6.6, for=1.1.1.1"), "1.1.1.1");
}

// A proxy that knows one of the two passes the other on as its client wrote it.
TEST(Client, IsNobodyOfTwoThatDiffer) {
  const FieldList both{{"X-Forwarded-For", "1.1.1.1"}, {"Forwarded", "for=6.6.6.6"}};
  EXPECT_EQ(client("10.0.0.1", both), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", both, ClientFrom::x_forwarded_for), "1.1.1.1");
  EXPECT_EQ(client("10.0.0.1", both, ClientFrom::forwarded), "6.6.6.6");
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "1.1.1.1"}, {"Forwarded", "for=1.1.1.1"}}),
            "1.1.1.1");
  EXPECT_EQ(client("10.0.0.1", {{"Forwarded", "for=6.6.6.6"}}, ClientFrom::x_forwarded_for),
            "10.0.0.1");
}

TEST(Client, IsNotLookedForWithoutEnd) {
  std::string list = "1.1.1.1";
  for (int i = 0; i < 100; ++i) list += ", 10.0.0.2";
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", list}}), "10.0.0.2");
}

}  // namespace
}  // namespace weir::gateway
