#include "gateway/ip_address.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::gateway {
namespace {

std::string again(std::string_view text) {
  const auto address = parse_address(text);
  return address ? to_text(*address) : "none";
}

std::string masked_text(std::string_view text, int v4, int v6) {
  return to_text(masked(*parse_address(text), v4, v6));
}

bool has(std::string_view range, std::string_view address) {
  return parse_range(range)->has(*parse_address(address));
}

TEST(IpAddress, HasOneFormForAllSpellings) {
  EXPECT_EQ(again("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(again("::ffff:192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(again("::FFFF:c000:0201"), "192.0.2.1");
  EXPECT_EQ(again("2001:DB8:0:0:0:0:0:1"), "2001:db8::1");
  EXPECT_EQ(*parse_address("::ffff:10.0.0.1"), *parse_address("10.0.0.1"));
  EXPECT_TRUE(parse_address("10.0.0.1")->is_v4());
  EXPECT_FALSE(parse_address("::1")->is_v4());
}

TEST(IpAddress, RefusesPortsBracketsZonesAndOctalNumbers) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text :
       {""sv, "1"sv, "1.2.3"sv, "1.2.3.4.5"sv, "256.1.1.1"sv, "01.2.3.4"sv, "0x1.2.3.4"sv,
        "1.2.3.4:80"sv, "[::1]"sv, "::1%lo"sv, "::g"sv, " 1.2.3.4"sv, "1.2.3.4\0"sv, "localhost"sv,
        "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd"sv}) {
    EXPECT_FALSE(parse_address(text)) << text;
  }
}

TEST(IpAddress, IsMaskedByThePrefixLengthOfItsFamily) {
  EXPECT_EQ(masked_text("192.0.2.129", 24, 64), "192.0.2.0");
  EXPECT_EQ(masked_text("192.0.2.129", 25, 64), "192.0.2.128");
  EXPECT_EQ(masked_text("192.0.2.129", 32, 64), "192.0.2.129");
  EXPECT_EQ(masked_text("192.0.2.129", 1, 64), "128.0.0.0");
  EXPECT_EQ(masked_text("2001:db8:1:2:3:4:5:6", 24, 64), "2001:db8:1:2::");
  EXPECT_EQ(masked_text("2001:db8:1:2:3:4:5:6", 24, 128), "2001:db8:1:2:3:4:5:6");
  EXPECT_EQ(masked_text("ffff::", 24, 1), "8000::");
}

TEST(IpRange, ContainsAddressesWithItsPrefix) {
  EXPECT_TRUE(has("10.0.0.0/8", "10.255.0.1"));
  EXPECT_TRUE(has("10.1.2.3/8", "10.255.0.1"));
  EXPECT_FALSE(has("10.0.0.0/8", "11.0.0.1"));
  EXPECT_TRUE(has("10.0.0.0/8", "::ffff:10.0.0.1"));
  EXPECT_FALSE(has("10.0.0.0/8", "a00::1"));
  EXPECT_TRUE(has("0.0.0.0/0", "1.2.3.4"));
  EXPECT_FALSE(has("0.0.0.0/0", "::1"));
  EXPECT_TRUE(has("::/0", "1.2.3.4"));
  EXPECT_TRUE(has("::1", "::1"));
  EXPECT_FALSE(has("::1", "::2"));
  EXPECT_TRUE(has("2001:db8::/33", "2001:db8:7fff::"));
  EXPECT_FALSE(has("2001:db8::/33", "2001:db8:8000::"));
}

TEST(IpRange, RefusesInvalidPrefixLengths) {
  for (const char* text : {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8x", "10.0.0.0/08",
                           "::/129", "10/8", "/8", "10.0.0.0/8/8", "10.0.0.0/+8"}) {
    EXPECT_FALSE(parse_range(text)) << text;
  }
}

}  // namespace
}  // namespace weir::gateway
