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

// The sizes of the parts of a table.
struct TableLayout {
  std::uint64_t rows = 1;
  std::uint64_t overflow_rows = 1;  // for overflow states
  std::uint64_t record_bytes = 0;   // for exact sliding windows and holders
  std::uint64_t note_bytes = 0;     // for the owner's note: two halves (notes.h)

  // The largest table in `bytes`, of which `record_bytes` are for records and `note_bytes` for
  // notes.
  static Result<TableLayout, Error> fitting(std::size_t bytes, std::size_t record_bytes,
                                            std::size_t note_bytes = 0);
  // A table with room for `keys` live keys under one limit.
  static Result<TableLayout, Error> for_keys(std::uint64_t keys, std::size_t record_bytes);
  std::size_t bytes() const;
  friend bool operator==(const TableLayout&, const TableLayout&) = default;
};

// The first page of a table: its format, and whether it was closed cleanly.
struct alignas(64) Header {
  // Constant once written.
  char magic[7];
  char format;
  std::uint64_t seed;
  TableLayout layout;
  std::uint64_t checksum;  // of the above

  // Mutable.
  std::atomic<std::uint64_t> last_time;  // the time of the last call, about
  std::atomic<std::uint32_t> clean;      // 1: closed cleanly
  char boot[40];                         // boot id of the system when it was last opened
};

// The result of opening a state file.
struct StateFileReport {
  bool restored = false;         // an existing file was opened
  bool after_power_cut = false;  // data that the system had not written to disk may be missing
  std::uint64_t dropped = 0;     // invalid slots
  Nanos rejected_clock_lead{0};  // how far the file's time was ahead of the clock, if implausible
  std::string set_aside;         // the new name of a file that could not be used
  std::string note;              // a message about set_aside; empty if there is none
};

// The memory of a table: anonymous, or a file that is locked for one process.
class Region {
 public:
  // Zeroed memory of this process. Throws std::bad_alloc.
  static Region anonymous(const TableLayout& layout);

  // Opens the state file at `path`, or creates it with all of its blocks allocated, so that a full
  // disk is detected now and not later. A damaged state file is renamed and never changed again. A
  // file that is not a state file is an error and stays unchanged. An existing file keeps its own
  // layout, which may differ from `layout`.
  static Result<Region, Error> file(const std::string& path, const TableLayout& layout,
                                    StateFileReport& opened);

  // Creates a new file beside `path`, which can replace it.
  static Result<Region, Error> create_replacement(const std::string& path,
                                                  const TableLayout& layout, std::uint64_t seed);
  // Renames this file to `path`, replacing the file there.
  std::optional<Error> replace_file(const std::string& path);
  // The same, but does not replace: returns false if there is a file.
  Result<bool, Error> move_to_free_path(const std::string& path);
  void discard();

  ~Region();
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;

  Header& header() const { return *reinterpret_cast<Header*>(memory_.data()); }
  std::span<Row> rows() const;  // overflow rows last
  std::span<std::byte> records() const;
  std::span<std::byte> notes() const;
  std::size_t size() const { return memory_.size(); }
  bool is_file() const { return fd_ >= 0; }

  // Marks the file as open, in the present boot of the system.
  void mark_in_use();
  // Writes everything to disk and marks the file as cleanly closed.
  void close();

 private:
  Region(std::span<std::byte> memory, int fd, std::string path);

  std::span<std::byte> memory_;
  int fd_ = -1;
  std::string path_;
};

}  // namespace weir::store
