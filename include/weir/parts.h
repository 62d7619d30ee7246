#pragma once

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

// Up to sixteen parts of a key, in any order. A value that borrows its texts.
class Parts {
 public:
  static constexpr std::size_t kMax = 16;

  // Leaves the array uninitialized: most requests have no parts, and clearing it would cost more
  // than a decision.
  constexpr Parts() noexcept : none_{} {}
  constexpr Parts(const Parts& other) noexcept : none_{} { *this = other; }
  constexpr Parts& operator=(const Parts& other) noexcept {
    for (std::size_t i = 0; i < other.stored(); ++i) parts_[i] = other.parts_[i];
    count_ = other.count_;
    return *this;
  }
  Parts(std::initializer_list<Part> parts) : Parts(std::span(parts.begin(), parts.size())) {}
  explicit Parts(std::span<const Part> parts) noexcept : Parts() {
    for (const Part& part : parts) add(part);
  }

  // Parts beyond the maximum are counted but not stored; too_many() makes the request an error.
  void add(const Part& part) noexcept {
    if (count_ < kMax) parts_[count_] = part;
    ++count_;
  }
  constexpr bool empty() const noexcept { return count_ == 0; }
  constexpr bool too_many() const noexcept { return count_ > kMax; }
  std::span<const Part> all() const noexcept { return {parts_, stored()}; }

 private:
  constexpr std::size_t stored() const noexcept { return count_ < kMax ? count_ : kMax; }

  std::size_t count_ = 0;
  union {
    char none_;
    Part parts_[kMax];
  };
};

}  // namespace v0
}  // namespace weir
