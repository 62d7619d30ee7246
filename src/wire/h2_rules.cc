#include "wire/h2_rules.h"

#include <nghttp2/nghttp2.h>

#include <charconv>

namespace weir::wire {

namespace {

const std::uint8_t* bytes(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

bool is_trailers(std::string_view value) {
  constexpr std::string_view wanted = "trailers";
  if (value.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if ((value[i] | 0x20) != wanted[i]) return false;
  }
  return true;
}

// (RFC 3986, 3.1.)
bool is_scheme(std::string_view value) {
  const auto is_letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
  if (value.empty() || !is_letter(value.front())) return false;
  for (const char c : value) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_letter(c) && !is_digit && c != '+' && c != '-' && c != '.') return false;
  }
  return true;
}

// (The library knows which letters may be where.)
bool has_good_name(H2Name known, std::string_view name) {
  return known != H2Name::other || nghttp2_check_header_name(bytes(name), name.size()) != 0;
}

bool has_good_value(H2Name known, std::string_view value) {
  switch (known) {
    case H2Name::method:
      return nghttp2_check_method(bytes(value), value.size()) != 0;
    case H2Name::scheme:
      return is_scheme(value);
    case H2Name::path:
      return nghttp2_check_path(bytes(value), value.size()) != 0;
    case H2Name::authority:
    case H2Name::host:
      return nghttp2_check_authority(bytes(value), value.size()) != 0;
    default:
      return nghttp2_check_header_value_rfc9113(bytes(value), value.size()) != 0;
  }
}

bool may_be_empty(H2Name known) {
  switch (known) {
    case H2Name::method:
    case H2Name::scheme:
    case H2Name::path:
    case H2Name::authority:
    case H2Name::host:
      return false;
    default:
      return true;
  }
}

H2Name pseudo_name_of(std::string_view name) {
  if (name == ":method") return H2Name::method;
  if (name == ":path") return H2Name::path;
  if (name == ":scheme") return H2Name::scheme;
  if (name == ":authority") return H2Name::authority;
  return H2Name::unknown_pseudo;
}

}  // namespace

// Told apart by their lengths first: most are none of these.
H2Name h2_name_of(std::string_view name) {
  if (name.starts_with(':')) return pseudo_name_of(name);
  const auto if_is = [&](std::string_view wanted, H2Name known) {
    return name == wanted ? known : H2Name::other;
  };
  switch (name.size()) {
    case 2:
      return if_is("te", H2Name::te);
    case 4:
      return if_is("host", H2Name::host);
    case 6:
      if (name == "cookie") return H2Name::cookie;
      return if_is("expect", H2Name::expect);
    case 7:
      return if_is("upgrade", H2Name::of_http1);
    case 10:
      if (name == "keep-alive") return H2Name::of_http1;
      return if_is("connection", H2Name::of_http1);
    case 12:
      return if_is("content-type", H2Name::content_type);
    case 13:
      return if_is("authorization", H2Name::authorization);
    case 14:
      return if_is("content-length", H2Name::content_length);
    case 16:
      return if_is("proxy-connection", H2Name::of_http1);
    case 17:
      return if_is("transfer-encoding", H2Name::of_http1);
    default:
      return H2Name::other;
  }
}

H2Rules H2Rules::of_trailers() {
  H2Rules rules;
  rules.of_trailers_ = true;
  rules.pseudo_may_come_ = false;
  return rules;
}

bool H2Rules::allow_once(H2Name known) {
  const bool first = !has(known);
  seen_ |= std::uint32_t{1} << static_cast<unsigned>(known);
  return first;
}

// (More digits than that are no length of anything.)
bool H2Rules::allow_length(std::string_view digits) {
  std::uint64_t length = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, length);
  if (error != std::errc{} || stop != end || length > INT64_MAX) return false;
  length_ = length;
  return true;
}

bool H2Rules::allow(H2Name known, std::string_view name, std::string_view value, bool checked) {
  if (value.empty() && !may_be_empty(known)) return false;
  if (!checked && (!has_good_name(known, name) || !has_good_value(known, value))) return false;
  switch (known) {
    case H2Name::method:
      is_connect_ = value == "CONNECT";
      is_options_ = value == "OPTIONS";
      break;
    case H2Name::scheme:
      is_http_ = value == "http" || value == "https";
      break;
    case H2Name::path:
      path_is_absolute_ = value.starts_with('/');
      path_is_star_ = value == "*";
      break;
    case H2Name::authority:
      break;
    case H2Name::unknown_pseudo:
    case H2Name::of_http1:
      return false;
    case H2Name::te:
      pseudo_may_come_ = false;
      return is_trailers(value);
    case H2Name::host:
      pseudo_may_come_ = false;
      return !of_trailers_ && allow_once(known);
    case H2Name::content_length:
      pseudo_may_come_ = false;
      return !of_trailers_ && allow_once(known) && allow_length(value);
    default:
      pseudo_may_come_ = false;
      return true;
  }
  return pseudo_may_come_ && allow_once(known);
}

bool H2Rules::make_request() const {
  if (!has(H2Name::method)) return false;
  if (is_connect_) return has(H2Name::authority) && !has(H2Name::scheme) && !has(H2Name::path);
  if (!has(H2Name::scheme) || !has(H2Name::path)) return false;
  if (!has(H2Name::authority) && !has(H2Name::host)) return false;
  return !is_http_ || path_is_absolute_ || (path_is_star_ && is_options_);
}

}  // namespace weir::wire
