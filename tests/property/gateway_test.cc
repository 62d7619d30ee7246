// Properties of paths, routes, client addresses and keys under arbitrary input from clients.

#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "gateway/client_address.h"
#include "gateway/request_key.h"
#include "gateway/route_table.h"
#include "property.h"

namespace weir::gateway {
namespace {

using core::check;

// Characters with a meaning in paths, and some without.
rc::Gen<std::string> text(std::string letters) {
  return rc::gen::container<std::string>(rc::gen::elementOf(std::move(letters)));
}

std::string in_hex(char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return {'%', digits[byte >> 4], digits[byte & 15]};
}

// A random spelling of the same path: escapes, dot segments, empty segments.
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

TEST(Paths, AreEqualInEverySpelling) {
  check([] {
    const std::string path = *clean_path();
    const std::string other = spelled(path);
    RC_LOG() << other;
    Path read;
    RC_ASSERT(read_path(other, read));
    RC_ASSERT(read.forwarded == path);
    RC_ASSERT(read.plain == path);
    RC_ASSERT(read.lenient == path);
  });
}

// A second normalization returns the same path, and no path leaves the root.
TEST(Paths, DoNotChangeWhenNormalizedAgain) {
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
        RC_ASSERT(again.lenient == read.lenient);
        RC_ASSERT((read.forwarded + "/").find("/../") == std::string::npos);
        RC_ASSERT((read.lenient + "/").find("/../") == std::string::npos);
      },
      3'000);
}

// ---- How servers interpret a path, written down independently of the gateway

std::string decode(const std::string& text, const std::string& except = "") {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && std::isxdigit(text[i + 1]) != 0 &&
                        std::isxdigit(text[i + 2]) != 0;
    if (!escape) {
      out += text[i];
      continue;
    }
    const char c = static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
    out += except.find(c) == std::string::npos ? std::string{c} : text.substr(i, 3);
    i += 2;
  }
  return out;
}

std::string drop_parameters(const std::string& text) {
  static const std::regex parameter(";[^/]*");
  return std::regex_replace(text, parameter, "");
}

std::string turn_backslashes(std::string text) {
  std::ranges::replace(text, '\\', '/');
  return text;
}

// Dot segments are removed. Empty segments are removed too where slashes are merged.
std::string resolve(const std::string& text, bool merges) {
  std::vector<std::string> kept;
  std::istringstream segments(text.substr(1));
  for (std::string segment; std::getline(segments, segment, '/');) {
    if (segment == "." || (segment.empty() && merges)) continue;
    if (segment == "..") {
      if (!kept.empty()) kept.pop_back();
    } else {
      kept.push_back(segment);
    }
  }
  std::string out;
  for (const std::string& segment : kept) out += "/" + segment;
  return out.empty() ? "/" : out;
}

struct ServerModel {
  std::string name;
  std::string (*read)(const std::string& sent);
};

const std::vector<ServerModel>& server_models() {
  constexpr const char* slashes = "/\\";
  static const std::vector<ServerModel> models{
      {"nginx", [](const std::string& sent) { return resolve(decode(sent), true); }},
      {"nginx, merge_slashes off",
       [](const std::string& sent) { return resolve(decode(sent), false); }},
      {"nginx, location of a second proxy that decodes again",
       [](const std::string& sent) { return resolve(decode(resolve(decode(sent), true)), true); }},
      {"Tomcat",
       [](const std::string& sent) {
         return resolve(decode(drop_parameters(sent), slashes), true);
       }},
      {"Tomcat, encodedSolidusHandling=decode, ALLOW_BACKSLASH",
       [](const std::string& sent) {
         return resolve(turn_backslashes(decode(drop_parameters(sent))), true);
       }},
      {"Jetty, parameters dropped behind the decoding",
       [](const std::string& sent) { return resolve(drop_parameters(decode(sent)), true); }},
      {"Spring, dots resolved before parameters are dropped",
       [](const std::string& sent) { return drop_parameters(resolve(decode(sent), true)); }},
      {"Apache, AllowEncodedSlashes NoDecode",
       [](const std::string& sent) { return resolve(decode(sent, slashes), true); }},
      {"IIS",
       [](const std::string& sent) { return resolve(turn_backslashes(decode(sent)), true); }},
      {"IIS, decoding twice",
       [](const std::string& sent) {
         return resolve(turn_backslashes(decode(decode(sent))), true);
       }},
      {"Express, which matches what it is sent",
       [](const std::string& sent) {
         return decode(sent, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/");
       }},
      {"a server that reads the decoded path as a URL again",
       [](const std::string& sent) {
         const std::string path = decode(sent);
         return resolve(path.substr(0, path.find_first_of("?#")), true);
       }},
  };
  return models;
}

// A path of pieces that servers interpret differently.
std::string disputed_path() {
  const auto piece = rc::gen::element<std::string>(
      "pub", "admin", "admin", "x", "/", "/", "/", "..", ".", ";", "\\", "%2f", "%2F", "%5c", "%3b",
      "%2e", "%2E%2e", "%61dmin", "%252e", "%252f", "%253b", "%2561dmin", "%255c", "%3f", "%23",
      "%253f", "%00", "%0a", "%2500", "%20", "%25", "%");
  std::string path = *rc::gen::element<std::string>("/", "/pub/", "/admin/");
  for (const std::string& one : *rc::gen::container<std::vector<std::string>>(piece)) path += one;
  return path;
}

// Every server finds the resource that the gateway has limited.
TEST(Routes, AreTheSameUnderThePathRulesOfEveryServer) {
  for (const UpstreamPath sends : {UpstreamPath::normalised, UpstreamPath::as_sent}) {
    std::vector<RouteConfig> routes;
    for (const char* pattern : {"/admin/**", "/pub/*/x", "/pub/**", "/**"}) {
      RouteConfig& route = routes.emplace_back();
      route.match.paths = {pattern};
      route.path = sends;
    }
    const RouteTable table(routes);
    int forwarded = 0;
    check(
        [&] {
          const std::string target = disputed_path();
          Path path;
          if (!read_path(target, path)) return;
          const RouteTable::RouteLookup found = table.find("", path, "GET");
          if (found.status != RouteTable::RouteLookup::MatchStatus::found) return;
          const std::string& sent = sends == UpstreamPath::as_sent ? path.as_sent : path.forwarded;
          forwarded += path.plain != path.as_sent ? 1 : 0;
          for (const ServerModel& model : server_models()) {
            const std::string seen = model.read(sent);
            RC_LOG() << model.name << " reads " << sent << " as " << seen << "\n";
            const auto fits = [&](const RouteConfig& route) {
              return fits_path(route.match.paths[0], seen);
            };
            const auto expected = std::ranges::find_if(routes, fits);
            RC_ASSERT(found.route == static_cast<std::size_t>(expected - routes.begin()));
          }
        },
        20'000);
    EXPECT_GT(forwarded, 500) << "of paths that can be read in several ways";
  }
}

// The table finds the same route as a scan of the list from the top.
TEST(Routes, AreFoundAsByTryingEachInTurn) {
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
        std::vector<RouteConfig> routes;
        for (const auto& [path, host] :
             *rc::gen::container<std::vector<std::pair<std::string, std::string>>>(
                 rc::gen::pair(pattern, hosts))) {
          RouteConfig& route = routes.emplace_back();
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
        const auto fits = [&](const RouteConfig& route) {
          return (route.match.hosts.empty() || host_fits(route.match.hosts[0])) &&
                 fits_path(route.match.paths[0], path.plain);
        };
        const auto expected = std::ranges::find_if(routes, fits);
        const RouteTable::RouteLookup found = RouteTable(routes).find(host, path, "GET");
        RC_ASSERT((found.status == RouteTable::RouteLookup::MatchStatus::found) ==
                  (expected != routes.end()));
        if (expected != routes.end()) {
          RC_ASSERT(found.route == static_cast<std::size_t>(expected - routes.begin()));
        }
      },
      3'000);
}

// A request counts by the address that the first trusted proxy has seen, for any header that a
// client writes and any number of proxies.
TEST(Clients, CannotChooseTheirAddress) {
  check(
      [] {
        const std::vector<IpRange> trusted{*parse_range("10.0.0.0/8")};
        const std::string lie = *text("10.2,; \t\"=for:[]_\\x");
        const IpAddress client =
            *parse_address("192.0.2." + std::to_string(*rc::gen::inRange(0, 255)));
        const bool standard = *rc::gen::arbitrary<bool>();
        std::vector<std::string> values{lie};
        IpAddress seen = client;
        for (int proxies = *rc::gen::inRange(1, 5); proxies > 0; --proxies) {
          // Some proxies append to the line, some add another one.
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

// Two requests share a key only if all parts of the key are the same.
TEST(Keys, DifferBetweenDifferentRequests) {
  check(
      [] {
        using Kind = KeySource::SourceKind;
        const std::vector<KeyPart> key{
            {"", {{.kind = Kind::header, .name = "a"}, {.kind = Kind::header, .name = "b"}}}};
        const auto value = rc::gen::nonEmpty(text("|%7Cx"));
        const std::string a = *value, b = *value, c = *value, d = *value;
        const auto made = [&](const std::string& one, const std::string& two) {
          const std::vector<wire::HttpField> fields{{"a", one}, {"b", two}};
          Path path;
          const IpAddress client{};
          RequestKey into;
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
