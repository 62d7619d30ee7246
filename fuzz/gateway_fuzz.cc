// Any bytes as input of clients to a gateway, one line each: a target's path, its query, its host,
// and lines of a header. Normalization of paths is idempotent, no line can be ended from within
// (header injection), keys fit, and no unsigned token is accepted.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/cost.h"
#include "gateway/forwarded.h"
#include "gateway/jwt.h"
#include "gateway/request_key.h"
#include "gateway/route_table.h"
#include "policy/key.h"

namespace {

using namespace weir;
using namespace weir::gateway;

void require(bool holds) {
  if (!holds) std::abort();
}

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

// As a parser returns them: names are tokens, values contain no line ends.
std::vector<wire::HttpField> fields_of(std::string_view text) {
  std::vector<wire::HttpField> fields;
  while (!text.empty() && fields.size() < 100) {
    const std::string_view line = take_line(text);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) continue;
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    if (line.find('\r') == std::string_view::npos) fields.push_back({line.substr(0, colon), value});
  }
  return fields;
}

bool has_dots(std::string_view path) {
  return (std::string{path} + "/").find("/../") != std::string::npos ||
         (std::string{path} + "/").find("/./") != std::string::npos;
}

void check_path(const Path& path) {
  require(path.forwarded.find("//") == std::string::npos && !has_dots(path.forwarded));
  require(!has_dots(path.plain) && !has_dots(path.lenient));
  require(path.plain == "*" || path.plain.starts_with('/'));
  for (const char c : path.forwarded) require(c > ' ' && c < 0x7f);
  Path again;
  require(read_path(path.forwarded, again));
  require(again.forwarded == path.forwarded && again.plain == path.plain &&
          again.lenient == path.lenient);
}

const RouteTable& table() {
  static const RouteTable made = [] {
    std::vector<RouteConfig> routes(5);
    routes[0].match = {.hosts = {"*.example.com"}, .paths = {"/admin/**"}};
    routes[1].match = {.paths = {"/users/*/orders", "/**/x*y*z/b"}, .methods = {"GET"}};
    routes[2].match = {.hosts = {"shop.example.com"}};
    routes[3].match = {.paths = {"/a/**/b/**/c"}};
    routes[4].match = {.paths = {"/admin/**"}};
    return RouteTable(routes);
  }();
  return made;
}

// All sources of keys, combined from parts.
std::vector<KeyPart> keys() {
  using Kind = KeySource::SourceKind;
  std::vector<KeySource> all{{.kind = Kind::ip},
                             {.kind = Kind::header, .name = "x-user"},
                             {.kind = Kind::query, .name = "id"},
                             {.kind = Kind::cookie, .name = "session"},
                             {.kind = Kind::path},
                             {.kind = Kind::segment, .segment = 2},
                             {.kind = Kind::host},
                             {.kind = Kind::jwt, .name = "sub"}};
  std::vector<KeyPart> parts{{"all", all}};
  for (std::size_t i = 0; i < all.size(); ++i) parts.push_back({std::to_string(i), {all[i]}});
  return parts;
}

void check_keys(const KeyInput& asked) {
  static const std::vector<KeyPart> parts = keys();
  static const auto unverified = *JwtReader::make({.verifies = false});
  static const auto verified =
      *JwtReader::make({.keys = {{.text = "a secret that no fuzzer finds, I should think"}}});
  RequestKey made;
  make_key(parts, unverified.get(), asked, made);
  Request request;
  made.fill(request);
  require(request.parts.all().size() == parts.size());
  if (made.status() == RequestKey::KeyStatus::made) {
    std::string buffer;
    require(bool{policy::key_of({.key = {}, .parts = request.parts.all()}, {}, buffer)});
    require(buffer.size() <= policy::kMaxKeyLength);
  }
  require(!verified->claims_of(verified->token_of(asked.fields), asked.now));
}

void check_fields(FieldSpan fields, const IpAddress& peer, bool trusted, std::string_view host) {
  const auto count_ends = [](const std::string& lines) {
    std::size_t ends = 0;
    for (const char c : lines) ends += c == '\n';
    return ends;
  };
  for (const ForwardedStyle style : {ForwardedStyle::both, ForwardedStyle::off}) {
    std::string sent;
    append_request_fields(sent, {.peer = peer, .trusted = trusted, .host = host, .style = style},
                          fields);
    require(count_ends(sent) <= fields.size() + 5);
  }
  std::string back;
  append_response_fields(back, fields);
  require(count_ends(back) <= fields.size());
  const RequestCost cost{.kind = RequestCost::CostKind::header, .header = "x-cost", .most = 100};
  const Permits permits = cost_of(cost, fields, std::nullopt);
  require(permits >= 1 && permits <= 100);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  static const IpAddress peer = *parse_address("10.0.0.1");
  static const std::vector<IpRange> trusted{*parse_range("10.0.0.0/8")};
  Path path;
  std::string host;
  const bool path_is_good = read_path(take_line(text), path);
  const std::string_view query = take_line(text);
  const bool host_is_good = read_host(take_line(text), host);
  const std::vector<wire::HttpField> fields = fields_of(text);
  IpAddress client = peer;
  for (const ClientFrom from :
       {ClientFrom::x_forwarded_for, ClientFrom::forwarded, ClientFrom::either}) {
    client = client_address(peer, fields, trusted, from);
    require(parse_address(to_text(client)) == client);
  }
  require(client_address(client, fields, {}, ClientFrom::either) == client);
  check_fields(fields, peer, size % 2 == 0, host);
  if (!path_is_good || !host_is_good) return 0;
  check_path(path);
  (void)table().find(host, path, "GET");
  check_keys({.method = "GET",
              .host = host,
              .path = path,
              .query = query,
              .fields = fields,
              .client = client,
              .now = Instant{}});
  return 0;
}
