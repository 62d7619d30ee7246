#include "wire/http1_target.h"

#include <algorithm>

#include "wire/http1_text.h"

namespace weir::wire {

namespace {

// Consumes http:// or https://; false if there is none.
bool consume_scheme(std::string_view& target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!same_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    return true;
  }
  return false;
}

// Consumes and decodes one character; false if it is a malformed escape.
bool decode_one(std::string_view& text, char space, char& c) {
  c = text.front();
  if (c == space) c = ' ';
  if (c != '%') {
    text.remove_prefix(1);
    return true;
  }
  if (text.size() < 3) return false;
  const int high = hex_value(text[1]);
  const int low = hex_value(text[2]);
  if (high < 0 || low < 0) return false;
  c = static_cast<char>(high * 16 + low);
  text.remove_prefix(3);
  return true;
}

// Percent-decodes `text`; the character `space` also stands for a space.
std::optional<std::string_view> decode(std::string_view text, char space, std::string& buffer) {
  const bool needs_no_decoding =
      std::ranges::none_of(text, [&](char c) { return c == '%' || (c == space && c != ' '); });
  if (needs_no_decoding) return text;
  buffer.clear();
  while (!text.empty()) {
    char c = 0;
    if (!decode_one(text, space, c)) return std::nullopt;
    buffer += c;
  }
  return buffer;
}

// True if `text` decodes to `name`; nothing if an escape is malformed.
std::optional<bool> decodes_to(std::string_view text, std::string_view name) {
  bool matches = true;
  while (!text.empty()) {
    char c = 0;
    if (!decode_one(text, '+', c)) return std::nullopt;
    matches = matches && !name.empty() && name.front() == c;
    if (matches) name.remove_prefix(1);
  }
  return matches && name.empty();
}

}  // namespace

std::optional<HttpTarget> split_target(std::string_view method, std::string_view target) {
  // The target of CONNECT is a host and port, which only a forward proxy uses.
  if (method == "CONNECT") return HttpTarget{};
  if (target == "*" && method == "OPTIONS") return HttpTarget{{}, "*", {}};
  if (target.find('#') != std::string_view::npos) return std::nullopt;
  HttpTarget parts;
  if (target.starts_with('/')) {
    // The usual form: a path.
  } else if (consume_scheme(target)) {
    parts.authority = target.substr(0, target.find_first_of("/?"));
    if (parts.authority.empty()) return std::nullopt;
    target.remove_prefix(parts.authority.size());
  } else {
    return std::nullopt;
  }
  const std::size_t question = target.find('?');
  parts.path = target.substr(0, question);
  if (parts.path.empty()) parts.path = "/";
  if (question != std::string_view::npos) parts.query = target.substr(question + 1);
  return parts;
}

std::optional<std::string_view> decode_path(std::string_view text, std::string& buffer) {
  return decode(text, ' ', buffer);
}

QueryValue query_value(std::string_view query, std::string_view name, std::string& buffer) {
  using Status = QueryValue::Status;
  std::optional<std::string_view> found;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const std::size_t equals = pair.find('=');
    const auto matches = decodes_to(pair.substr(0, equals), name);
    if (!matches) return {Status::malformed};
    if (!*matches) continue;
    if (found) return {Status::repeated};
    found = equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1);
  }
  if (!found) return {Status::absent};
  const auto value = decode(*found, '+', buffer);
  return value ? QueryValue{Status::found, *value} : QueryValue{Status::malformed};
}

}  // namespace weir::wire
