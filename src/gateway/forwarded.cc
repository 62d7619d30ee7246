#include "gateway/forwarded.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "gateway/field_name.h"
#include "wire/http1_text.h"

namespace weir::gateway {

namespace {

constexpr std::array<std::string_view, 9> kHopByHop{
    "connection",          "keep-alive", "proxy-connection",  "proxy-authenticate",
    "proxy-authorization", "te",         "transfer-encoding", "upgrade",
    "http2-settings"};

// End-to-end fields that Connection cannot remove: the client could otherwise hide them from a
// server that relies on them. (An unknown field may be hop-by-hop by agreement.)
constexpr std::array<std::string_view, 18> kEndToEnd{
    "host",          "content-length", "content-type", "content-encoding", "content-range",
    "authorization", "cookie",         "set-cookie",   "cache-control",    "expect",
    "date",          "location",       "range",        "traceparent",      "tracestate",
    "x-request-id",  "origin",         "referer"};

// Fields that the caller of append_request_fields writes itself.
constexpr std::array<std::string_view, 4> kWrittenByCaller{"host", "content-length", "expect",
                                                           "x-request-id"};

// In any spelling that servers may take for it: Content_Length.
bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::any_of(names, [&](std::string_view one) {
    return one.size() == name.size() && lower(one[0]) == lower(name[0]) &&
           may_be_same_field(name, one);
  });
}

// A bit set of name lengths: a cheap test that rules out most fields.
template <std::size_t N>
constexpr std::uint64_t lengths_of(const std::array<std::string_view, N>& names) {
  std::uint64_t lengths = 0;
  for (const std::string_view name : names) lengths |= std::uint64_t{1} << name.size();
  return lengths;
}
constexpr bool has_length(std::uint64_t lengths, std::string_view name) {
  return name.size() < 64 && (lengths >> name.size() & 1) != 0;
}

void append_line(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

// Appends all lines of that name as one list, for another element to follow.
void append_chain(std::string& out, FieldSpan fields, std::string_view name) {
  for (const wire::HttpField& field : fields) {
    if (!same_ignoring_case(field.name, name) || field.value.empty()) continue;
    out.append(field.value).append(", ");
  }
}

// The value of a field that occurs exactly once; otherwise empty: two values are ambiguous.
std::string_view single_value(FieldSpan fields, std::string_view name) {
  std::string_view value;
  int count = 0;
  for (const wire::HttpField& field : fields) {
    if (!same_ignoring_case(field.name, name)) continue;
    value = field.value;
    ++count;
  }
  return count == 1 ? value : std::string_view{};
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::ranges::all_of(text, is_digit);
}

// The port in a Host value; empty if there is none.
std::string_view port_in(std::string_view host) {
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.rfind(':');
  if (colon == std::string_view::npos) return {};
  if (bracket != std::string_view::npos && colon < bracket) return {};
  const std::string_view port = host.substr(colon + 1);
  return is_port(port) ? port : std::string_view{};
}

std::string_view scheme_of(const Hop& hop) { return hop.tls ? "https" : "http"; }

// The value that a trusted proxy sent, if it is valid; otherwise `known`.
std::string_view valid_or(const Hop& hop, FieldSpan fields, std::string_view name,
                          bool (*fits)(std::string_view), std::string_view known) {
  if (!hop.trusted) return known;
  const std::string_view value = single_value(fields, name);
  return !value.empty() && fits(value) ? value : known;
}

bool is_scheme(std::string_view text) {
  return same_ignoring_case(text, "http") || same_ignoring_case(text, "https") ||
         same_ignoring_case(text, "ws") || same_ignoring_case(text, "wss");
}
bool is_host(std::string_view text) { return std::ranges::all_of(text, wire::is_authority_char); }

void append_x(std::string& out, const Hop& hop, FieldSpan fields) {
  out += "X-Forwarded-For: ";
  if (hop.trusted) append_chain(out, fields, "X-Forwarded-For");
  append_text(out, hop.peer);
  out += "\r\n";
  append_line(out, "X-Forwarded-Proto",
              valid_or(hop, fields, "X-Forwarded-Proto", is_scheme, scheme_of(hop)));
  const std::string_view host = valid_or(hop, fields, "X-Forwarded-Host", is_host, hop.host);
  if (!host.empty()) append_line(out, "X-Forwarded-Host", host);
  const std::string_view host_port = port_in(hop.host);
  const std::string port = host_port.empty() ? std::to_string(hop.port) : std::string{host_port};
  append_line(out, "X-Forwarded-Port", valid_or(hop, fields, "X-Forwarded-Port", is_port, port));
}

// IPv6 addresses and hosts with a port are not tokens (RFC 7239) and need quotes.
void append_element(std::string& out, const Hop& hop) {
  const bool v6 = !hop.peer.is_v4();
  out += v6 ? "for=\"[" : "for=";
  append_text(out, hop.peer);
  if (v6) out += "]\"";
  if (!hop.host.empty()) out.append(";host=\"").append(hop.host).append("\"");
  out.append(";proto=").append(scheme_of(hop));
}

void append_standard(std::string& out, const Hop& hop, FieldSpan fields) {
  out += "Forwarded: ";
  if (hop.trusted) append_chain(out, fields, "Forwarded");
  append_element(out, hop);
  out += "\r\n";
}

// Other forwarding fields of a trusted proxy (X-Real-IP, X-Forwarded-Prefix) pass unchanged.
bool is_rewritten(std::string_view name) {
  constexpr std::array<std::string_view, 5> rewritten{
      "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "forwarded"};
  return std::ranges::any_of(rewritten,
                             [&](std::string_view one) { return may_be_same_field(name, one); });
}

bool is_passed_on(const Hop& hop, const HopByHopFields& hop_by_hop, std::string_view name) {
  constexpr std::uint64_t lengths = lengths_of(kWrittenByCaller);
  if (hop_by_hop.drops(name)) return false;
  if (has_length(lengths, name) && is_among(kWrittenByCaller, name)) return false;
  if (!is_forwarding_field(name)) return true;
  if (!hop.trusted) return false;
  // With style `off` nothing is added, and the fields of a trusted proxy stay.
  return hop.style == ForwardedStyle::off || !is_rewritten(name);
}

// Bounds the work: each name is compared with each field.
constexpr std::size_t kMaxNamed = 32;

bool may_be_hop_by_hop(std::string_view name) {
  const bool dropped_anyway =
      name.empty() || is_among(kHopByHop, name) || same_ignoring_case(name, "close");
  return !dropped_anyway && !is_among(kEndToEnd, name) && !is_forwarding_field(name);
}

}  // namespace

bool is_forwarding_field(std::string_view name) {
  constexpr std::string_view family = "x-forwarded-";
  const char first = name.empty() ? ' ' : lower(name[0]);
  if (first != 'x' && first != 'f') return false;
  return may_be_same_field(name.substr(0, family.size()), family) ||
         may_be_same_field(name, "forwarded") || may_be_same_field(name, "x-real-ip");
}

HopByHopFields::HopByHopFields(FieldSpan fields) {
  for (const wire::HttpField& field : fields) {
    if (!same_ignoring_case(field.name, "Connection")) continue;
    std::string_view list = field.value;
    while (!list.empty()) {
      std::string_view name = list.substr(0, list.find(','));
      list.remove_prefix(std::min(name.size() + 1, list.size()));
      name.remove_prefix(std::min(name.find_first_not_of(" \t"), name.size()));
      name = name.substr(0, name.find_last_not_of(" \t") + 1);
      if (may_be_hop_by_hop(name)) named_.push_back(name);
      if (named_.size() == kMaxNamed) return;
    }
  }
}

bool HopByHopFields::drops(std::string_view name) const {
  constexpr std::uint64_t lengths = lengths_of(kHopByHop);
  return (has_length(lengths, name) && is_among(kHopByHop, name)) || is_among(named_, name);
}

void append_request_fields(std::string& out, const Hop& hop, FieldSpan fields) {
  const HopByHopFields hop_by_hop(fields);
  for (const wire::HttpField& field : fields) {
    if (is_passed_on(hop, hop_by_hop, field.name)) append_line(out, field.name, field.value);
  }
  const bool both = hop.style == ForwardedStyle::both;
  if (both || hop.style == ForwardedStyle::x) append_x(out, hop, fields);
  if (both || hop.style == ForwardedStyle::standard) append_standard(out, hop, fields);
}

std::string passable_request_trailers(std::string_view trailers, FieldSpan fields,
                                      std::span<const std::string> headers_read) {
  const auto is_header = [&](std::string_view name) {
    return std::ranges::any_of(
               fields,
               [&](const wire::HttpField& field) { return may_be_same_field(name, field.name); }) ||
           std::ranges::any_of(
               headers_read, [&](std::string_view read) { return may_be_same_field(name, read); });
  };
  std::string passed;
  while (!trailers.empty()) {
    const std::string_view line = trailers.substr(0, trailers.find('\n') + 1);
    trailers.remove_prefix(line.size());
    const std::string_view name = line.substr(0, line.find(':'));
    const bool dropped =
        is_forwarding_field(name) || may_be_same_field(name, "x-request-id") || is_header(name);
    if (!dropped) passed += line;
  }
  return passed;
}

void append_response_fields(std::string& out, FieldSpan fields) {
  const HopByHopFields hop_by_hop(fields);
  for (const wire::HttpField& field : fields) {
    const bool dropped =
        hop_by_hop.drops(field.name) || may_be_same_field(field.name, "content-length");
    if (!dropped) append_line(out, field.name, field.value);
  }
}

}  // namespace weir::gateway
