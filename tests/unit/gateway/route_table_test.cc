#include "gateway/route_table.h"

#include <gtest/gtest.h>

#include <optional>

namespace weir::gateway {
namespace {

using MatchStatus = RouteTable::RouteLookup::MatchStatus;

RouteConfig route(std::vector<std::string> hosts, std::vector<std::string> paths,
                  std::vector<std::string> methods = {}) {
  RouteConfig made;
  made.match = {std::move(hosts), std::move(paths), std::move(methods)};
  return made;
}

// The index of the route, -1 for none, -2 for an ambiguous path.
int find(const RouteTable& table, std::string_view host, std::string_view target,
         std::string_view method = "GET") {
  Path path;
  std::string name;
  EXPECT_TRUE(read_path(target, path));
  EXPECT_TRUE(read_host(host, name));
  const RouteTable::RouteLookup found = table.find(name, path, method);
  if (found.status == MatchStatus::ambiguous) return -2;
  return found.status == MatchStatus::found ? static_cast<int>(found.route) : -1;
}

TEST(PathPattern, MatchesExactlyWithoutStars) {
  EXPECT_TRUE(fits_path("/a/b", "/a/b"));
  EXPECT_TRUE(fits_path("/a/b", "/a/b/"));
  EXPECT_TRUE(fits_path("/", "/"));
  EXPECT_FALSE(fits_path("/a/b", "/a"));
  EXPECT_FALSE(fits_path("/a/b", "/a/b/c"));
  EXPECT_FALSE(fits_path("/a/b", "/a/B"));
  EXPECT_FALSE(fits_path("/", "/a"));
}

TEST(PathPattern, MatchesASegmentOrAPartOfOneWithAStar) {
  EXPECT_TRUE(fits_path("/users/*/orders", "/users/7/orders"));
  EXPECT_FALSE(fits_path("/users/*/orders", "/users/orders"));
  EXPECT_FALSE(fits_path("/users/*/orders", "/users/7/8/orders"));
  EXPECT_TRUE(fits_path("/*.pdf", "/a.pdf"));
  EXPECT_TRUE(fits_path("/*.pdf", "/.pdf.pdf"));
  EXPECT_FALSE(fits_path("/*.pdf", "/a.pdf.txt"));
  EXPECT_FALSE(fits_path("/*.pdf", "/a/b.pdf"));
  EXPECT_TRUE(fits_path("/v*-*", "/v1-2"));
  EXPECT_FALSE(fits_path("/v*-*", "/v12"));
  EXPECT_FALSE(fits_path("/*", "/"));
}

TEST(PathPattern, MatchesAnyNumberOfSegmentsWithTwoStars) {
  EXPECT_TRUE(fits_path("/**", "/"));
  EXPECT_TRUE(fits_path("/**", "/a/b/c"));
  // As in Spring; a missing slash must not bypass the limit.
  EXPECT_TRUE(fits_path("/admin/**", "/admin"));
  EXPECT_TRUE(fits_path("/admin/**", "/admin/a/b"));
  EXPECT_FALSE(fits_path("/admin/**", "/administrator"));
  EXPECT_TRUE(fits_path("/a/**/z", "/a/z"));
  EXPECT_TRUE(fits_path("/a/**/z", "/a/b/z/c/z"));
  EXPECT_FALSE(fits_path("/a/**/z", "/a/b/z/c"));
  EXPECT_TRUE(fits_path("/**/b/*/**/d", "/a/b/b/c/d"));
  EXPECT_FALSE(fits_path("/**/b/*/**/d", "/a/b/d"));
}

TEST(RouteTable, FindsTheFirstRouteThatMatches) {
  const RouteTable table({route({}, {"/a/*"}), route({}, {"/a/b"}), route({}, {"/a/**"}),
                          route({}, {"/b"}), route({}, {})});
  EXPECT_EQ(find(table, "x", "/a/b"), 0);
  EXPECT_EQ(find(table, "x", "/a/b/c"), 2);
  EXPECT_EQ(find(table, "x", "/a"), 2);
  EXPECT_EQ(find(table, "x", "/b/"), 3);
  EXPECT_EQ(find(table, "x", "/c"), 4);
}

TEST(RouteTable, MatchesHosts) {
  const RouteTable table({route({"*.example.com"}, {"/a/**"}), route({"shop.example.com"}, {}),
                          route({"example.com", "other.org"}, {}), route({"*.com"}, {"/c"})});
  EXPECT_EQ(find(table, "shop.example.com", "/a/b"), 0);
  EXPECT_EQ(find(table, "SHOP.example.com.:8080", "/b"), 1);
  EXPECT_EQ(find(table, "a.b.example.com", "/a"), 0);
  EXPECT_EQ(find(table, "a.b.example.com", "/c"), 3);
  EXPECT_EQ(find(table, "example.com", "/a"), 2);
  EXPECT_EQ(find(table, "other.org", "/a"), 2);
  EXPECT_EQ(find(table, "notexample.com", "/a"), -1);
  EXPECT_EQ(find(table, "", "/a"), -1);
  EXPECT_EQ(find(table, "com", "/c"), -1);
}

TEST(RouteTable, MatchesMethods) {
  const RouteTable table({route({}, {}, {"POST", "PUT"}), route({}, {}, {"GET"})});
  EXPECT_EQ(find(table, "x", "/", "POST"), 0);
  EXPECT_EQ(find(table, "x", "/", "PUT"), 0);
  EXPECT_EQ(find(table, "x", "/", "GET"), 1);
  EXPECT_EQ(find(table, "x", "/", "HEAD"), 1);
  EXPECT_EQ(find(table, "x", "/", "DELETE"), -1);
  // Methods are case-sensitive.
  EXPECT_EQ(find(table, "x", "/", "post"), -1);
}

// `OPTIONS *` has no path: only a route for all paths matches it.
TEST(RouteTable, MatchesTheStarTargetOnlyWithARouteForAllPaths) {
  EXPECT_EQ(find(RouteTable({route({}, {"/a"}), route({}, {"/**"})}), "x", "*", "OPTIONS"), 1);
  EXPECT_EQ(find(RouteTable({route({}, {"/a"})}), "x", "*", "OPTIONS"), -1);
}

// The limit of /admin cannot be bypassed by a spelling that only the service decodes.
TEST(RouteTable, RefusesPathsThatServersMayReadAsAnotherRoute) {
  const RouteTable table({route({}, {"/admin/**"}), route({}, {"/**"})});
  EXPECT_EQ(find(table, "x", "/admin/x"), 0);
  EXPECT_EQ(find(table, "x", "//admin/x"), 0);
  EXPECT_EQ(find(table, "x", "/%61dmin/x"), 0);
  EXPECT_EQ(find(table, "x", "/a/../admin"), 0);
  EXPECT_EQ(find(table, "x", "/admin%2fx"), -2);
  EXPECT_EQ(find(table, "x", "/admin;a/x"), -2);
  EXPECT_EQ(find(table, "x", "/;a/admin"), -2);
  EXPECT_EQ(find(table, "x", "/\\admin"), -2);
  // If all readings have the same route, the path passes: names with an escaped slash are common.
  EXPECT_EQ(find(table, "x", "/projects/group%2Fname"), 1);
  EXPECT_EQ(find(table, "x", "/admin/group%2Fname;v=1"), 0);
  // A reading without a route is a difference, too.
  EXPECT_EQ(find(RouteTable({route({}, {"/a/*"})}), "x", "/a/b%2Fc"), -2);
}

// The service receives the bytes of the client, and may resolve them in its own way.
TEST(RouteTable, RefusesPathsSentUnchangedThatServersMayResolveToAnotherRoute) {
  std::vector<RouteConfig> routes{route({}, {"/admin/**"}), route({}, {"/pub/**"}),
                                  route({}, {"/**"})};
  for (RouteConfig& one : routes) one.path = UpstreamPath::as_sent;
  const RouteTable table(routes);
  for (const char* target :
       {"/pub/b/../x", "/pub/b/./x", "/pub/;/../admin/x", "/pub/../admin/x", "/pub/%2e%2e/admin/x",
        "//admin/x", "/pub/..%252fadmin", "/pub/%252e%252e/admin", "/%61dmin/x", "/admin%3fx",
        "/admin%23x", "/admin%252fx", "/admin%253bx", "/admin;x", "/x/%2500"}) {
    EXPECT_EQ(find(table, "x", target), -2) << target;
  }
  // If servers cannot disagree about the route, the path passes.
  EXPECT_EQ(find(table, "x", "/pub//b%2Fc;v=1/%7Euser/100%25"), 1);
  EXPECT_EQ(find(table, "x", "/pub/a%2520b"), 1);
  EXPECT_EQ(find(table, "x", "/.well-known/x"), 2);
}

// The number of readings to compare is bounded.
TEST(RouteTable, RefusesPathsWithTooManyReadings) {
  const RouteTable table({route({}, {"/**"})});
  std::string target = "/a%2Fb";
  EXPECT_EQ(find(table, "x", target), 0);
  EXPECT_EQ(find(table, "x", target + std::string(15'000, 'x')), 0);
  target = "/" + std::string(15'000, 'x') + "/a;b/%255c%253b%253f/\\%5c%2f%3b%3f/;%253b%252f";
  EXPECT_EQ(find(table, "x", target), -2);
}

// Checks the result only; the bench measures the time.
TEST(RouteTable, FindsOneOfManyRoutesByHostPrefixOrPattern) {
  std::vector<RouteConfig> routes;
  for (int i = 0; i < 1'000; ++i) {
    const std::string n = std::to_string(i);
    routes.push_back(route({"h" + n + ".example.com"}, {"/a/**"}));
    routes.push_back(route({}, {"/p" + n + "/**", "/q/" + n}));
    routes.push_back(route({}, {"/r/*/x" + n}));
  }
  const RouteTable table(routes);
  for (const int i : {0, 1, 500, 999}) {
    const std::string n = std::to_string(i);
    EXPECT_EQ(find(table, "h" + n + ".example.com", "/a/b"), i * 3);
    EXPECT_EQ(find(table, "x", "/p" + n), i * 3 + 1);
    EXPECT_EQ(find(table, "x", "/q/" + n), i * 3 + 1);
    EXPECT_EQ(find(table, "x", "/r/any/x" + n), i * 3 + 2);
  }
  EXPECT_EQ(find(table, "x", "/a/b"), -1);
}

}  // namespace
}  // namespace weir::gateway
