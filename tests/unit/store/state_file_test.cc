// A table in a state file: persistence, resizing, locking and errors.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <set>
#include <vector>

#include "file.h"

namespace weir::store {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Takes three of five permits under each limit, by three holders under concurrency limits.
void take_three(Table& table) {
  for (const Rule& rule : one_of_each()) {
    for (std::uint64_t i = 1; i <= 3; ++i) {
      ASSERT_TRUE(take(table, rule, "alice", Nanos{0}, 1, i));
    }
  }
}

void expect_two_left(Table& table) {
  for (const Rule& rule : one_of_each()) {
    EXPECT_EQ(peek(table, rule, "alice", Nanos{0}, 1, 9).remaining, 2) << "limit " << rule.identity;
  }
}

std::set<std::string> files_in(const Folder& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(StateFile, KeepsAllStatesWhenReopened) {
  const Folder folder;
  const std::string path = folder / "state";
  {
    const FileTable file = open_file(path);
    ASSERT_TRUE(file) << file.error;
    EXPECT_FALSE(file.opened.restored);
    take_three(*file);
  }
  const FileTable file = open_file(path);
  ASSERT_TRUE(file) << file.error;
  EXPECT_TRUE(file.opened.restored);
  EXPECT_FALSE(file.opened.after_power_cut);
  EXPECT_EQ(file.opened.dropped, 0u);
  EXPECT_EQ(file.opened.note, "");
  EXPECT_EQ(file->use(kStart).record_used, 2 * Arena::kMinBlock);
  expect_two_left(*file);
  EXPECT_EQ(files_in(folder), std::set<std::string>{"state"});
  EXPECT_TRUE(leave(*file, one_of_each().back(), "alice", Nanos{0}, 2));
}

// Every call that was answered is kept.
TEST(StateFile, KeepsAllStatesAfterAKill) {
  const Folder folder;
  const std::string path = folder / "state";
  const int status = in_child([&] {
    const FileTable file = open_file(path);
    take_three(*file);
    return raise(SIGKILL);
  });
  ASSERT_EQ(status, -SIGKILL);
  const FileTable file = open_file(path);
  ASSERT_TRUE(file) << file.error;
  EXPECT_TRUE(file.opened.restored);
  EXPECT_FALSE(file.opened.after_power_cut) << "the system is still the same";
  EXPECT_EQ(file.opened.dropped, 0u);
  expect_two_left(*file);
}

TEST(StateFile, KeepsOverflowStates) {
  const Folder folder;
  const std::string path = folder / "state";
  const Rule filler{.limit = bucket(1, hours{1}, 1), .identity = 1000};
  const Rule rule{.limit = bucket(1, hours{1}, 5)};
  const Rule seats{.limit = concurrency(5, hours{1}), .identity = 2};
  {
    const FileTable file = open_file(path);
    for (int i = 0; i < 40'000; ++i) (void)take(*file, filler, nth(i), Nanos{0});
    ASSERT_EQ(take(*file, rule, "bob", Nanos{0}, 3).remaining, 2);
    ASSERT_EQ(take(*file, seats, "bob", Nanos{0}, 3, 1).remaining, 2);
  }
  const FileTable file = open_file(path);
  ASSERT_TRUE(file) << file.error;
  EXPECT_EQ(take(*file, rule, "carol", Nanos{0}, 1).remaining, 1);
  EXPECT_TRUE(leave(*file, seats, "bob", Nanos{0}, 1));
  EXPECT_EQ(file.opened.dropped, 0u);
}

TEST(StateFile, AcceptsReceiptsFromBeforeARestart) {
  const Folder folder;
  const std::string path = folder / "state";
  for (const Rule& rule : one_of_each()) {
    if (std::holds_alternative<core::Concurrency>(rule.limit)) continue;
    core::Receipt receipt;
    {
      const FileTable file = open_file(path);
      const Item item = rule.item("alice", 3);
      ASSERT_TRUE(file->take({&item, 1}, kStart, {}, {&receipt, 1}).decision);
    }
    const FileTable file = open_file(path);
    const Item back = rule.item("alice", -3);
    EXPECT_EQ(file->settle({&back, 1}, kStart, {&receipt, 1}).decision.remaining, 5)
        << "limit " << rule.identity;
  }
}

// The system's clock may have been stepped back between two openings.
TEST(StateFile, KeepsItsLastTimeApproximately) {
  const Folder folder;
  const std::string path = folder / "state";
  const Rule rule{.limit = bucket(1, hours{1}, 5)};
  {
    const FileTable file = open_file(path);
    (void)take(*file, rule, "alice", minutes{5});
    (void)take(*file, rule, "bob", minutes{3});
  }
  const FileTable file = open_file(path);
  EXPECT_LE(file->resumes_at(), kStart + minutes{5});
  EXPECT_GT(file->resumes_at(), kStart + minutes{5} - milliseconds{200});
}

TEST(StateFile, IsReadableByItsOwnerOnly) {
  const Folder folder;
  const mode_t mask = umask(0);
  const FileTable file = open_file(folder / "state");
  umask(mask);
  struct stat status {};
  ASSERT_EQ(stat((folder / "state").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(static_cast<std::size_t>(status.st_size), kFileBytes);
  EXPECT_GE(static_cast<std::size_t>(status.st_blocks) * 512, kFileBytes) << "no holes";
}

// ---- Other sizes

TEST(StateFile, MovesIntoALargerTable) {
  const Folder folder;
  const std::string path = folder / "state";
  take_three(*open_file(path));
  for (const std::size_t factor : {2, 3, 20}) {
    const FileTable file = open_file(path, factor * kFileBytes, 40 << 10);
    ASSERT_TRUE(file) << file.error;
    EXPECT_TRUE(file.opened.restored);
    EXPECT_EQ(std::filesystem::file_size(path), factor * kFileBytes);
    EXPECT_EQ(file->use(kStart).record_used, 2 * Arena::kMinBlock);
    expect_two_left(*file);
  }
  expect_two_left(*open_file(path, 20 * kFileBytes, 40 << 10));
  EXPECT_EQ(files_in(folder), std::set<std::string>{"state"});
}

// Keys at rest are not copied.
TEST(StateFile, MovesIntoASmallerTableIfAllLiveKeysFit) {
  const Folder folder;
  const std::string path = folder / "state";
  const Rule brief{.limit = bucket(1, seconds{1}, 1), .identity = 1000};
  {
    const FileTable file = open_file(path);
    for (int i = 0; i < 1000; ++i) (void)take(*file, brief, nth(i), Nanos{0});
    take_three(*file);
  }
  const FileTable file = open_file(path, 16 << 10, 4 << 10, seconds{2});
  ASSERT_TRUE(file) << file.error;
  for (const Rule& rule : one_of_each()) {
    if (std::holds_alternative<core::Smooth>(rule.limit)) continue;  // saves up while idle
    EXPECT_EQ(peek(*file, rule, "alice", seconds{2}, 1, 9).remaining, 2) << rule.identity;
  }
  EXPECT_EQ(file->use(kStart + seconds{2}).live, one_of_each().size() - 1);
}

// Records of many blocks are copied, and their blocks can be freed at their new position.
TEST(StateFile, MovesRecords) {
  const Folder folder;
  const std::string path = folder / "state";
  const Rule log{.limit = exact(200, hours{1}), .identity = 1};
  const Rule seats{.limit = concurrency(200, hours{1}), .identity = 2};
  {
    const FileTable file = open_file(path);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(take(*file, log, "alice", milliseconds{i}));
      ASSERT_TRUE(take(*file, seats, "alice", milliseconds{i}, 1, static_cast<std::uint64_t>(i)));
    }
  }
  const FileTable file = open_file(path, 2 * kFileBytes, 64 << 10, seconds{1});
  ASSERT_TRUE(file) << file.error;
  EXPECT_EQ(peek(*file, log, "alice", seconds{1}).remaining, 100);
  EXPECT_EQ(peek(*file, seats, "alice", seconds{1}, 1, 999).remaining, 100);
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(leave(*file, seats, "alice", seconds{1}, i));
    ASSERT_TRUE(take(*file, log, "alice", seconds{1} + milliseconds{i}));
  }
  EXPECT_FALSE(take(*file, log, "alice", seconds{2}));
  for (const Rule* rule : {&log, &seats}) {
    const Item item = rule->item("alice");
    file->reset({&item, 1}, kStart + seconds{2});
  }
  EXPECT_EQ(file->use(kStart).record_used, 0u);
}

// The error says what to do.
TEST(StateFile, StaysUnchangedWhenItDoesNotFitIntoASmallerTable) {
  const Folder folder;
  const std::string path = folder / "state";
  const Rule rule{.limit = bucket(1, hours{1}, 5)};
  {
    const FileTable file = open_file(path);
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(take(*file, rule, nth(i), Nanos{0}, 2));
  }
  const FileTable smaller = open_file(path, 8 << 10, 0);
  ASSERT_FALSE(smaller);
  EXPECT_THAT(smaller.error, AllOf(HasSubstr(path), HasSubstr("keys in use that do not fit"),
                                   HasSubstr("make the table larger")));
  EXPECT_EQ(files_in(folder), std::set<std::string>{"state"});
  const FileTable file = open_file(path);
  ASSERT_TRUE(file) << file.error;
  for (int i = 0; i < 500; ++i) EXPECT_EQ(peek(*file, rule, nth(i), Nanos{0}).remaining, 3);
}

TEST(StateFile, StaysUnchangedWhenItsRecordsDoNotFit) {
  const Folder folder;
  const std::string path = folder / "state";
  const Rule log{.limit = exact(5, hours{1})};
  {
    const FileTable file = open_file(path);
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(take(*file, log, nth(i), Nanos{0}, 2));
  }
  const FileTable smaller = open_file(path, kFileBytes, 4 << 10);
  ASSERT_FALSE(smaller);
  EXPECT_THAT(smaller.error, HasSubstr("24 keys in use that do not fit"));
  const FileTable file = open_file(path);
  ASSERT_TRUE(file) << file.error;
  for (int i = 0; i < 40; ++i) EXPECT_EQ(peek(*file, log, nth(i), Nanos{0}).remaining, 3);
}

// ---- One owner

TEST(StateFile, RefusesASecondOpener) {
  const Folder folder;
  const std::string path = folder / "state";
  const FileTable file = open_file(path);
  ASSERT_TRUE(file) << file.error;
  const FileTable second = open_file(path);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error, AllOf(HasSubstr(path), HasSubstr("in use"), HasSubstr("another file")));
  EXPECT_FALSE(open_file(path, 2 * kFileBytes)) << "of whatever size";
  take_three(*file);
  expect_two_left(*file);
}

TEST(StateFile, RefusesASecondProcess) {
  const Folder folder;
  const std::string path = folder / "state";
  const FileTable file = open_file(path);
  ASSERT_TRUE(file) << file.error;
  // A separate open file description, as in an unrelated process.
  const int status = in_child([&] {
    const FileTable second = open_file(path);
    return !second && second.error.find("in use by another process") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(StateFile, IsUnlockedWhenItsOwnerIsKilled) {
  const Folder folder;
  const std::string path = folder / "state";
  ASSERT_EQ(in_child([&] {
              const FileTable file = open_file(path);
              return raise(SIGKILL);
            }),
            -SIGKILL);
  EXPECT_TRUE(open_file(path));
}

// A process that was killed while it created the file has left a temporary file.
TEST(StateFile, IsCreatedDespiteAnUnfinishedOne) {
  for (const std::string& left :
       {std::string(), std::string("weirtab"), "weirtab2" + std::string(9'999, '\0')}) {
    const Folder folder;
    const std::string path = folder / "state";
    write_file(path + ".new", left);
    const FileTable file = open_file(path);
    ASSERT_TRUE(file) << file.error;
    EXPECT_EQ(files_in(folder), std::set<std::string>{"state"});
  }
}

// The name of the temporary file may be in use by another program's file, or by a link to one.
TEST(StateFile, DoesNotReplaceAForeignTemporaryFile) {
  const Folder folder;
  const std::string path = folder / "state";
  const auto expect_refused = [&] {
    const FileTable file = open_file(path);
    ASSERT_FALSE(file);
    EXPECT_THAT(file.error, AllOf(HasSubstr(path + ".new"), HasSubstr("move it away")));
    EXPECT_FALSE(std::filesystem::exists(path));
  };
  write_file(path + ".new", "precious");
  expect_refused();
  EXPECT_EQ(read_file(path + ".new"), "precious");
  std::filesystem::rename(path + ".new", folder / "diary");
  std::filesystem::create_symlink(folder / "diary", path + ".new");
  expect_refused();
  std::filesystem::remove(path + ".new");
  // Looks like a leftover, except for its second hard link.
  write_file(folder / "other", "");
  std::filesystem::create_hard_link(folder / "other", path + ".new");
  expect_refused();
  EXPECT_EQ(read_file(folder / "diary"), "precious");
}

// ---- Impossible paths

TEST(StateFile, ReportsAMissingFolder) {
  const Folder folder;
  const FileTable file = open_file(folder / "missing/state");
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error,
              AllOf(HasSubstr(folder / "missing/state"), HasSubstr("No such file or directory")));
}

TEST(StateFile, CannotBeAFolder) {
  const Folder folder;
  const std::string path = folder / "state";
  std::filesystem::create_directory(path);
  std::filesystem::create_directory_symlink(path, folder / "link");
  for (const std::string& name : {path, folder / "link"}) {
    const FileTable file = open_file(name);
    ASSERT_FALSE(file);
    EXPECT_THAT(file.error, AllOf(HasSubstr(path), HasSubstr("is not a regular file")));
  }
  EXPECT_EQ(files_in(folder), (std::set<std::string>{"state", "link"}));
}

TEST(StateFile, CannotBeAPipeOrADevice) {
  const Folder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const std::string& name : {folder / "pipe", std::string("/dev/null")}) {
    const FileTable file = open_file(name);
    ASSERT_FALSE(file);
    EXPECT_THAT(file.error, HasSubstr(name + " is not a regular file"));
  }
}

TEST(StateFile, MayBeBehindASymbolicLink) {
  const Folder folder;
  take_three(*open_file(folder / "real"));
  std::filesystem::create_symlink(folder / "real", folder / "state");
  const FileTable file = open_file(folder / "state");
  ASSERT_TRUE(file) << file.error;
  expect_two_left(*file);
  EXPECT_FALSE(open_file(folder / "real")) << "it is the same file";
}

// The new file replaces the target, not the link.
TEST(StateFile, MovesIntoALargerTableBehindASymbolicLink) {
  const Folder folder;
  std::filesystem::create_directory(folder / "disk");
  take_three(*open_file(folder / "disk/real"));
  std::filesystem::create_symlink(folder / "disk/real", folder / "state");
  const FileTable file = open_file(folder / "state", 2 * kFileBytes);
  ASSERT_TRUE(file) << file.error;
  expect_two_left(*file);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "state"));
  EXPECT_EQ(std::filesystem::file_size(folder / "disk/real"), 2 * kFileBytes);
}

// The target of a dangling link may be on a disk that is not mounted yet.
TEST(StateFile, DoesNotReplaceADanglingLink) {
  const Folder folder;
  std::filesystem::create_symlink(folder / "missing", folder / "state");
  const FileTable file = open_file(folder / "state");
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error, AllOf(HasSubstr(folder / "state"), HasSubstr("link")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "state"));
}

// Runs as another user, since root may write any file.
TEST(StateFile, ReportsAMissingWritePermission) {
  const Folder folder;
  const std::string path = folder / "state";
  take_three(*open_file(path));
  std::filesystem::permissions(path, std::filesystem::perms{0444});
  std::filesystem::permissions(folder.path(), std::filesystem::perms{0755});
  const std::string before = read_file(path);
  std::string error_file = folder / "error";
  write_file(error_file, "");
  std::filesystem::permissions(error_file, std::filesystem::perms{0666});
  const int status = in_child([&] {
    if (geteuid() == 0 && setuid(65534) != 0) return 77;
    const FileTable file = open_file(path);
    write_file(error_file, file.error);
    return file ? 1 : 0;
  });
  if (status == 77) GTEST_SKIP() << "cannot become somebody else";
  ASSERT_EQ(status, 0);
  EXPECT_THAT(read_file(error_file), AllOf(HasSubstr(path), HasSubstr("Permission denied")));
  EXPECT_EQ(read_file(path), before);
}

// The folder is not writable.
TEST(StateFile, ReportsThatItMayNotBeCreated) {
  const Folder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms{0555});
  const int status = in_child([&] {
    if (geteuid() == 0 && setuid(65534) != 0) return 77;
    const FileTable file = open_file(folder / "state");
    return !file && file.error.find("Permission denied") != std::string::npos ? 0 : 1;
  });
  if (status == 77) GTEST_SKIP() << "cannot become somebody else";
  EXPECT_EQ(status, 0);
}

// ---- Disks

// The error says how much space is left.
TEST(StateFile, ReportsThatTheDiskIsTooSmall) {
  const Folder folder;
  const FileTable file = open_file(folder / "state", std::size_t{1} << 45);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error, AllOf(HasSubstr(folder / "state"), HasSubstr("needs 33554432.0 MiB"),
                                HasSubstr("but the disk has"), HasSubstr("left")));
  EXPECT_EQ(files_in(folder), std::set<std::string>{});
}

// Runs `work` in a child process with a file system of 1 MiB at `folder`. Returns 77 if mounting is
// not permitted.
template <typename Work>
int with_small_disk(const Folder& folder, Work work) {
  return in_child([&] {
    if (unshare(CLONE_NEWNS) != 0) return 77;
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    if (mount("none", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) return 77;
    return work();
  });
}

// A disk that fills up later does not affect an existing file, but a new one is refused.
TEST(StateFile, HasAllItsBlocksFromTheStart) {
  const Folder folder;
  const int status = with_small_disk(folder, [&] {
    const std::string path = folder / "state";
    const FileTable file = open_file(path, 512 << 10);
    if (!file) return 1;
    write_file(folder / "filler", std::string(2 << 20, 'x'));  // fills the disk
    const Rule rule{.limit = bucket(1, hours{1}, 5)};
    for (int i = 0; i < 5000; ++i) (void)take(*file, rule, nth(i), Nanos{0});
    if (open_file(folder / "other", 256 << 10)) return 2;
    if (std::filesystem::exists(folder / "other.new")) return 3;
    return 0;
  });
  if (status == 77) GTEST_SKIP() << "no disk of one's own here";
  EXPECT_EQ(status, 0);
}

// A copy from a backup may be sparse. Its blocks are allocated when it is opened; otherwise a full
// disk would kill the process with SIGBUS during a take.
TEST(StateFile, AllocatesTheHolesOfASparseCopy) {
  const Folder folder;
  const int status = with_small_disk(folder, [&] {
    const std::string path = folder / "state";
    if (!open_file(path, 512 << 10)) return 1;
    const std::string first_page = read_file(path).substr(0, 4096);
    std::filesystem::remove(path);
    write_file(path, first_page);
    std::filesystem::resize_file(path, 512 << 10);
    write_file(folder / "filler", std::string(2 << 20, 'x'));
    const FileTable full = open_file(path, 512 << 10);
    if (full) return 2;
    if (full.error.find("No space left") == std::string::npos) return 3;
    std::filesystem::remove(folder / "filler");
    const FileTable file = open_file(path, 512 << 10);
    if (!file) return 4;
    write_file(folder / "filler", std::string(2 << 20, 'x'));
    const Rule rule{.limit = bucket(1, hours{1}, 5)};
    for (int i = 0; i < 5000; ++i) (void)take(*file, rule, nth(i), Nanos{0});
    return 0;
  });
  if (status == 77) GTEST_SKIP() << "no disk of one's own here";
  EXPECT_EQ(status, 0);
}

// The old file stays and can be used.
TEST(StateFile, StaysUnchangedWhenTheDiskHasNoRoomForALargerOne) {
  const Folder folder;
  const int status = with_small_disk(folder, [&] {
    const std::string path = folder / "state";
    const Rule rule{.limit = bucket(1, hours{1}, 5)};
    (void)take(*open_file(path, 400 << 10), rule, "alice", Nanos{0}, 3);
    const FileTable larger = open_file(path, 900 << 10);
    if (larger || larger.error.find("the disk has") == std::string::npos) return 1;
    const FileTable file = open_file(path, 400 << 10);
    return file && peek(*file, rule, "alice", Nanos{0}).remaining == 2 ? 0 : 2;
  });
  if (status == 77) GTEST_SKIP() << "no disk of one's own here";
  EXPECT_EQ(status, 0);
}

TEST(StateFile, ReportsAReadOnlyDisk) {
  const Folder folder;
  const int status = with_small_disk(folder, [&] {
    const std::string path = folder / "state";
    if (!open_file(path)) return 1;
    if (mount("none", folder.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      return 77;
    }
    const FileTable file = open_file(path);
    if (file || file.error.find("Read-only file system") == std::string::npos) return 2;
    const FileTable other = open_file(folder / "other");
    return other || other.error.find("Read-only file system") == std::string::npos ? 3 : 0;
  });
  if (status == 77) GTEST_SKIP() << "no disk of one's own here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace weir::store
