#pragma once

#include <string>
#include <utility>
#include <variant>

namespace weir {
inline namespace v0 {

// What went wrong, in words for people: what, where, and what to do about it.
struct Error {
  std::string message;
};

// Either a value or the reason why there is none. Not std::expected, which is C++23: this type is
// the same whatever standard its user compiles with.
template <typename T, typename E>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return error;` both read well.
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}  // NOLINT
  Result(E error) : held_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  explicit operator bool() const noexcept { return held_.index() == 0; }

  // Only when there is a value.
  T& operator*() & { return *std::get_if<0>(&held_); }
  const T& operator*() const& { return *std::get_if<0>(&held_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&held_)); }
  T* operator->() { return std::get_if<0>(&held_); }
  const T* operator->() const { return std::get_if<0>(&held_); }

  // Only when there is none.
  const E& error() const { return *std::get_if<1>(&held_); }

 private:
  std::variant<T, E> held_;
};

}  // namespace v0
}  // namespace weir
