// What strangers can send to a gateway is anything: laws about paths, routes, clients and keys.

#include <algorithm>
#include <string>
#include <vector>

#include "gateway/client_address.h"
#include "gateway/keys.h"
#include "gateway/match.h"
#include "property.h"

namespace weir::gateway {
namespace {

using core::check;

// Characters that matter, and some that do not.
rc::Gen<std::string> text(std::string letters) {
  return rc::gen::container<std::string>(rc::gen::elementOf(std::move(letters)));
}

std::string in_hex(char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return {'%', digits[byte >> 4], digits[byte & 15]};
}

// One of the ways to write the same path: escapes, dots, empty segments.
std::string spelled(const std::string& path) {
  std::string other;
  for (const char c : path) {
    if (c == '/') {
      other += *rc::gen::element<std::string>("/", "//", "/./", "/x/../");
    } else {
      other += *rc::gen::arbitrary<bool>() ? std::string{c} : in_hex(c);
    }
  }
  return other;
}

rc::Gen<std::string> clean_path() {
  const auto segment = rc::gen::nonEmpty(text("abAB-_~09"));
  return rc::gen::map(rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(segment)),
                      [](const std::vector<std::string>& segments) {
                        std::string path;
                        for (const std::string& one : segments) path += "/" + one;
                        return path;
                      });
}

TEST(Paths, AreTheSameHoweverTheyAreSpelled) {
  check([] {
    const std::string path = *clean_path();
    const std::string other = spelled(path);
    RC_LOG() << other;
    Path read;
    RC_ASSERT(read_path(other, read));
    RC_ASSERT(read.forwarded == path);
    RC_ASSERT(read.plain == path);
    RC_ASSERT(read.bold == path);
  });
}

// Who reads what was sent on reads what was matched, and nothing is above the root.
TEST(Paths, StayAsTheyAreOnceTheyAreRead) {
  check(
      [] {
        const auto piece = rc::gen::element<std::string>(
            "a", "/", "/", ".", "%2e", "%2F", "%5C", "\\", ";", "%3b", "%20", "%252e", "\xc3", "%");
        std::string path = "/";
        for (const std::string& one : *rc::gen::container<std::vector<std::string>>(piece))
          path += one;
        Path read, again;
        if (!read_path(path, read)) return;
        RC_ASSERT(read_path(read.forwarded, again));
        RC_ASSERT(again.forwarded == read.forwarded);
        RC_ASSERT(again.plain == read.plain);
        RC_ASSERT(again.bold == read.bold);
        RC_ASSERT((read.forwarded + "/").find("/../") == std::string::npos);
        RC_ASSERT((read.bold + "/").find("/../") == std::string::npos);
      },
      3'000);
}

// The table is as the list read from the top.
TEST(Routes, AreFoundAsIfAllWereTried) {
  check(
      [] {
        const auto segment = rc::gen::element<std::string>("a", "b", "*", "**", "a*", "*b");
        const auto pattern = rc::gen::map(rc::gen::container<std::vector<std::string>>(segment),
                                          [](const std::vector<std::string>& segments) {
                                            std::string made;
                                            for (const std::string& one : segments)
                                              made += "/" + one;
                                            return made.empty() ? std::string{"/"} : made;
                                          });
        const auto hosts = rc::gen::element<std::string>("", "x.y", "*.y", "z", "*.x.y");
        std::vector<Route> routes;
        for (const auto& [path, host] :
             *rc::gen::container<std::vector<std::pair<std::string, std::string>>>(
                 rc::gen::pair(pattern, hosts))) {
          Route& route = routes.emplace_back();
          route.match.paths = {path};
          if (!host.empty()) route.match.hosts = {host};
        }
        const std::string host = *rc::gen::element<std::string>("x.y", "y", "z", "w.x.y", "");
        const std::string target = "/" + *text("aab//");
        Path path;
        RC_ASSERT(read_path(target, path));
        const auto host_fits = [&](const std::string& wanted) {
          if (!wanted.starts_with("*.")) return wanted == host;
          return host.size() >= wanted.size() && host.ends_with(wanted.substr(1));
        };
        const auto fits = [&](const Route& route) {
          return (route.match.hosts.empty() || host_fits(route.match.hosts[0])) &&
                 fits_path(route.match.paths[0], path.plain);
        };
        const auto expected = std::ranges::find_if(routes, fits);
        const RouteTable::Found found = RouteTable(routes).find(host, path, "GET");
        RC_ASSERT((found.status == RouteTable::Found::Status::found) == (expected != routes.end()));
        if (expected != routes.end()) {
          RC_ASSERT(found.route == static_cast<std::size_t>(expected - routes.begin()));
        }
      },
      3'000);
}

// Whatever a client writes into the fields, and however many proxies it comes through, it is
// counted by the address that the first trusted proxy has seen.
TEST(Clients, CannotChooseTheirAddress) {
  check(
      [] {
        const std::vector<AddressRange> trusted{*parse_range("10.0.0.0/8")};
        const std::string lie = *text("10.2,; \t\"=for:[]_\\x");
        const Address client =
            *parse_address("192.0.2." + std::to_string(*rc::gen::inRange(0, 255)));
        const bool standard = *rc::gen::arbitrary<bool>();
        std::vector<std::string> values{lie};
        Address seen = client;
        for (int proxies = *rc::gen::inRange(1, 5); proxies > 0; --proxies) {
          // Some proxies append to the line, some write another one.
          const std::string element = (standard ? "for=" : "") + to_text(seen);
          if (*rc::gen::arbitrary<bool>()) {
            values.push_back(element);
          } else {
            values.back() += ", " + element;
          }
          seen = *parse_address("10.0.0." + std::to_string(proxies));
        }
        std::vector<wire::HttpField> fields;
        for (const std::string& value : values) {
          fields.push_back({standard ? "Forwarded" : "X-Forwarded-For", value});
        }
        RC_ASSERT(client_address(seen, fields, trusted, ClientFrom::either) == client);
      },
      3'000);
}

// Two requests share a key only if all that it is made of is the same.
TEST(Keys, AreDifferentWhereRequestsAre) {
  check(
      [] {
        using Kind = KeySource::Kind;
        const std::vector<KeyPart> key{
            {"", {{.kind = Kind::header, .name = "a"}, {.kind = Kind::header, .name = "b"}}}};
        const auto value = rc::gen::nonEmpty(text("|%7Cx"));
        const std::string a = *value, b = *value, c = *value, d = *value;
        const auto made = [&](const std::string& one, const std::string& two) {
          const std::vector<wire::HttpField> fields{{"a", one}, {"b", two}};
          Path path;
          const Address client{};
          MadeKey into;
          make_key(key, nullptr,
                   {.method = "GET",
                    .host = "",
                    .path = path,
                    .query = "",
                    .fields = fields,
                    .client = client,
                    .now = {}},
                   into);
          Request request;
          into.fill(request);
          return std::string{request.key};
        };
        RC_ASSERT((made(a, b) == made(c, d)) == (a == c && b == d));
      },
      2'000);
}

}  // namespace
}  // namespace weir::gateway
