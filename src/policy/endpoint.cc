#include "policy/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/ascii.h"
#include "base/suggest.h"

namespace weir::policy {

namespace {

bool is_address(int family, std::string_view text) {
  std::array<unsigned char, sizeof(in6_addr)> address;
  return inet_pton(family, std::string{text}.c_str(), address.data()) == 1;
}

bool is_host_name(std::string_view text) {
  const auto allowed = [](char c) {
    return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
  };
  return !text.empty() && text.size() <= 253 && text.front() != '-' && text.front() != '.' &&
         std::ranges::all_of(text, allowed);
}

std::optional<Problem> check_host(std::string_view host, bool in_brackets, SourcePosition place) {
  if (in_brackets) {
    if (is_address(AF_INET6, host)) return std::nullopt;
    return Problem{place, fmt::format("{} is not an IPv6 address", in_quotes(host))};
  }
  if (host.empty() || host == "*") {
    return Problem{place, "a host is missing: write 127.0.0.1 for this machine alone, or 0.0.0.0"};
  }
  if (host.find(':') != std::string_view::npos) {
    return Problem{place, "write an IPv6 address in brackets, as in [::1]:7379"};
  }
  const bool numbers = std::ranges::all_of(host, [](char c) { return is_digit(c) || c == '.'; });
  if (numbers ? is_address(AF_INET, host) : is_host_name(host)) return std::nullopt;
  return Problem{place, fmt::format("{} is not {}", in_quotes(host),
                                    numbers ? "an IPv4 address" : "the name of a host")};
}

Result<std::uint16_t, Problem> parse_port(std::string_view text, SourcePosition place) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error == std::errc{} && end == text.data() + text.size()) return port;
  return Problem{place, fmt::format("a port is a number from 0 to 65535, not {}", in_quotes(text))};
}

// ---- Stores

using StoreAddressKind = StoreAddress::Kind;

struct StoreScheme {
  std::string_view scheme;
  StoreAddressKind kind;
  std::string_view path;     // the kind of path that may follow the hosts
  std::string_view example;  // for messages

  bool has_many_hosts() const { return kind != StoreAddressKind::redis; }
};

constexpr std::array<StoreScheme, 6> kStores{{
    {"redis", StoreAddressKind::redis, "the number of a database", "redis://127.0.0.1:6379/0"},
    {"rediss", StoreAddressKind::redis, "the number of a database",
     "rediss://redis.example:6379/0"},
    {"redis+sentinel", StoreAddressKind::sentinel, "the name of the master",
     "redis+sentinel://h1:26379,h2:26379/name"},
    {"rediss+sentinel", StoreAddressKind::sentinel, "the name of the master",
     "rediss+sentinel://h1:26379,h2:26379/name"},
    {"redis+cluster", StoreAddressKind::cluster, "nothing", "redis+cluster://h1:6379,h2:6379"},
    {"rediss+cluster", StoreAddressKind::cluster, "nothing", "rediss+cluster://h1:6379,h2:6379"},
}};

Problem no_such_store(std::string_view text, SourcePosition place) {
  constexpr std::array<std::string_view, 8> known{
      "memory",           "redis://",           "rediss://",         "redis+sentinel://",
      "redis+cluster://", "rediss+sentinel://", "rediss+cluster://", "unix://"};
  // Quote only the scheme: the rest may contain a password.
  const std::size_t scheme = text.find("://");
  const std::string_view start =
      text.substr(0, scheme == std::string_view::npos ? text.size() : scheme + 3);
  return {place, fmt::format("a store is memory, redis://, rediss://, redis+sentinel://, "
                             "redis+cluster:// or unix:///path, not {}{}",
                             in_quotes(start), did_you_mean(start, known))};
}

Result<Endpoint, Problem> parse_store_host(std::string_view text, StoreAddressKind kind,
                                           SourcePosition place) {
  const std::size_t colon = text.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && text.find(']', colon) == std::string_view::npos;
  if (has_port) return parse_endpoint(text, place);
  const int port = kind == StoreAddressKind::sentinel ? 26379 : 6379;
  return parse_endpoint(fmt::format("{}:{}", text, port), place);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 9 && std::ranges::all_of(text, is_digit);
}

std::optional<Problem> parse_path(const StoreScheme& scheme, std::string_view path,
                                  SourcePosition place, StoreAddress& address) {
  const bool fits = scheme.kind == StoreAddressKind::cluster    ? path.empty()
                    : scheme.kind == StoreAddressKind::sentinel ? !path.empty()
                                                                : path.empty() || is_number(path);
  if (!fits) {
    return Problem{place, fmt::format("{}:// takes {} after the host: write it like {}",
                                      scheme.scheme, scheme.path, scheme.example)};
  }
  if (scheme.kind == StoreAddressKind::sentinel) {
    address.master = path;
  } else {
    std::from_chars(path.data(), path.data() + path.size(), address.database);
  }
  return std::nullopt;
}

// Percent-decodes. A % without two hexadecimal digits stays as it is, since passwords are often
// pasted unescaped.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      plain.push_back(static_cast<char>(value));
      i += 2;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// user:password, :password
std::optional<Problem> parse_login(std::string_view text, SourcePosition place,
                                   StoreAddress& address) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon + 1 == text.size()) {
    return Problem{place,
                   "a password is missing before the @: write user:password@, or :password@"};
  }
  address.user = unescaped(text.substr(0, colon));
  address.password = unescaped(text.substr(colon + 1));
  return std::nullopt;
}

std::optional<Problem> parse_hosts(const StoreScheme& scheme, std::string_view hosts,
                                   SourcePosition place, StoreAddress& address) {
  for (std::size_t first = 0; first <= hosts.size();) {
    const std::size_t comma = std::min(hosts.find(',', first), hosts.size());
    if (comma < hosts.size() && !scheme.has_many_hosts()) {
      return Problem{place.moved(comma), fmt::format("{}:// has one host: write it like {}",
                                                     scheme.scheme, scheme.example)};
    }
    auto host =
        parse_store_host(hosts.substr(first, comma - first), scheme.kind, place.moved(first));
    if (!host) return host.error();
    address.hosts.push_back(*std::move(host));
    first = comma + 1;
  }
  return std::nullopt;
}

// user:password@host:port,host:port/path
Result<StoreAddress, Problem> parse_address(const StoreScheme& scheme, std::string_view text,
                                            SourcePosition place) {
  StoreAddress address{.kind = scheme.kind, .tls = scheme.scheme.starts_with("rediss")};
  const std::size_t at = text.substr(0, text.find('/')).rfind('@');
  const std::size_t start = at == std::string_view::npos ? 0 : at + 1;
  if (start > 0) {
    if (auto wrong = parse_login(text.substr(0, at), place, address)) return *std::move(wrong);
  }
  const std::size_t slash = std::min(text.find('/', start), text.size());
  const std::string_view hosts = text.substr(start, slash - start);
  if (auto wrong = parse_hosts(scheme, hosts, place.moved(start), address)) {
    return *std::move(wrong);
  }
  const std::string_view path = slash < text.size() ? text.substr(slash + 1) : "";
  if (auto wrong = parse_path(scheme, path, place.moved(slash), address)) return *std::move(wrong);
  return address;
}

}  // namespace

Result<Endpoint, Problem> parse_endpoint(std::string_view text, SourcePosition place) {
  const bool in_brackets = text.starts_with('[') && text.find(']') != std::string_view::npos;
  const std::size_t host_end = in_brackets ? text.find(']') + 1 : text.rfind(':');
  if (host_end >= text.size() || text[host_end] != ':') {
    const bool only_port = is_number(text);
    return Problem{place,
                   fmt::format("{} has no {}: write host:port, as in 127.0.0.1:{}", in_quotes(text),
                               only_port ? "host" : "port", only_port ? text : "7379")};
  }
  const std::string_view host =
      in_brackets ? text.substr(1, host_end - 2) : text.substr(0, host_end);
  if (auto wrong = check_host(host, in_brackets, place)) return *std::move(wrong);
  const auto port = parse_port(text.substr(host_end + 1), place.moved(host_end + 1));
  if (!port) return port.error();
  return Endpoint{std::string{host}, *port};
}

Result<StoreAddress, Problem> parse_store(std::string_view text, SourcePosition place) {
  if (text == "memory") return StoreAddress{};
  constexpr std::string_view socket = "unix://";
  if (text.starts_with(socket)) {
    const std::string_view path = text.substr(socket.size());
    if (path.size() > 1 && path.front() == '/') {
      return StoreAddress{.kind = StoreAddressKind::unix_socket, .path = std::string{path}};
    }
    return Problem{place.moved(socket.size()),
                   "a path that starts with / is missing: write it like unix:///run/redis.sock"};
  }
  const std::size_t colon = text.find("://");
  const auto scheme = std::ranges::find(kStores, text.substr(0, colon), &StoreScheme::scheme);
  if (colon == std::string_view::npos || scheme == kStores.end()) {
    return no_such_store(text, place);
  }
  return parse_address(*scheme, text.substr(colon + 3), place.moved(colon + 3));
}

}  // namespace weir::policy
