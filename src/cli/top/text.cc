#include "cli/top/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/utf8.h"

namespace weir::cli::top {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Characters that take two columns: East Asian scripts and emoji.
constexpr Range kWide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x25fd, 0x25fe},
    {0x2614, 0x2615},   {0x2648, 0x2653},   {0x26a1, 0x26a1},   {0x26bd, 0x26be},
    {0x26c4, 0x26c5},   {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},
    {0x274c, 0x274c},   {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},
    {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2b55, 0x2b55},   {0x2e80, 0x303e},
    {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0xa4cf},   {0xa960, 0xa97c},
    {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff01, 0xff60},
    {0xffe0, 0xffe6},   {0x16fe0, 0x18aff}, {0x1b000, 0x1b2ff}, {0x1f004, 0x1f004},
    {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335},
    {0x1f337, 0x1f37c}, {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3},
    {0x1f3e0, 0x1f3f0}, {0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e}, {0x1f440, 0x1f440},
    {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f567}, {0x1f57a, 0x1f57a},
    {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5},
    {0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d2}, {0x1f6d5, 0x1f6df}, {0x1f6eb, 0x1f6ec},
    {0x1f6f4, 0x1f6fc}, {0x1f7e0, 0x1f7eb}, {0x1f90c, 0x1f93a}, {0x1f93c, 0x1f945},
    {0x1f947, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd},
};

// Combining characters, which take no column.
constexpr Range kCombining[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a}, {0x064b, 0x065f},
    {0x0670, 0x0670}, {0x06d6, 0x06dc}, {0x0900, 0x0902}, {0x093c, 0x093c}, {0x0941, 0x0948},
    {0x094d, 0x094d}, {0x0e31, 0x0e31}, {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e}, {0x1ab0, 0x1aff},
    {0x1dc0, 0x1dff}, {0x20d0, 0x20ff}, {0x302a, 0x302d}, {0x3099, 0x309a}, {0xfe20, 0xfe2f},
};

// Invisible characters, or such that change others: controls, direction, joiners, selectors, tags.
constexpr Range kUnseen[] = {
    {0x0000, 0x001f}, {0x007f, 0x009f}, {0x00ad, 0x00ad},   {0x034f, 0x034f},    {0x061c, 0x061c},
    {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f},   {0x200b, 0x200f},    {0x2028, 0x202e},
    {0x2060, 0x206f}, {0x3164, 0x3164}, {0xe000, 0xf8ff},   {0xfe00, 0xfe0f},    {0xfeff, 0xfeff},
    {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1d173, 0x1d17a}, {0xe0000, 0x10ffff},
};

bool is_in(std::span<const Range> ranges, char32_t c) {
  return std::ranges::any_of(ranges,
                             [&](const Range& each) { return each.first <= c && c <= each.last; });
}

char32_t code_of(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  char32_t code = first & (0x7fu >> character.size());
  for (const char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 63u);
  return code;
}

DisplayText written_out(char32_t code) {
  std::string text = code < 0x100     ? fmt::format("\\x{:02x}", static_cast<unsigned>(code))
                     : code < 0x10000 ? fmt::format("\\u{:04x}", static_cast<unsigned>(code))
                                      : fmt::format("\\U{:06x}", static_cast<unsigned>(code));
  const std::size_t columns = text.size();
  return {std::move(text), columns};
}

// Removes the first character of `text`, and returns it escaped.
DisplayText take_character(std::string_view& text, bool utf8) {
  const Utf8 character = first_character(text);
  const std::string_view bytes = text.substr(0, character.bytes);
  text.remove_prefix(character.bytes);
  if (!character.whole) return written_out(static_cast<unsigned char>(bytes[0]));
  const char32_t code = code_of(bytes);
  if (code >= 0x20 && code < 0x7f) return {std::string(bytes), 1};
  if (is_in(kUnseen, code)) return written_out(code);
  if (code >= 0x80 && !utf8) return {"?", 1};
  if (is_in(kCombining, code)) return {std::string(bytes), 0};
  return {std::string(bytes), is_in(kWide, code) ? std::size_t{2} : std::size_t{1}};
}

}  // namespace

DisplayText display_text(std::string_view text, std::size_t max_columns, bool utf8) {
  DisplayText all;
  DisplayText with_ellipsis;  // the longest prefix that leaves a column for the ellipsis
  while (!text.empty()) {
    const DisplayText next = take_character(text, utf8);
    if (all.columns + next.columns > max_columns) {
      if (max_columns == 0) return {};
      with_ellipsis.text += utf8 ? "…" : "~";
      ++with_ellipsis.columns;
      return with_ellipsis;
    }
    all.text += next.text;
    all.columns += next.columns;
    if (all.columns < max_columns) with_ellipsis = all;
  }
  return all;
}

}  // namespace weir::cli::top
