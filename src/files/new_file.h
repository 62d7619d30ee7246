#pragma once

#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "weir/result.h"

// Creating files, and replacing them as a whole. Nothing here follows a symbolic link in the last
// part of a name, and no file is touched that somebody else may have put there.

namespace weir::files {

// Owns a file descriptor: closes it, which also releases its lock, at the end of its life.
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

// True for a file, open for reading, that a killed process may have left behind.
using IsLeftover = bool (*)(int fd);

// Creates the file `name`, empty, locked by flock(2) and readable by its owner only. A leftover of
// that name is removed first; any other file there is an error and stays as it is.
Result<File, Error> create(const std::string& name, IsLeftover is_leftover);

// Moves the open file `from` to `to`, which it replaces. Both names are in one folder. The content
// is on disk before the move, and the move when this returns: a power cut leaves the old file or
// the new one.
std::optional<Error> move_over(int fd, const std::string& from, const std::string& to);

// The same, but replaces nothing: false if there is a file.
Result<bool, Error> move_if_free(int fd, const std::string& from, const std::string& to);

// Replaces the content of a file, or creates it, by way of a new file `path`.new.
std::optional<Error> replace(const std::string& path, std::string_view content);

}  // namespace weir::files
