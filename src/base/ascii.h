#pragma once

#include <algorithm>
#include <string>
#include <string_view>

// Character classes of protocols and formats. <cctype> is not used because it depends on the
// locale.

namespace weir {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }

inline std::string lowered(std::string_view text) {
  std::string lowercase{text};
  std::ranges::transform(lowercase, lowercase.begin(), lower);
  return lowercase;
}

constexpr bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

// The value of a hexadecimal digit; -1 for any other character.
constexpr int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char lowercase = lower(c);
  return lowercase >= 'a' && lowercase <= 'f' ? lowercase - 'a' + 10 : -1;
}

}  // namespace weir
