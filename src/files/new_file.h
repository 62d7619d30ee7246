#pragma once

#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "weir/result.h"

// Atomic creation and replacement of files. No function follows a symbolic link in the last
// component of a path, or changes a file that another program or user may have put there.

namespace weir::files {

// Owns a file descriptor. The destructor closes it, which also releases its lock.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&&) = delete;

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// "cannot write /a/b: No space left on device"
std::string system_error(std::string_view doing, std::string_view path, int error);

// True if `path` still names the file that `fd` has open.
bool same_file(int fd, const std::string& path);

// Returns true if the file, open for reading, may be the leftover of a killed process.
using IsLeftover = bool (*)(int fd);

// Creates the empty file `name`, locked by flock(2) and readable by its owner only. Removes a
// leftover of that name first. Any other existing file is an error and stays unchanged.
Result<File, Error> create(const std::string& name, IsLeftover is_leftover);

// Renames the open file `from` to `to`, replacing it. Both are in the same folder. Syncs the
// content before the rename and the folder after it: a power failure leaves either the old or the
// new file.
std::optional<Error> move_over(int fd, const std::string& from, const std::string& to);

// The same, but does not replace an existing file: returns false if there is one.
Result<bool, Error> move_if_free(int fd, const std::string& from, const std::string& to);

// Replaces the content of a file, or creates it, through a temporary file `path`.new.
std::optional<Error> replace(const std::string& path, std::string_view content);

}  // namespace weir::files
