#pragma once

#include <algorithm>
#include <string>
#include <string_view>

// The letters of protocols and formats. Locales have no say here, so <cctype> is of no use.

namespace weir {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }

inline std::string lowered(std::string_view text) {
  std::string small{text};
  std::ranges::transform(small, small.begin(), lower);
  return small;
}

constexpr bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

// The value of a hexadecimal digit; -1 if it is none.
constexpr int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char small = lower(c);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

}  // namespace weir
