#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/ascii.h"

// Character classes of HTTP.

namespace weir::wire {

// A lookup table for a set of characters: letters, digits and `others`.
class CharSet {
 public:
  explicit constexpr CharSet(std::string_view others) {
    for (int i = 0; i < 128; ++i) {
      const char c = static_cast<char>(i);
      in_[i] = is_digit(c) || is_letter(c) || others.find(c) != std::string_view::npos;
    }
  }
  constexpr bool has(char c) const { return in_[static_cast<unsigned char>(c)]; }

 private:
  std::array<bool, 256> in_{};
};

// Characters of methods and field names (token, RFC 9110, 5.6.2).
inline constexpr CharSet kTokenChars{"!#$%&'*+-.^_`|~"};
constexpr bool is_token_char(char c) { return kTokenChars.has(c); }

// Characters of a host and port.
inline constexpr CharSet kAuthorityChars{"-._~!$&'()*+;=%:[]"};
constexpr bool is_authority_char(char c) { return kAuthorityChars.has(c); }

// Control characters, except tab.
constexpr bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
}

// False if none of these eight bytes is a control character. May be true for a tab.
inline bool may_have_control(const char* eight) {
  constexpr std::uint64_t each = 0x0101010101010101;
  constexpr std::uint64_t high = each * 0x80;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, eight, 8);
  const std::uint64_t deleted = bytes ^ (each * 0x7f);
  return (((bytes - each * 0x20) & ~bytes) | ((deleted - each) & ~deleted)) & high;
}

// True if `text` holds a control character. Tests eight bytes at a time, since most texts hold
// none.
inline bool has_control(std::string_view text) {
  if (text.size() >= 8) {
    bool may_have = may_have_control(text.data() + text.size() - 8);
    for (std::size_t i = 0; i + 8 < text.size(); i += 8) may_have |= may_have_control(&text[i]);
    if (!may_have) return false;
  }
  return std::ranges::any_of(text, is_control);
}

constexpr bool is_space_or_tab(char c) { return c == ' ' || c == '\t'; }

// Without optional white space (OWS, RFC 9110, 5.6.3) at both ends.
constexpr std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space_or_tab(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space_or_tab(text.back())) text.remove_suffix(1);
  return text;
}

// Characters of a request target.
constexpr bool is_visible(char c) { return c != ' ' && c != '\t' && !is_control(c); }

}  // namespace weir::wire
