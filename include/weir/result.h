#pragma once

#include <string>
#include <utility>
#include <variant>

namespace weir {
inline namespace v0 {

// An error message for people: what is wrong, where, and what to do.
struct Error {
  std::string message;
};

// Either a value or an error. Not std::expected, which is C++23: this type must be the same for
// every language standard that its user compiles with.
template <typename T, typename E>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return error;` both read well.
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}  // NOLINT
  Result(E error) : held_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  explicit operator bool() const noexcept { return held_.index() == 0; }

  // Undefined unless there is a value.
  T& operator*() & { return *std::get_if<0>(&held_); }
  const T& operator*() const& { return *std::get_if<0>(&held_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&held_)); }
  T* operator->() { return std::get_if<0>(&held_); }
  const T* operator->() const { return std::get_if<0>(&held_); }

  // Undefined unless there is an error.
  const E& error() const { return *std::get_if<1>(&held_); }

 private:
  std::variant<T, E> held_;
};

}  // namespace v0
}  // namespace weir
