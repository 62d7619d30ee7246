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

inline constexpr std::size_t kMaxNumberChars = 20;

// Writes a number in decimal; `at` must have room for kMaxNumberChars. Returns the end.
//
// Computes up to eight digits at once in one 64-bit word (SWAR): two numbers of four digits, then
// four of two, then eight of one, with the first digit in the lowest byte.
[[gnu::noinline]] inline char* write_number(char* at, std::int64_t value) {
  const bool is_short = value > 0 && value < 100'000'000;
  if (!is_short || std::endian::native != std::endian::little) {
    return std::to_chars(at, at + kMaxNumberChars, value).ptr;
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

// Collects texts and numbers in a local buffer and appends them to a string at once, which is
// several times faster than appending each.
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

  // Inlined, so that copying a constant takes a few instructions.
  [[gnu::always_inline]] TextWriter& text(std::string_view text) {
    if (text.size() > room()) [[unlikely]]
      return write_through(text);
    text.copy(at_, text.size());
    at_ += text.size();
    return *this;
  }

  TextWriter& number(std::int64_t value) { return text({}, value); }

  // A text and a number after it, with one check for space.
  [[gnu::always_inline]] TextWriter& text(std::string_view before, std::int64_t value) {
    if (room() < before.size() + kMaxNumberChars) [[unlikely]]
      return write_through(before, value);
    before.copy(at_, before.size());
    char* const number = at_ + before.size();
    // The fast path: one digit.
    if (static_cast<std::uint64_t>(value) < 10) {
      *number = static_cast<char>('0' + value);
      at_ = number + 1;
    } else {
      at_ = write_number(number, value);
    }
    return *this;
  }

  // Appends the buffer to the string, and returns that.
  std::string& flush() {
    out_.append(bytes_.data(), static_cast<std::size_t>(at_ - bytes_.data()));
    at_ = bytes_.data();
    return out_;
  }

 private:
  std::size_t room() const { return static_cast<std::size_t>(bytes_.data() + bytes_.size() - at_); }

  [[gnu::noinline]] TextWriter& write_through(std::string_view text) {
    flush().append(text);
    return *this;
  }
  [[gnu::noinline]] TextWriter& write_through(std::string_view before, std::int64_t value) {
    flush().append(before);
    at_ = write_number(at_, value);
    return *this;
  }

  std::string& out_;
  std::array<char, 512> bytes_;  // about the size of a response
  char* at_ = bytes_.data();
};

}  // namespace weir::wire
