#include "gateway/path.h"

#include <algorithm>

#include "gateway/ip_address.h"
#include "wire/http1_text.h"

namespace weir::gateway {

namespace {

// Unreserved characters (RFC 3986, 2.3): the same with and without an escape.
constexpr wire::CharSet kUnreserved{"-._~"};
// Characters that may stand unescaped in a segment: unreserved, sub-delims, ":" and "@".
constexpr wire::CharSet kNoEscape{"-._~!$&'()*+,;=:@"};
// Characters of a path that all servers read alike: the above without ";", plus "/".
constexpr wire::CharSet kHarmless{"-._~!$&'()*+,=:@/"};

bool is_unreserved(unsigned char c) { return c < 0x80 && kUnreserved.has(static_cast<char>(c)); }
bool needs_no_escape(unsigned char c) { return c < 0x80 && kNoEscape.has(static_cast<char>(c)); }

void append_escape(std::string& out, unsigned char c) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  out += '%';
  out += digits[c >> 4];
  out += digits[c & 15];
}

// One character of a path after decoding.
struct Character {
  unsigned char c = 0;
  bool escaped = false;
};

// Some servers truncate a path at NUL, others drop control characters.
bool is_readable(unsigned char c) { return c >= 0x20 && c != 0x7f; }

// Removes one character from the front of `text`. False if its escape is malformed, or if it is a
// control character.
bool take_character(std::string_view& text, Character& character) {
  character = {static_cast<unsigned char>(text.front()), false};
  if (text.front() != '%') {
    text.remove_prefix(1);
    return is_readable(character.c);
  }
  if (text.size() < 3) return false;
  const int high = hex_value(text[1]);
  const int low = hex_value(text[2]);
  if (high < 0 || low < 0) return false;
  character = {static_cast<unsigned char>(high * 16 + low), true};
  text.remove_prefix(3);
  return is_readable(character.c);
}

// Appends a segment to both forms. False if it is malformed.
bool append_segment(std::string_view segment, Path& into) {
  into.forwarded += '/';
  into.plain += '/';
  while (!segment.empty()) {
    Character next;
    if (!take_character(segment, next)) return false;
    const auto [c, escaped] = next;
    if (escaped ? is_unreserved(c) : needs_no_escape(c)) {
      into.forwarded += static_cast<char>(c);
    } else {
      append_escape(into.forwarded, c);
    }
    if (c == '/' || c == '\\') {
      append_escape(into.plain, c);
    } else {
      into.plain += static_cast<char>(c);
    }
  }
  return true;
}

void remove_last_segment(std::string& path) {
  const std::size_t slash = path.rfind('/');
  path.resize(slash == std::string::npos ? 0 : slash);
}

// Removes the first segment from `path`, which starts with a slash.
std::string_view take_segment(std::string_view& path) {
  path.remove_prefix(1);
  const std::string_view segment = path.substr(0, path.find('/'));
  path.remove_prefix(segment.size());
  return segment;
}

// Resolves `path` into `forwarded` and `plain`.
bool resolve(std::string_view path, Path& into) {
  bool slash_at_end = false;
  while (!path.empty()) {
    const std::string_view segment = take_segment(path);
    slash_at_end = true;
    if (segment.empty()) continue;
    const std::size_t before = into.plain.size();
    if (!append_segment(segment, into)) return false;
    const std::string_view added = std::string_view{into.plain}.substr(before);
    if (added == "/." || added == "/..") {
      const bool up = added == "/..";
      for (std::string* form : {&into.forwarded, &into.plain}) {
        remove_last_segment(*form);
        if (up) remove_last_segment(*form);
      }
    } else {
      slash_at_end = false;
    }
  }
  if (slash_at_end) into.forwarded += '/';
  if (into.plain.empty()) into.plain = "/";
  return true;
}

bool is_unambiguous(std::string_view forwarded) {
  return forwarded.find(';') == std::string_view::npos &&
         forwarded.find("%2F") == std::string_view::npos &&
         forwarded.find("%5C") == std::string_view::npos &&
         forwarded.find("%3B") == std::string_view::npos;
}

// Appends the segment as a server reads it that takes %2F and \ for slashes and drops path
// parameters. False if that yields a dot segment.
bool append_leniently(std::string_view segment, std::string& lenient) {
  std::string part;
  bool dropping = false;
  const auto finish = [&] {
    if (part == "." || part == "..") return false;
    if (!part.empty()) lenient.append("/").append(part);
    part.clear();
    dropping = false;
    return true;
  };
  while (!segment.empty()) {
    Character next;
    if (!take_character(segment, next)) return false;
    if (next.c == '/' || next.c == '\\') {
      if (!finish()) return false;
    } else {
      dropping = dropping || next.c == ';';
      if (!dropping) part += static_cast<char>(next.c);
    }
  }
  return finish();
}

bool make_lenient(Path& path) {
  path.lenient.clear();
  if (is_unambiguous(path.forwarded)) {
    path.lenient = path.plain;
    return true;
  }
  std::string_view rest = path.forwarded;
  while (!rest.empty()) {
    if (!append_leniently(take_segment(rest), path.lenient)) return false;
  }
  if (path.lenient.empty()) path.lenient = "/";
  return true;
}

bool is_simple(std::string_view path) {
  return std::ranges::all_of(path, [](char c) { return kHarmless.has(c); }) &&
         path.find("//") == std::string_view::npos && path.find("/.") == std::string_view::npos;
}

}  // namespace

bool read_path(std::string_view path, Path& into) {
  into.as_sent = path;
  if (path == "*" || (path.starts_with('/') && is_simple(path))) {
    into.forwarded = path;
    if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    into.plain = path;
    into.lenient = path;
    return true;
  }
  into.forwarded.clear();
  into.plain.clear();
  return path.starts_with('/') && resolve(path, into) && make_lenient(into);
}

// ---- Hosts

namespace {

bool is_port(std::string_view text) {
  return text.empty() ||
         (text.front() == ':' && text.size() <= 6 && std::ranges::all_of(text.substr(1), is_digit));
}

bool read_bracketed(std::string_view host, std::string& into) {
  const std::size_t end = host.find(']');
  if (end == std::string_view::npos || !is_port(host.substr(end + 1))) return false;
  const std::string_view inside = host.substr(1, end - 1);
  const auto address = parse_address(inside);
  if (!address || inside.find(':') == std::string_view::npos) return false;
  append_text(into, *address);
  return true;
}

}  // namespace

bool read_host(std::string_view host, std::string& into) {
  constexpr wire::CharSet allowed{"-._"};
  constexpr std::size_t longest = 253;
  into.clear();
  if (host.starts_with('[')) return read_bracketed(host, into);
  const std::size_t colon = std::min(host.find(':'), host.size());
  if (!is_port(host.substr(colon))) return false;
  std::string_view name = host.substr(0, colon);
  if (name.empty()) return host.empty();
  if (name.ends_with('.')) name.remove_suffix(1);
  const bool fits = !name.empty() && name.size() <= longest && !name.ends_with('.');
  if (!fits || !std::ranges::all_of(name, [&](char c) { return allowed.has(c); })) return false;
  into.resize(name.size());
  std::ranges::transform(name, into.begin(), lower);
  return true;
}

}  // namespace weir::gateway
