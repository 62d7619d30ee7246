#include "gateway/request_key.h"

#include <gtest/gtest.h>

#include "fields.h"
#include "gateway/config_yaml.h"
#include "gateway/jwt.h"

namespace weir::gateway {
namespace {

using Kind = KeySource::SourceKind;
using KeyStatus = RequestKey::KeyStatus;

KeySource source(Kind kind, std::string name = {}) {
  return {.kind = kind, .name = std::move(name)};
}

// A request from which keys are made.
struct TestRequest {
  std::string method = "GET";
  std::string host = "Shop.example.com:80";
  std::string path = "/api/v1/users";
  std::string query{};
  FieldList fields{};
  std::string client = "192.0.2.129";

  RequestKey made(const std::vector<KeyPart>& key, const JwtReader* jwt = nullptr) const {
    std::string name;
    Path read;
    EXPECT_TRUE(read_host(host, name));
    EXPECT_TRUE(read_path(path, read));
    const IpAddress address_of_client = address(client);
    RequestKey into;
    make_key(key, jwt,
             {.method = method,
              .host = name,
              .path = read,
              .query = query,
              .fields = fields,
              .client = address_of_client,
              .now = Instant{std::chrono::seconds{1'000}}},
             into);
    return into;
  }
  std::string key(std::vector<KeySource> sources, const JwtReader* jwt = nullptr) const {
    const std::vector<KeyPart> parts{{.name = "", .sources = std::move(sources)}};
    const RequestKey made_key = made(parts, jwt);
    if (made_key.status() == KeyStatus::empty) return "EMPTY";
    if (made_key.status() == KeyStatus::ambiguous) return "AMBIGUOUS";
    Request request;
    made_key.fill(request);
    return std::string{request.key};
  }
  std::string key(KeySource one, const JwtReader* jwt = nullptr) const {
    return key(std::vector<KeySource>{std::move(one)}, jwt);
  }
};

TEST(RequestKey, IsAnAddressOrItsPrefix) {
  TestRequest test_request;
  EXPECT_EQ(test_request.key(source(Kind::ip)), "192.0.2.129");
  EXPECT_EQ(test_request.key({.kind = Kind::ip, .v4_bits = 24}), "192.0.2.0/24");
  test_request.client = "2001:db8:1:2:3:4:5:6";
  // The default is a /64: a client usually has all of its addresses.
  EXPECT_EQ(test_request.key(source(Kind::ip)), "2001:db8:1:2::/64");
  EXPECT_EQ(test_request.key({.kind = Kind::ip, .v6_bits = 48}), "2001:db8:1::/48");
  EXPECT_EQ(test_request.key({.kind = Kind::ip, .v6_bits = 128}), "2001:db8:1:2:3:4:5:6");
  test_request.client = "::ffff:192.0.2.129";
  EXPECT_EQ(test_request.key(source(Kind::ip)), "192.0.2.129");
}

TEST(RequestKey, NamesTheSourceThatIsMissingOrAmbiguous) {
  TestRequest test_request;
  const auto problem_with = [&](const KeySource& source) {
    const std::vector<KeyPart> key{{.name = "", .sources = {{.kind = Kind::ip}, source}}};
    return test_request.made(key).problem_source();
  };
  test_request.query = "sku=1&sku=2";
  EXPECT_EQ(problem_with(source(Kind::header, "x-user-id")), "header x-user-id");
  EXPECT_EQ(problem_with(source(Kind::query, "sku")), "query parameter sku");
  EXPECT_EQ(problem_with(source(Kind::query, "item")), "query parameter item");
  EXPECT_EQ(problem_with(source(Kind::cookie, "session")), "cookie session");
  EXPECT_EQ(problem_with({.kind = Kind::segment, .segment = 4}), "path segment 4");
  EXPECT_EQ(problem_with(source(Kind::jwt, "sub")), "claim sub of a valid bearer token");
}

TEST(RequestKey, IsTheValueOfAHeader) {
  TestRequest test_request;
  EXPECT_EQ(test_request.key(source(Kind::header, "x-user-id")), "EMPTY");
  test_request.fields = {{"X-User-ID", "alice"}};
  EXPECT_EQ(test_request.key(source(Kind::header, "x-user-id")), "alice");
  test_request.fields = {{"X-User-ID", ""}};
  EXPECT_EQ(test_request.key(source(Kind::header, "x-user-id")), "EMPTY");
  test_request.fields = {{"X-User-ID", "alice"}, {"x-user-id", "alice"}};
  EXPECT_EQ(test_request.key(source(Kind::header, "x-user-id")), "alice");
  // A server that uses the other value would give this client two keys.
  test_request.fields = {{"X-User-ID", "alice"}, {"x-user-id", "bob"}};
  EXPECT_EQ(test_request.key(source(Kind::header, "x-user-id")), "AMBIGUOUS");
  // Servers that map fields to variables take both names for the same.
  test_request.fields = {{"X-User-ID", "alice"}, {"X_User_ID", "bob"}};
  EXPECT_EQ(test_request.key(source(Kind::header, "x-user-id")), "AMBIGUOUS");
}

TEST(RequestKey, IsTheValueOfAQueryParameter) {
  TestRequest test_request;
  const auto sku = [&](std::string query) {
    test_request.query = std::move(query);
    return test_request.key(source(Kind::query, "sku id"));
  };
  EXPECT_EQ(sku(""), "EMPTY");
  EXPECT_EQ(sku("a=1&sku+id=9&b"), "9");
  EXPECT_EQ(sku("sku%20id=%41+b"), "A b");
  EXPECT_EQ(sku("sku%20id=A%20b"), "A b");
  EXPECT_EQ(sku("sku+id"), "EMPTY");
  EXPECT_EQ(sku("sku+id="), "EMPTY");
  EXPECT_EQ(sku("sku+id=%zz%4"), "%zz%4");
  EXPECT_EQ(sku("sku+id==1=2"), "=1=2");
  EXPECT_EQ(sku("sku+id=9&sku+id=9&sku+id=%39"), "9");
  EXPECT_EQ(sku("sku+id=9&sku+id=8"), "AMBIGUOUS");
  EXPECT_EQ(sku("sku+id=9&sku+id"), "AMBIGUOUS");
}

TEST(RequestKey, IsTheValueOfACookie) {
  TestRequest test_request;
  const auto session = [&](std::string_view cookie) {
    test_request.fields = {{"Accept", "*/*"}, {"cookie", cookie}};
    return test_request.key(source(Kind::cookie, "session"));
  };
  EXPECT_EQ(session("a=1; session=abc; b=2"), "abc");
  EXPECT_EQ(session("session=abc"), "abc");
  EXPECT_EQ(session("session = abc ;x"), "abc");
  EXPECT_EQ(session("session=\"abc\""), "abc");
  EXPECT_EQ(session("session=a=b"), "a=b");
  // Servers disagree on which of two values counts.
  EXPECT_EQ(session("session=abc; session=def"), "AMBIGUOUS");
  EXPECT_EQ(session("session=; session=def"), "AMBIGUOUS");
  EXPECT_EQ(session("session=abc; session=\"abc\""), "abc");
  EXPECT_EQ(session("Session=abc; xsession=1; session"), "EMPTY");
  EXPECT_EQ(session(";;=;"), "EMPTY");
  test_request.fields = {{"Cookie", "session=def"}, {"Cookie", "session=abc"}};
  EXPECT_EQ(test_request.key(source(Kind::cookie, "session")), "AMBIGUOUS");
  test_request.fields = {{"Cookie", "a=1"}, {"Cookie", "session=abc"}};
  EXPECT_EQ(test_request.key(source(Kind::cookie, "session")), "abc");
}

// All spellings of a resource make one key.
TEST(RequestKey, IsThePathOrASegmentInOneSpelling) {
  TestRequest test_request;
  for (const char* path :
       {"/a/B", "/%61/B", "//a/./B/", "/x/../a/B", "/a%2fB", "/a;v=1/B", "/a\\B"}) {
    test_request.path = path;
    EXPECT_EQ(test_request.key(source(Kind::path)), "/a/B") << path;
    EXPECT_EQ(test_request.key({.kind = Kind::segment, .segment = 1}), "a") << path;
    EXPECT_EQ(test_request.key({.kind = Kind::segment, .segment = 2}), "B") << path;
    EXPECT_EQ(test_request.key({.kind = Kind::segment, .segment = 3}), "EMPTY") << path;
  }
  test_request.path = "/";
  EXPECT_EQ(test_request.key({.kind = Kind::segment, .segment = 1}), "EMPTY");
}

TEST(RequestKey, IsTheHostTheMethodOrAConstant) {
  TestRequest test_request;
  EXPECT_EQ(test_request.key(source(Kind::host)), "shop.example.com");
  EXPECT_EQ(test_request.key(source(Kind::method)), "GET");
  EXPECT_EQ(test_request.key(source(Kind::constant, "all")), "all");
  test_request.host = "";
  EXPECT_EQ(test_request.key(source(Kind::host)), "EMPTY");
}

TEST(RequestKey, IsLoggedAsTextOrAsItsHash) {
  TestRequest test_request;
  test_request.fields = {{"X-User", "alice"}, {"X-Plan", "free"}};
  const std::vector<KeyPart> parts{{.name = "plan", .sources = {source(Kind::header, "x-plan")}},
                                   {.name = "user", .sources = {source(Kind::header, "x-user")}}};
  EXPECT_EQ(test_request.made(parts).text(KeyLogging::plain), "plan=free,user=alice");
  const std::string hashed = test_request.made(parts).text(KeyLogging::hashed);
  EXPECT_TRUE(hashed.starts_with("sha256:"));
  EXPECT_EQ(hashed.size(), 7u + 64u);
  const std::vector<KeyPart> whole{{.name = "", .sources = {source(Kind::header, "x-user")}}};
  EXPECT_EQ(test_request.made(whole).text(KeyLogging::plain), "alice");
  EXPECT_NE(test_request.made(whole).text(KeyLogging::hashed), hashed);
  test_request.fields = {};
  EXPECT_EQ(test_request.made(whole).text(KeyLogging::hashed), "");
}

// A part that lacks one of its sources is empty as a whole, and limits that count by it are
// skipped.
TEST(RequestKey, HasAnEmptyPartIfASourceIsMissing) {
  TestRequest test_request;
  test_request.fields = {{"X-User", "alice"}};
  const std::vector<KeyPart> parts{
      {.name = "both", .sources = {source(Kind::header, "x-user"), source(Kind::header, "x-none")}},
      {.name = "user", .sources = {source(Kind::header, "x-user")}}};
  const RequestKey made = test_request.made(parts);
  EXPECT_EQ(made.status(), KeyStatus::empty);
  Request request;
  made.fill(request);
  ASSERT_EQ(request.parts.all().size(), 2u);
  EXPECT_EQ(request.parts.all()[0].value, "");
  EXPECT_EQ(request.parts.all()[1].value, "alice");
}

// {"alg":"none"} . {"sub":"alice","n":7,"ok":true,"list":[1]}
constexpr std::string_view kToken =
    "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsIm4iOjcsIm9rIjp0cnVlLCJsaXN0IjpbMV19.";

TEST(RequestKey, IsAClaimOfAToken) {
  const auto reader = *JwtReader::make({.verifies = false});
  TestRequest test_request;
  const std::string header = "Bearer " + std::string{kToken};
  test_request.fields = {{"Authorization", header}};
  EXPECT_EQ(test_request.key(source(Kind::jwt, "sub"), reader.get()), "alice");
  EXPECT_EQ(test_request.key(source(Kind::jwt, "n"), reader.get()), "7");
  EXPECT_EQ(test_request.key(source(Kind::jwt, "ok"), reader.get()), "true");
  EXPECT_EQ(test_request.key(source(Kind::jwt, "list"), reader.get()), "EMPTY");
  EXPECT_EQ(test_request.key(source(Kind::jwt, "none"), reader.get()), "EMPTY");
  EXPECT_EQ(test_request.key({source(Kind::jwt, "sub"), source(Kind::jwt, "n")}, reader.get()),
            "alice|7");
  test_request.fields = {};
  EXPECT_EQ(test_request.key(source(Kind::jwt, "sub"), reader.get()), "EMPTY");
}

// Different requests never share a key.
TEST(RequestKey, JoinsSourcesWithoutAmbiguity) {
  TestRequest test_request;
  const std::vector<KeySource> both{source(Kind::header, "a"), source(Kind::header, "b")};
  test_request.fields = {{"a", "x|y"}, {"b", "z"}};
  EXPECT_EQ(test_request.key(both), "x%7Cy|z");
  test_request.fields = {{"a", "x"}, {"b", "y|z"}};
  EXPECT_EQ(test_request.key(both), "x|y%7Cz");
  test_request.fields = {{"a", "x%7Cy"}, {"b", "z"}};
  EXPECT_EQ(test_request.key(both), "x%257Cy|z");
  test_request.fields = {{"a", "x"}};
  EXPECT_EQ(test_request.key(both), "EMPTY");
}

TEST(RequestKey, HasNamedParts) {
  TestRequest test_request;
  test_request.query = "sku=9";
  test_request.fields = {{"X-User", "alice"}};
  const std::vector<KeyPart> key{{"sku", {source(Kind::query, "sku")}},
                                 {"user", {source(Kind::header, "x-user")}}};
  const RequestKey made = test_request.made(key);
  EXPECT_EQ(made.status(), KeyStatus::made);
  Request request{.policy = "p", .key = "old"};
  made.fill(request);
  EXPECT_TRUE(request.key.empty());
  ASSERT_EQ(request.parts.all().size(), 2u);
  EXPECT_EQ(request.parts.all()[0].name, "sku");
  EXPECT_EQ(request.parts.all()[0].value, "9");
  EXPECT_EQ(request.parts.all()[1].value, "alice");
  test_request.query = "";
  EXPECT_EQ(test_request.made(key).status(), KeyStatus::empty);
  EXPECT_EQ(test_request.made({}).status(), KeyStatus::empty);
}

// Long values stay distinct, and all parts together fit into a key.
TEST(RequestKey, ReplacesLongValuesByTheirHash) {
  TestRequest test_request;
  const std::string fits(longest_value(1), 'a'), longer = fits + "a", other = fits + "b";
  const auto key_of = [&](const std::string& text) {
    test_request.fields = {{"a", text}};
    return test_request.key(source(Kind::header, "a"));
  };
  EXPECT_EQ(key_of(fits), fits);
  EXPECT_EQ(key_of(longer).size(), 71u);
  EXPECT_TRUE(key_of(longer).starts_with("sha256:"));
  EXPECT_EQ(key_of(longer), key_of(longer));
  EXPECT_NE(key_of(longer), key_of(other));
  EXPECT_GE(longest_value(Parts::kMax), 71u);
  EXPECT_LE(longest_value(Parts::kMax) * Parts::kMax, 2048u);
}

}  // namespace
}  // namespace weir::gateway
