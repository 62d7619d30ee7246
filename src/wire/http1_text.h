#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/ascii.h"

// The letters of HTTP.

namespace weir::wire {

// A set of characters, one look to ask. Letters and digits are in all that HTTP needs.
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

// What methods and the names of fields are made of.
inline constexpr CharSet kTokenChars{"!#$%&'*+-.^_`|~"};
constexpr bool is_token_char(char c) { return kTokenChars.has(c); }

// What a host and a port are made of, as far as they are told from something else.
inline constexpr CharSet kAuthorityChars{"-._~!$&'()*+;=%:[]"};
constexpr bool is_authority_char(char c) { return kAuthorityChars.has(c); }

// Anything that is neither to be seen nor a space or a tab.
constexpr bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
}

// Whether there may be any in these eight bytes. A tab looks like one.
inline bool may_have_control(const char* eight) {
  constexpr std::uint64_t each = 0x0101010101010101;
  constexpr std::uint64_t high = each * 0x80;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, eight, 8);
  const std::uint64_t deleted = bytes ^ (each * 0x7f);
  return (((bytes - each * 0x20) & ~bytes) | ((deleted - each) & ~deleted)) & high;
}

// Whether there is any in `text`. Eight bytes at a time: in most texts there is none.
inline bool has_control(std::string_view text) {
  if (text.size() >= 8) {
    bool may_have = may_have_control(text.data() + text.size() - 8);
    for (std::size_t i = 0; i + 8 < text.size(); i += 8) may_have |= may_have_control(&text[i]);
    if (!may_have) return false;
  }
  return std::ranges::any_of(text, is_control);
}

// What a target is made of.
constexpr bool is_visible(char c) { return c != ' ' && c != '\t' && !is_control(c); }

}  // namespace weir::wire
