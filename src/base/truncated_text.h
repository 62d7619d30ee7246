#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir {

// A text in a buffer of fixed size, without allocation. A longer text is truncated between two
// UTF-8 characters and ends with "…".
class TruncatedText {
 public:
  static constexpr std::size_t kMaxBytes = 128;  // bytes

  void clear() noexcept;
  void append(std::string_view more) noexcept;

  std::string_view view() const noexcept { return {bytes_.data(), size_}; }
  bool is_truncated() const noexcept { return cut_; }

 private:
  std::uint8_t size_ = 0;
  bool cut_ = false;
  std::array<char, kMaxBytes> bytes_{};
};

}  // namespace weir
