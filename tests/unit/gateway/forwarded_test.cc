#include "gateway/forwarded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fields.h"

namespace weir::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;

const IpAddress kStranger = address("192.0.2.1");
const IpAddress kProxy = address("2001:db8::7");

std::string sent(const FieldList& fields, const Hop& hop) {
  std::string out;
  append_request_fields(out, hop, fields);
  return out;
}
std::string sent_by_stranger(const FieldList& fields, ForwardedStyle style = ForwardedStyle::off) {
  return sent(fields,
              {.peer = kStranger, .port = 8080, .host = "shop.example.com", .style = style});
}
std::string sent_by_proxy(const FieldList& fields, ForwardedStyle style) {
  return sent(fields,
              {.peer = kProxy, .trusted = true, .port = 8080, .host = "a:8443", .style = style});
}

TEST(AppendRequestFields, DropsHopByHopFields) {
  EXPECT_EQ(sent_by_stranger({{"Host", "a"},
                              {"Accept", "*/*"},
                              {"Connection", "keep-alive, X-Mine ,, upgrade"},
                              {"Keep-Alive", "5"},
                              {"Proxy-Connection", "close"},
                              {"TE", "trailers"},
                              {"Transfer-Encoding", "chunked"},
                              {"Content-Length", "5"},
                              {"Upgrade", "h2c"},
                              {"HTTP2-Settings", "x"},
                              {"Expect", "100-continue"},
                              {"Proxy-Authorization", "Basic x"},
                              {"x-mine", "1"},
                              {"X-Yours", "2"}}),
            "Accept: */*\r\nX-Yours: 2\r\n");
}

// Otherwise a client could hide its address from the service, or desynchronise it (request
// smuggling).
TEST(HopByHopFields, CannotIncludeEndToEndFields) {
  const HopByHopFields hop(FieldList{
      {"Connection",
       "Host, Content-Length, X-Forwarded-For, x_forwarded_host, Forwarded, X-Real-IP"},
      {"connection", "Authorization, Cookie, X-Request-Id, traceparent, Content-Type, X-Free"}});
  for (const char* name :
       {"Host", "Content-Length", "X-Forwarded-For", "X_Forwarded_Host", "Forwarded", "X-Real-IP",
        "authorization", "COOKIE", "X-Request-Id", "Traceparent", "Content-Type"}) {
    EXPECT_FALSE(hop.drops(name)) << name;
  }
  EXPECT_TRUE(hop.drops("x-free"));
  EXPECT_TRUE(hop.drops("CONNECTION"));
  std::string many = "x-last";
  for (int i = 0; i < 10'000; ++i) many.insert(0, "a" + std::to_string(i) + ",");
  const HopByHopFields flood(FieldList{{"Connection", many}});
  EXPECT_TRUE(flood.drops("a9999"));
  EXPECT_FALSE(flood.drops("x-last"));
}

TEST(AppendRequestFields, ReplacesForwardingFieldsOfAnUntrustedClient) {
  const FieldList spoofed{{"X-Forwarded-For", "6.6.6.6"},   {"x_forwarded_for", "6.6.6.6"},
                          {"X-Forwarded-Proto", "https"},   {"X-Forwarded-Host", "evil"},
                          {"X-Forwarded-Anything", "evil"}, {"Forwarded", "for=6.6.6.6"},
                          {"X-Real-IP", "6.6.6.6"}};
  EXPECT_EQ(sent_by_stranger(spoofed), "");
  EXPECT_EQ(sent_by_stranger(spoofed, ForwardedStyle::both),
            "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n"
            "X-Forwarded-Host: shop.example.com\r\nX-Forwarded-Port: 8080\r\n"
            "Forwarded: for=192.0.2.1;host=\"shop.example.com\";proto=http\r\n");
}

TEST(AppendRequestFields, AppendsToForwardingFieldsOfATrustedProxy) {
  const FieldList forwarded{
      {"X-Forwarded-For", "1.1.1.1"}, {"X-Forwarded-For", "2.2.2.2"},
      {"X-Forwarded-Proto", "https"}, {"X-Forwarded-Host", "shop.example.com"},
      {"X-Forwarded-Port", "443"},    {"X-Real-IP", "1.1.1.1"},
      {"Forwarded", "for=1.1.1.1"}};
  EXPECT_EQ(sent_by_proxy(forwarded, ForwardedStyle::x),
            "X-Real-IP: 1.1.1.1\r\n"
            "X-Forwarded-For: 1.1.1.1, 2.2.2.2, 2001:db8::7\r\nX-Forwarded-Proto: https\r\n"
            "X-Forwarded-Host: shop.example.com\r\nX-Forwarded-Port: 443\r\n");
  EXPECT_EQ(sent_by_proxy(forwarded, ForwardedStyle::standard),
            "X-Real-IP: 1.1.1.1\r\n"
            "Forwarded: for=1.1.1.1, for=\"[2001:db8::7]\";host=\"a:8443\";proto=http\r\n");
  EXPECT_THAT(sent_by_proxy(forwarded, ForwardedStyle::off),
              HasSubstr("X-Forwarded-Port: 443\r\n"));
}

TEST(AppendRequestFields, ReplacesInvalidForwardingFieldsOfATrustedProxy) {
  const std::string out = sent_by_proxy({{"X-Forwarded-Proto", "gopher"},
                                         {"X-Forwarded-Host", "a b"},
                                         {"X-Forwarded-Port", "x"},
                                         {"X-Forwarded-For", ""}},
                                        ForwardedStyle::x);
  EXPECT_EQ(
      out,
      "X-Forwarded-For: 2001:db8::7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a:8443\r\n"
      "X-Forwarded-Port: 8443\r\n");
  EXPECT_THAT(sent_by_proxy({{"X-Forwarded-Proto", "https"}, {"X-Forwarded-Proto", "http"}},
                            ForwardedStyle::x),
              HasSubstr("X-Forwarded-Proto: http\r\n"));
}

TEST(AppendRequestFields, UsesTheSchemeHttpsOverTls) {
  EXPECT_THAT(sent({}, {.peer = kStranger, .tls = true, .port = 443, .host = "a"}),
              testing::AllOf(HasSubstr("X-Forwarded-Proto: https\r\n"),
                             HasSubstr("X-Forwarded-Port: 443\r\n"), HasSubstr("proto=https")));
  EXPECT_THAT(sent({}, {.peer = kStranger, .port = 80, .host = ""}),
              Not(HasSubstr("X-Forwarded-Host")));
}

// Servers that map fields to variables would take each of them for the field that the gateway
// writes.
TEST(AppendRequestFields, DropsReservedFieldsInOtherSpellings) {
  EXPECT_EQ(sent_by_stranger({{"Content_Length", "5"},
                              {"content_Length", "5"},
                              {"Transfer_Encoding", "chunked"},
                              {"Keep_Alive", "5"},
                              {"Proxy_Authorization", "a"},
                              {"X_Request_Id", "1"},
                              {"X-Request-Id", "2"},
                              {"X_Mine", "1"}}),
            "X_Mine: 1\r\n");
}

TEST(PassableRequestTrailers, DropsForwardingFields) {
  EXPECT_EQ(passable_request_trailers("X-Sum: 1\r\nX-Forwarded-For: 10.0.0.1\r\nx_real_ip: a\r\n"
                                      "Forwarded: for=a\r\nX_Forwarded_Proto: https\r\n"
                                      "X-Request-Id: 1\r\nX-End: 2\r\n",
                                      {}, {}),
            "X-Sum: 1\r\nX-End: 2\r\n");
  EXPECT_EQ(passable_request_trailers("", {}, {}), "");
}

// Some servers merge trailers into the header.
TEST(PassableRequestTrailers, DropsNamesOfHeaders) {
  const FieldList fields{{"X-Tenant", "a"}};
  const std::vector<std::string> headers_read{"x-user-id"};
  EXPECT_EQ(passable_request_trailers("X-Sum: 1\r\nx_tenant: b\r\nX_User-Id: c\r\n", fields,
                                      headers_read),
            "X-Sum: 1\r\n");
}

TEST(AppendResponseFields, DropsHopByHopFields) {
  std::string out;
  append_response_fields(out, FieldList{{"Content-Type", "text/html"},
                                        {"Content-Length", "5"},
                                        {"Connection", "close, X-Mine"},
                                        {"X-Mine", "1"},
                                        {"Transfer-Encoding", "chunked"},
                                        {"Set-Cookie", "a=1"},
                                        {"Set-Cookie", "b=2"}});
  EXPECT_EQ(out, "Content-Type: text/html\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n");
}

}  // namespace
}  // namespace weir::gateway
