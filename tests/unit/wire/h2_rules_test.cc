// The fields that make a valid HTTP/2 request.

#include "wire/h2_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace weir::wire {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

bool all_allowed(H2Rules& rules, const Fields& fields) {
  for (const auto& [name, value] : fields) {
    if (!rules.allow(h2_name_of(name), name, value, false)) return false;
  }
  return true;
}

bool make_request(const Fields& fields) {
  H2Rules rules;
  return all_allowed(rules, fields) && rules.make_request();
}

const Fields kGood{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "a"}};

Fields good_and(const std::string& name, const std::string& value) {
  Fields fields = kGood;
  fields.emplace_back(name, value);
  return fields;
}

Fields good_with(const std::string& name, const std::string& value) {
  Fields fields = kGood;
  for (auto& field : fields) {
    if (field.first == name) field.second = value;
  }
  return fields;
}

Fields good_without(const std::string& name) {
  Fields fields = kGood;
  std::erase_if(fields, [&](const auto& field) { return field.first == name; });
  return fields;
}

TEST(H2Rules, RequireMethodSchemePathAndHost) {
  EXPECT_TRUE(make_request(kGood));
  for (const auto& [name, value] : kGood) EXPECT_FALSE(make_request(good_without(name))) << name;
  Fields with_host = good_without(":authority");
  with_host.emplace_back("host", "a");
  EXPECT_TRUE(make_request(with_host));
  EXPECT_FALSE(make_request({}));
}

TEST(H2Rules, RequirePseudoFieldsOnceAndFirst) {
  for (const auto& [name, value] : kGood) {
    EXPECT_FALSE(make_request(good_and(name, value))) << name;
    Fields late = good_without(name);
    late.emplace_back("x", "y");
    late.emplace_back(name, value);
    EXPECT_FALSE(make_request(late)) << name;
  }
  EXPECT_FALSE(make_request(good_and(":status", "200")));
  EXPECT_FALSE(make_request(good_and(":protocol", "websocket")));
  EXPECT_FALSE(make_request(good_and(":", "x")));
}

TEST(H2Rules, RefuseEmptyPseudoFields) {
  for (const auto& [name, value] : kGood) EXPECT_FALSE(make_request(good_with(name, ""))) << name;
  EXPECT_FALSE(make_request(good_and("host", "")));
  EXPECT_TRUE(make_request(good_and("content-type", "")));
  // Also from HPACK's static table, whose :authority is empty.
  H2Rules rules;
  EXPECT_FALSE(rules.allow(H2Name::authority, ":authority", "", true));
}

TEST(H2Rules, RefuseMalformedPaths) {
  EXPECT_TRUE(make_request(good_with(":path", "/a?b=c")));
  for (const char* path : {"", "a", "*", "http://a/", "/a b", "/a\tb", "/a\nb"}) {
    EXPECT_FALSE(make_request(good_with(":path", path))) << path;
  }
  Fields of_all = good_with(":path", "*");
  of_all[0].second = "OPTIONS";
  EXPECT_TRUE(make_request(of_all));
}

TEST(H2Rules, RequireOnlyAnAuthorityForConnect) {
  EXPECT_TRUE(make_request({{":method", "CONNECT"}, {":authority", "a:80"}}));
  EXPECT_FALSE(make_request({{":method", "CONNECT"}, {":authority", "a:80"}, {":path", "/"}}));
  EXPECT_FALSE(make_request({{":method", "CONNECT"}, {":scheme", "http"}, {":authority", "a:80"}}));
  EXPECT_FALSE(make_request({{":method", "CONNECT"}}));
}

TEST(H2Rules, RefuseCharactersThatAreSpecialInHttp1) {
  for (const char* name : {"", "X", "a b", "a:", "a\r", "a\n", "é", "a\x7f"}) {
    EXPECT_FALSE(make_request(good_and(name, "v"))) << name;
  }
  for (const std::string& value :
       {std::string("a\nb"), std::string("a\rb"), std::string("a\0b", 3), std::string(" a"),
        std::string("a "), std::string("\ta"), std::string("a\x7f")}) {
    EXPECT_FALSE(make_request(good_and("x", value))) << value;
  }
  EXPECT_TRUE(make_request(good_and("x-~!#$%&'*+^_`|1", "")));
  EXPECT_TRUE(make_request(good_and("x", "a \t b \x80\xff")));
  EXPECT_FALSE(make_request(good_with(":method", "GET /")));
  EXPECT_FALSE(make_request(good_with(":method", "")));
  EXPECT_FALSE(make_request(good_with(":scheme", "ht tp")));
  EXPECT_FALSE(make_request(good_with(":authority", "a b")));
  EXPECT_FALSE(make_request(good_with(":authority", "a/b")));
  EXPECT_FALSE(make_request(good_and("host", "a\\b")));
}

TEST(H2Rules, RefuseConnectionFieldsOfHttp1) {
  for (const char* name :
       {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}) {
    EXPECT_FALSE(make_request(good_and(name, "x"))) << name;
  }
  EXPECT_FALSE(make_request(good_and("te", "gzip")));
  EXPECT_FALSE(make_request(good_and("te", "trailers, gzip")));
  EXPECT_TRUE(make_request(good_and("te", "Trailers")));
}

TEST(H2Rules, AcceptOneContentLengthThatIsANumber) {
  H2Rules rules;
  EXPECT_TRUE(all_allowed(rules, good_and("content-length", "9223372036854775807")));
  EXPECT_EQ(rules.length(), 9223372036854775807u);
  for (const char* length :
       {"", "+1", "-1", "1 ", "0x1", "1,1", "9223372036854775808", "99999999999999999999"}) {
    EXPECT_FALSE(make_request(good_and("content-length", length))) << length;
  }
  Fields twice = good_and("content-length", "1");
  twice.emplace_back("content-length", "1");
  EXPECT_FALSE(make_request(twice));
}

TEST(H2Rules, RefuseFramingFieldsInTrailers) {
  const auto allowed = [](const char* name, const char* value) {
    H2Rules rules = H2Rules::of_trailers();
    return rules.allow(h2_name_of(name), name, value, false);
  };
  EXPECT_TRUE(allowed("x-checksum", "1"));
  for (const char* name : {":path", ":method", ":authority", ":scheme", "host", "content-length",
                           "transfer-encoding", "connection"}) {
    EXPECT_FALSE(allowed(name, "1")) << name;
  }
}

TEST(H2Rules, SkipTheCharacterCheckForIndexedFields) {
  H2Rules rules;
  EXPECT_TRUE(rules.allow(H2Name::other, "x", "\n", true));
  EXPECT_FALSE(rules.allow(H2Name::of_http1, "connection", "x", true));
}

}  // namespace
}  // namespace weir::wire
