#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace weir {

// A few elements in place: no allocation, and no time spent on those that are not there.
template <typename T, std::size_t kCapacity>
class FixedVector {
 public:
  FixedVector() {}  // NOLINT: leaves the places as they are
  ~FixedVector() { std::destroy_n(places_, size_); }
  FixedVector(const FixedVector&) = delete;
  FixedVector& operator=(const FixedVector&) = delete;

  template <typename... Args>
  T& emplace_back(Args&&... args) {
    assert(size_ < kCapacity);
    return *std::construct_at(places_ + size_++, std::forward<Args>(args)...);
  }

  // What `make` returns, made in its place: it need not be moved there.
  template <typename Make>
  T& append(const Make& make) {
    assert(size_ < kCapacity);
    T* const made = ::new (static_cast<void*>(places_ + size_)) T(make());
    ++size_;
    return *made;
  }

  void clear() {
    std::destroy_n(places_, size_);
    size_ = 0;
  }

  T& operator[](std::size_t i) { return places_[i]; }
  const T& operator[](std::size_t i) const { return places_[i]; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return places_; }
  T* end() { return places_ + size_; }
  const T* begin() const { return places_; }
  const T* end() const { return places_ + size_; }
  operator std::span<T>() { return {places_, size_}; }
  operator std::span<const T>() const { return {places_, size_}; }

 private:
  std::size_t size_ = 0;
  union {
    T places_[kCapacity];
  };
};

}  // namespace weir
