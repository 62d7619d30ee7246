#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::wire {

// Puts texts and numbers side by side and appends them to a string in one go, which costs a
// fraction of appending each.
class TextWriter {
 public:
  explicit TextWriter(std::string& out) : out_(out) {}
  ~TextWriter() { flush(); }
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

  TextWriter& number(std::int64_t value) {
    constexpr std::size_t longest = 20;
    if (room() < longest) [[unlikely]]
      flush();
    // Most are small, which costs less.
    if (static_cast<std::uint64_t>(value) < 10) {
      *at_++ = static_cast<char>('0' + value);
    } else if (static_cast<std::uint64_t>(value) <= UINT32_MAX) {
      at_ = std::to_chars(at_, at_ + longest, static_cast<std::uint32_t>(value)).ptr;
    } else {
      at_ = std::to_chars(at_, at_ + longest, value).ptr;
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

  std::string& out_;
  std::array<char, 512> bytes_;  // as much as an answer has, about
  char* at_ = bytes_.data();
};

}  // namespace weir::wire
