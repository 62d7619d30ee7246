#include "server/file_stamp.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

namespace weir::server {
namespace {

namespace fs = std::filesystem;

TEST(FileStamp, IsEmptyForAMissingFile) {
  EXPECT_FALSE(FileStamp::of("").exists());
  EXPECT_FALSE(FileStamp::of("/nonexistent/weir.yaml").exists());
}

// As by `cp --preserve`, or by an editor that puts the date back.
TEST(FileStamp, DiffersAfterAChangeThatKeepsSizeAndDate) {
  const std::string path = testing::TempDir() + "weir-stamp.yaml";
  std::ofstream{path} << "10/s";
  const FileStamp before = FileStamp::of(path);
  EXPECT_TRUE(before == FileStamp::of(path));
  const auto date = fs::last_write_time(path);
  // The kernel's file timestamps are coarse: the first writes may fall into the same tick.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  do {
    std::ofstream{path} << "20/s";
    fs::last_write_time(path, date);
  } while (before == FileStamp::of(path) && std::chrono::steady_clock::now() < end);
  EXPECT_FALSE(before == FileStamp::of(path));
  fs::remove(path);
}

}  // namespace
}  // namespace weir::server
