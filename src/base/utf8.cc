#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace weir {

namespace {

bool continues(std::string_view text, std::size_t i) {
  return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
}

// What the byte behind the first may be, so that nothing is written longer than it needs to be, is
// a surrogate or lies beyond Unicode.
bool second_fits(unsigned char first, unsigned char second) {
  switch (first) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second < 0xa0;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second < 0x90;
    default:
      return true;
  }
}

std::size_t length_by(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

// What nearly all texts are. Eight bytes are looked at at once, the last of them perhaps twice.
bool is_ascii(std::string_view text) {
  constexpr std::uint64_t high_bits = 0x8080808080808080;
  std::uint64_t seen = 0;
  const auto look_at = [&](const char* at) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, at, sizeof eight);
    seen |= eight;
  };
  if (text.size() < 8) {
    for (const char c : text) seen |= static_cast<unsigned char>(c);
    return (seen & high_bits) == 0;
  }
  const char* const last = text.data() + text.size() - 8;
  for (const char* at = text.data(); at < last; at += 8) look_at(at);
  look_at(last);
  return (seen & high_bits) == 0;
}

}  // namespace

Utf8 first_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = length_by(first);
  if (length == 1) return {1, true};
  if (length == 0 || !continues(text, 1)) return {1, false};
  if (!second_fits(first, static_cast<unsigned char>(text[1]))) return {1, false};
  std::size_t bytes = 2;
  while (bytes < length && continues(text, bytes)) ++bytes;
  return {bytes, bytes == length};
}

bool is_utf8(std::string_view text) {
  if (is_ascii(text)) return true;
  while (!text.empty()) {
    const Utf8 character = first_character(text);
    if (!character.whole) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

std::string_view cut(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && continues(text, most)) --most;
  return text.substr(0, most);
}

std::string shortened(std::string_view text) {
  constexpr std::size_t long_enough = 64;
  std::string short_text{cut(text, long_enough)};
  if (short_text.size() < text.size()) short_text += "…";
  return short_text;
}

}  // namespace weir
