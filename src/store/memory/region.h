#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "store/memory/slot.h"
#include "weir/result.h"

namespace weir::store {

// How the memory of a table is divided.
struct Layout {
  std::uint64_t rows = 1;
  std::uint64_t sharing_rows = 1;  // for those who share because the table is full
  std::uint64_t record_bytes = 0;  // for exact logs and holders
  std::uint64_t note_bytes = 0;    // for a note of the table's user, twice (notes.h)

  // What fits into `bytes`, of which `record_bytes` are for records and `note_bytes` for notes.
  static Result<Layout, Error> fitting(std::size_t bytes, std::size_t record_bytes,
                                       std::size_t note_bytes = 0);
  // Room for so many keys that are not at rest, all under one limit.
  static Result<Layout, Error> for_keys(std::uint64_t keys, std::size_t record_bytes);
  std::size_t bytes() const;
  friend bool operator==(const Layout&, const Layout&) = default;
};

// The first page of a table: what it is, and in what condition it was left.
struct alignas(64) Header {
  // Constant once written.
  char magic[7];
  char format;
  std::uint64_t seed;
  Layout layout;
  std::uint64_t checksum;  // of the above

  // Changes.
  std::atomic<std::uint64_t> last_time;  // how far the clock had come, about
  std::atomic<std::uint32_t> clean;      // closed in peace
  char boot[40];                         // the system's boot it was last opened in
};

// What a state file was found to be when it was opened.
struct Opened {
  bool restored = false;         // there was one to go on with
  bool after_power_cut = false;  // what the system had not written to disk may be missing
  std::uint64_t dropped = 0;     // slots that made no sense
  Nanos disbelieved{0};          // how far it was ahead of the clock, if that cannot be
  std::string set_aside;         // the new name of a file that could not be used
  std::string note;              // the same in words for people; empty if there is nothing to say
};

// The memory of a table: anonymous, or a file of which one process at a time may be the owner.
class Region {
 public:
  // Zeroed memory of this process. Throws std::bad_alloc.
  static Region anonymous(const Layout& layout);

  // The file at `path`; made if there is none, whole, so that a full disk shows now and not later.
  // A damaged state file is renamed and never touched again; a file that is not a state file is an
  // error and stays as it is. The layout may turn out to be another one than that asked for, if the
  // file has it.
  static Result<Region, Error> file(const std::string& path, const Layout& layout, Opened& opened);

  // A new file beside `path` that can take its place.
  static Result<Region, Error> successor(const std::string& path, const Layout& layout,
                                         std::uint64_t seed);
  std::optional<Error> take_place_of(const std::string& path);
  // The same, but not of anything: false if there is a file.
  Result<bool, Error> take_free_place(const std::string& path);
  void discard();

  ~Region();
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;

  Header& header() const { return *reinterpret_cast<Header*>(memory_.data()); }
  std::span<Row> rows() const;  // those for sharing last
  std::span<std::byte> records() const;
  std::span<std::byte> notes() const;
  std::size_t size() const { return memory_.size(); }
  bool is_file() const { return fd_ >= 0; }

  // Marks the file as not closed in peace, in this boot of the system, from now on.
  void in_use();
  // Writes everything to disk and marks the file as closed in peace.
  void close();

 private:
  Region(std::span<std::byte> memory, int fd, std::string path);

  std::span<std::byte> memory_;
  int fd_ = -1;
  std::string path_;
};

}  // namespace weir::store
