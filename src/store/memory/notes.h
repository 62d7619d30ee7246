#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weir::store {

// A text that the user of a table keeps beside its states, in memory that may be a mapped file.
//
// The memory has two halves. A new text goes into the half that does not have the present one and
// counts once its checksum is there: a process that is killed meanwhile leaves the old text. Not
// thread-safe.
class Notes {
 public:
  explicit Notes(std::span<std::byte> memory);

  // The longest text that fits.
  std::size_t capacity() const;
  // The last text that was kept; empty if there is none. Valid until the next `keep`.
  std::string_view text() const;
  // False if the text is too long: then the last one stays.
  bool keep(std::string_view text);

 private:
  struct Half {
    std::uint64_t checksum;  // of all that follows
    std::uint64_t sequence;  // the higher one is the later one
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
