#include "files/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "../../support/folder.h"

namespace weir::files {
namespace {

using support::Folder;
using testing::AllOf;
using testing::HasSubstr;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_to(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string error_of(const std::optional<Error>& error) { return error ? error->message : ""; }

class ReplacedFile : public testing::Test {
 protected:
  // Expects that the file has that content, and that no temporary file is left.
  void expect_only(const std::string& content) {
    EXPECT_EQ(content_of(path_), content);
    EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
  }

  const Folder folder_;
  const std::string path_ = folder_ / "file";
};

TEST_F(ReplacedFile, HasExactlyTheNewContent) {
  for (const std::string& content : {std::string("one"), std::string(), std::string(99'999, 'x')}) {
    EXPECT_EQ(error_of(replace(path_, content)), "");
    expect_only(content);
  }
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(ReplacedFile, ReplacesTheLeftoverOfAKilledProcess) {
  write_to(path_ + ".new", "half of");
  EXPECT_EQ(error_of(replace(path_, "all")), "");
  expect_only("all");
}

TEST_F(ReplacedFile, DoesNotWriteThroughALink) {
  write_to(folder_ / "diary", "precious");
  write_to(path_, "old");
  std::filesystem::create_symlink(folder_ / "diary", path_ + ".new");
  EXPECT_THAT(error_of(replace(path_, "new")), AllOf(HasSubstr(".new"), HasSubstr("move it away")));
  std::filesystem::remove(path_ + ".new");
  std::filesystem::create_hard_link(folder_ / "diary", path_ + ".new");
  EXPECT_THAT(error_of(replace(path_, "new")), HasSubstr("move it away"));
  EXPECT_EQ(content_of(folder_ / "diary"), "precious");
  EXPECT_EQ(content_of(path_), "old");
}

// The symbolic link itself is replaced, not its target.
TEST_F(ReplacedFile, ReplacesASymbolicLinkOfItsName) {
  write_to(folder_ / "diary", "precious");
  std::filesystem::create_symlink(folder_ / "diary", path_);
  EXPECT_EQ(error_of(replace(path_, "new")), "");
  EXPECT_EQ(content_of(folder_ / "diary"), "precious");
  expect_only("new");
}

TEST_F(ReplacedFile, IsUnchangedWhileAnotherProcessCreatesTheNewOne) {
  write_to(path_, "old");
  const auto other = create(path_ + ".new", [](int) { return true; });
  ASSERT_TRUE(other);
  EXPECT_THAT(error_of(replace(path_, "new")), HasSubstr("another process is creating"));
  EXPECT_EQ(content_of(path_), "old");
  EXPECT_TRUE(same_file(other->get(), path_ + ".new"));
}

TEST_F(ReplacedFile, ReportsWriteErrors) {
  EXPECT_THAT(error_of(replace(folder_ / "none/file", "x")),
              HasSubstr("No such file or directory"));
  std::filesystem::create_directory(path_);
  EXPECT_THAT(error_of(replace(path_, "x")), AllOf(HasSubstr(path_), HasSubstr("directory")));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(ReplacedFile, IsNotReplacedByMoveIfFree) {
  const auto make = [&] { return create(path_ + ".new", [](int) { return true; }); };
  auto first = make();
  ASSERT_TRUE(first);
  EXPECT_TRUE(*move_if_free(first->get(), path_ + ".new", path_));
  auto second = make();
  ASSERT_TRUE(second);
  EXPECT_FALSE(*move_if_free(second->get(), path_ + ".new", path_));
  EXPECT_TRUE(same_file(first->get(), path_));
}

}  // namespace
}  // namespace weir::files
