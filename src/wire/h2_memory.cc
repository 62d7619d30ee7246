#include "wire/h2_memory.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WEIR_ADDRESS_SANITIZER 1
#endif

namespace weir::wire {

namespace {

#ifdef WEIR_ADDRESS_SANITIZER
constexpr bool kKeeps = false;  // so that it sees each piece
#else
constexpr bool kKeeps = true;
#endif

constexpr std::size_t kStep = 64;           // sizes are rounded up to multiples of it
constexpr std::size_t kLargest = 1024;      // of those that are kept
constexpr std::size_t kMostKept = 1 << 20;  // bytes, of all sizes

// Stands in front of each piece.
struct alignas(std::max_align_t) Head {
  std::size_t size;  // of what is behind it
  Head* next;        // while it is kept
};

class Pieces {
 public:
  ~Pieces() {
    for (Head*& first : first_) {
      while (Head* const head = first) {
        first = head->next;
        std::free(head);
      }
    }
  }

  void* get(std::size_t size) {
    if (size > kLargest || size == 0) return fresh(size);
    const std::size_t place = (size - 1) / kStep;
    Head* const head = first_[place];
    if (head == nullptr) return fresh((place + 1) * kStep);
    first_[place] = head->next;
    kept_ -= head->size;
    return head + 1;
  }

  void give_back(void* piece) {
    if (piece == nullptr) return;
    Head* const head = static_cast<Head*>(piece) - 1;
    const bool small = head->size <= kLargest && head->size > 0;
    if (!kKeeps || !small || kept_ + head->size > kMostKept) return std::free(head);
    Head*& first = first_[head->size / kStep - 1];
    head->next = first;
    first = head;
    kept_ += head->size;
  }

  static std::size_t size_of(const void* piece) {
    return (static_cast<const Head*>(piece) - 1)->size;
  }

 private:
  static void* fresh(std::size_t size) {
    if (size > SIZE_MAX - sizeof(Head)) return nullptr;
    auto* const head = static_cast<Head*>(std::malloc(sizeof(Head) + size));
    if (head == nullptr) return nullptr;
    head->size = size;
    return head + 1;
  }

  std::array<Head*, kLargest / kStep> first_{};
  std::size_t kept_ = 0;
};

Pieces& pieces() {
  thread_local Pieces of_this_thread;
  return of_this_thread;
}

void* get(std::size_t size, void*) { return pieces().get(size); }

void give_back(void* piece, void*) { pieces().give_back(piece); }

void* get_zeros(std::size_t count, std::size_t size, void*) {
  if (size != 0 && count > SIZE_MAX / size) return nullptr;
  void* const piece = pieces().get(count * size);
  if (piece != nullptr) std::memset(piece, 0, count * size);
  return piece;
}

void* resize(void* piece, std::size_t size, void*) {
  if (piece == nullptr) return pieces().get(size);
  const std::size_t before = Pieces::size_of(piece);
  if (size <= before && size > 0) return piece;
  void* const larger = pieces().get(size);
  if (larger == nullptr) return nullptr;
  std::memcpy(larger, piece, std::min(before, size));
  pieces().give_back(piece);
  return larger;
}

}  // namespace

nghttp2_mem* h2_memory() {
  static nghttp2_mem memory{nullptr, get, give_back, get_zeros, resize};
  return &memory;
}

}  // namespace weir::wire
