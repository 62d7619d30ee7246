#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace weir {

namespace {

bool is_continuation(std::string_view text, std::size_t i) {
  return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
}

// Checks the second byte of a sequence: excludes overlong encodings, surrogates and code points
// above U+10FFFF.
bool is_valid_second_byte(unsigned char first, unsigned char second) {
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

std::size_t sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

// The fast path: nearly all texts are ASCII. Reads eight bytes at once; the last read may overlap
// the one before.
bool is_ascii(std::string_view text) {
  constexpr std::uint64_t high_bits = 0x8080808080808080;
  std::uint64_t bits = 0;
  const auto read_eight = [&](const char* at) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, at, sizeof eight);
    bits |= eight;
  };
  if (text.size() < 8) {
    for (const char c : text) bits |= static_cast<unsigned char>(c);
    return (bits & high_bits) == 0;
  }
  const char* const last = text.data() + text.size() - 8;
  for (const char* at = text.data(); at < last; at += 8) read_eight(at);
  read_eight(last);
  return (bits & high_bits) == 0;
}

}  // namespace

Utf8 first_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = sequence_length(first);
  if (length == 1) return {1, true};
  if (length == 0 || !is_continuation(text, 1)) return {1, false};
  if (!is_valid_second_byte(first, static_cast<unsigned char>(text[1]))) return {1, false};
  std::size_t bytes = 2;
  while (bytes < length && is_continuation(text, bytes)) ++bytes;
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

std::string_view truncate_utf8(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  while (max_bytes > 0 && is_continuation(text, max_bytes)) --max_bytes;
  return text.substr(0, max_bytes);
}

std::string shortened(std::string_view text) {
  constexpr std::size_t max_length = 64;
  std::string short_text{truncate_utf8(text, max_length)};
  if (short_text.size() < text.size()) short_text += "…";
  return short_text;
}

}  // namespace weir
