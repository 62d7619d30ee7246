#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weir::store {

// A text that the owner of a table stores beside its states, in memory that may be a mapped file.
//
// The memory has two halves (double buffering). A new text is written to the half without the
// present text and becomes valid with its checksum, so a process that is killed in between leaves
// the old text. Not thread-safe.
class Notes {
 public:
  explicit Notes(std::span<std::byte> memory);

  // The maximum length of a text.
  std::size_t capacity() const;
  // The text stored last; empty if there is none. Valid until the next `keep`.
  std::string_view text() const;
  // Stores a text. Returns false, and keeps the last one, if it is too long.
  bool keep(std::string_view text);

 private:
  struct Half {
    std::uint64_t checksum;  // of the following fields and the text
    std::uint64_t sequence;  // the half with the higher number is newer
    std::uint64_t size;
  };

  Half& half(std::size_t i) const;
  std::string_view text_in(std::size_t i) const;
  std::uint64_t checksum_of(std::size_t i) const;
  bool is_whole(std::size_t i) const;
  std::size_t newest() const;

  std::span<std::byte> memory_;
};

}  // namespace weir::store
