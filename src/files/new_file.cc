#include "files/new_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace weir::files {

namespace {

Error failed(std::string_view doing, std::string_view path) {
  return Error{system_error(doing, path, errno)};
}

Error in_the_way(const std::string& name) {
  return Error{"cannot create " + name +
               ": a file of that name exists that weir has not left behind; move it away"};
}

Error being_created(const std::string& name) {
  return Error{"another process is creating " + name + " at this moment: try again"};
}

// Detects hard links to other files, which could pass as a leftover otherwise.
bool is_own_regular_file(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
         status.st_uid == geteuid();
}

// Removes a leftover file of a killed process, if there is one. Holds its lock while doing so,
// which proves that no other process is writing it.
std::optional<Error> remove_leftover(const std::string& name, IsLeftover is_leftover) {
  const File file(open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file || !is_own_regular_file(file.get())) return in_the_way(name);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 || !same_file(file.get(), name)) {
    return being_created(name);
  }
  if (!is_leftover(file.get())) return in_the_way(name);
  if (unlink(name.c_str()) != 0) return failed("cannot remove the leftover", name);
  return std::nullopt;
}

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Syncs the folder, so that the rename itself is on disk.
std::optional<Error> sync_folder_of(const std::string& path) {
  const std::string name = folder_of(path);
  const File folder(open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return failed("cannot open the folder", name);
  // EINVAL: the file system does not support fsync on folders.
  if (fsync(folder.get()) != 0 && errno != EINVAL) return failed("cannot sync the folder", name);
  return std::nullopt;
}

}  // namespace

std::string system_error(std::string_view doing, std::string_view path, int error) {
  return std::string{doing} + " " + std::string{path} + ": " + std::strerror(error);
}

bool same_file(int fd, const std::string& path) {
  struct stat open_file {
  }, named{};
  return fstat(fd, &open_file) == 0 && lstat(path.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

Result<File, Error> create(const std::string& name, IsLeftover is_leftover) {
  constexpr int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  int fd = open(name.c_str(), flags, 0600);
  if (fd < 0 && errno == EEXIST) {
    if (auto error = remove_leftover(name, is_leftover)) return *std::move(error);
    fd = open(name.c_str(), flags, 0600);
    if (fd < 0 && errno == EEXIST) return being_created(name);
  }
  File file(fd);
  if (!file) return failed("cannot create", name);
  // Until it is locked, another process may take the new file for a leftover and remove it.
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 || !same_file(file.get(), name)) {
    return being_created(name);
  }
  return file;
}

std::optional<Error> move_over(int fd, const std::string& from, const std::string& to) {
  if (fsync(fd) != 0) return failed("cannot write", from);
  if (rename(from.c_str(), to.c_str()) != 0) return failed("cannot replace", to);
  return sync_folder_of(to);
}

Result<bool, Error> move_if_free(int fd, const std::string& from, const std::string& to) {
  if (fsync(fd) != 0) return failed("cannot write", from);
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST) return false;
    // Some file systems do not support RENAME_NOREPLACE.
    if (rename(from.c_str(), to.c_str()) != 0) return failed("cannot create", to);
  }
  if (auto error = sync_folder_of(to)) return *std::move(error);
  return true;
}

std::optional<Error> replace(const std::string& path, std::string_view content) {
  const std::string name = path + ".new";
  const auto file = create(name, [](int) { return true; });
  if (!file) return file.error();
  if (!write_all(file->get(), content)) {
    const int error = errno;
    unlink(name.c_str());
    return Error{system_error("cannot write", name, error)};
  }
  auto error = move_over(file->get(), name, path);
  if (error && same_file(file->get(), name)) unlink(name.c_str());
  return error;
}

}  // namespace weir::files
