#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace weir::support {

// A private folder of a test, removed with this object.
class Folder {
 public:
  Folder() {
    // In memory, where possible: tests open many files here and synchronize some.
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = access(memory.c_str(), W_OK) == 0;
    const auto base = in_memory ? memory : std::filesystem::temp_directory_path();
    std::string name = (base / "weir-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw std::filesystem::filesystem_error(name, last_error());
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  static std::error_code last_error() { return {errno, std::generic_category()}; }

  std::filesystem::path path_;
};

}  // namespace weir::support
