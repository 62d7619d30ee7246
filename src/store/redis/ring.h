#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace weir::store::redis {

// First in, first out. Once it has grown it asks for no memory, unlike std::deque, which goes on
// taking and giving back blocks.
template <typename T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  const T& front() const { return places_[first_]; }

  void push_back(T value) {
    if (size_ == places_.size()) grow();
    places_[(first_ + size_) & (places_.size() - 1)] = std::move(value);
    ++size_;
  }
  T pop_front() {
    T value = std::move(places_[first_]);
    first_ = (first_ + 1) & (places_.size() - 1);
    --size_;
    return value;
  }

 private:
  void grow() {
    std::vector<T> larger(places_.empty() ? 64 : 2 * places_.size());  // a power of two
    for (std::size_t i = 0; i < size_; ++i) {
      larger[i] = std::move(places_[(first_ + i) & (places_.size() - 1)]);
    }
    places_.swap(larger);
    first_ = 0;
  }

  std::vector<T> places_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace weir::store::redis
