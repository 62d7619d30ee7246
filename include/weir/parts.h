#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace weir {
inline namespace v0 {

// A named part of a key: {"user", "alice"}.
struct Part {
  std::string_view name;
  std::string_view value;
};

// Up to sixteen parts, in any order. A value that borrows its texts.
class Parts {
 public:
  static constexpr std::size_t kMost = 16;

  Parts() = default;
  Parts(std::initializer_list<Part> parts) : Parts(std::span(parts.begin(), parts.size())) {}
  explicit Parts(std::span<const Part> parts) {
    for (const Part& part : parts) add(part);
  }

  // One beyond the most is counted but not kept: a request with it is refused as an error.
  void add(const Part& part) noexcept {
    if (count_ < kMost) parts_[count_] = part;
    ++count_;
  }
  bool empty() const noexcept { return count_ == 0; }
  bool too_many() const noexcept { return count_ > kMost; }
  std::span<const Part> all() const noexcept {
    return std::span(parts_).first(count_ < kMost ? count_ : kMost);
  }

 private:
  std::array<Part, kMost> parts_{};
  std::size_t count_ = 0;
};

}  // namespace v0
}  // namespace weir
