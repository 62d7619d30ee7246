#pragma once

#include <sys/stat.h>

#include <string>

namespace weir::server {

// The metadata that shows whether a file has changed. One stat(2) call: unlike inotify, it also
// works for files that are replaced, linked or mounted.
struct FileStamp {
  ino_t inode = 0;
  off_t size = 0;
  timespec modified{};
  timespec changed{};  // ctime: unlike mtime it cannot be set back

  static FileStamp of(const std::string& path) {
    struct stat file {};
    if (path.empty() || stat(path.c_str(), &file) != 0) return {};
    return {file.st_ino, file.st_size, file.st_mtim, file.st_ctim};
  }
  bool exists() const { return inode != 0; }
  bool operator==(const FileStamp& other) const {
    return inode == other.inode && size == other.size && same(modified, other.modified) &&
           same(changed, other.changed);
  }

 private:
  static bool same(const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  }
};

}  // namespace weir::server
