#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace weir {

// A vector of fixed capacity without allocation. Unused elements are not constructed.
template <typename T, std::size_t kCapacity>
class FixedVector {
 public:
  FixedVector() {}  // NOLINT: leaves the elements uninitialized
  ~FixedVector() { std::destroy_n(elements_, size_); }
  FixedVector(const FixedVector&) = delete;
  FixedVector& operator=(const FixedVector&) = delete;

  template <typename... Args>
  T& emplace_back(Args&&... args) {
    assert(size_ < kCapacity);
    return *std::construct_at(elements_ + size_++, std::forward<Args>(args)...);
  }

  // Appends the value that `make` returns. It is constructed in place (guaranteed copy elision), so
  // T need not be movable.
  template <typename Make>
  T& append(const Make& make) {
    assert(size_ < kCapacity);
    T* const element = ::new (static_cast<void*>(elements_ + size_)) T(make());
    ++size_;
    return *element;
  }

  void clear() {
    std::destroy_n(elements_, size_);
    size_ = 0;
  }

  T& operator[](std::size_t i) { return elements_[i]; }
  const T& operator[](std::size_t i) const { return elements_[i]; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return elements_; }
  T* end() { return elements_ + size_; }
  const T* begin() const { return elements_; }
  const T* end() const { return elements_ + size_; }
  operator std::span<T>() { return {elements_, size_}; }
  operator std::span<const T>() const { return {elements_, size_}; }

 private:
  std::size_t size_ = 0;
  union {
    T elements_[kCapacity];
  };
};

}  // namespace weir
