#pragma once

#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

namespace weir::wire {

inline constexpr std::size_t kLongestNumber = 20;

// Writes a number in decimal where there is room for the longest. Returns where it ends.
//
// Up to eight digits are found at once: it becomes two numbers of four digits, side by side in one
// word, these become four of two, and these eight of one, the first of them in the lowest byte.
[[gnu::noinline]] inline char* write_number(char* at, std::int64_t value) {
  const bool is_short = value > 0 && value < 100'000'000;
  if (!is_short || std::endian::native != std::endian::little) {
    return std::to_chars(at, at + kLongestNumber, value).ptr;
  }
  const auto number = static_cast<std::uint64_t>(value);
  const std::uint64_t fours = number / 10'000 | number % 10'000 << 32;
  const std::uint64_t hundreds = fours * 10'486 >> 20 & 0x0000'007f'0000'007f;
  const std::uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
  const std::uint64_t tens = twos * 103 >> 10 & 0x000f'000f'000f'000f;
  const std::uint64_t ones = tens | (twos - tens * 10) << 8;
  const int zeros = std::countr_zero(ones) / 8;
  const std::uint64_t text = (ones | 0x3030'3030'3030'3030) >> 8 * zeros;
  std::memcpy(at, &text, sizeof text);
  return at + sizeof text - zeros;
}

// Puts texts and numbers side by side and appends them to a string in one go, which costs a
// fraction of appending each.
class TextWriter {
 public:
  explicit TextWriter(std::string& out) : out_(out) {}
  // Throws std::bad_alloc as the functions below do. While another exception is on its way, what
  // would need memory is not written.
  ~TextWriter() noexcept(false) {
    const auto size = static_cast<std::size_t>(at_ - bytes_.data());
    const bool allocates = size > out_.capacity() - out_.size();
    if (allocates && std::uncaught_exceptions() > 0) [[unlikely]]
      return;
    flush();
  }
  TextWriter(const TextWriter&) = delete;
  TextWriter& operator=(const TextWriter&) = delete;

  // (Inline, so that copying a constant takes a few instructions.)
  [[gnu::always_inline]] TextWriter& text(std::string_view text) {
    if (text.size() > room()) [[unlikely]]
      return long_text(text);
    text.copy(at_, text.size());
    at_ += text.size();
    return *this;
  }

  TextWriter& number(std::int64_t value) { return text({}, value); }

  // A text and the number behind it, with one look at the room for both.
  [[gnu::always_inline]] TextWriter& text(std::string_view before, std::int64_t value) {
    if (room() < before.size() + kLongestNumber) [[unlikely]]
      return long_text(before, value);
    before.copy(at_, before.size());
    char* const number = at_ + before.size();
    // Most are small, which costs less.
    if (static_cast<std::uint64_t>(value) < 10) {
      *number = static_cast<char>('0' + value);
      at_ = number + 1;
    } else {
      at_ = write_number(number, value);
    }
    return *this;
  }

  // The string, with all that was written so far.
  std::string& flush() {
    out_.append(bytes_.data(), static_cast<std::size_t>(at_ - bytes_.data()));
    at_ = bytes_.data();
    return out_;
  }

 private:
  std::size_t room() const { return static_cast<std::size_t>(bytes_.data() + bytes_.size() - at_); }

  [[gnu::noinline]] TextWriter& long_text(std::string_view text) {
    flush().append(text);
    return *this;
  }
  [[gnu::noinline]] TextWriter& long_text(std::string_view before, std::int64_t value) {
    flush().append(before);
    at_ = write_number(at_, value);
    return *this;
  }

  std::string& out_;
  std::array<char, 512> bytes_;  // as much as an answer has, about
  char* at_ = bytes_.data();
};

}  // namespace weir::wire
