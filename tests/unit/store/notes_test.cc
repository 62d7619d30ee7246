#include "store/memory/notes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/folder.h"
#include "file.h"

namespace weir::store {
namespace {

constexpr std::size_t kNoteBytes = 256;

struct NoteText : testing::Test {
  alignas(8) std::byte memory[kNoteBytes] = {};
  Notes notes{memory};
};

TEST_F(NoteText, HasNoTextAtFirst) { EXPECT_EQ(notes.text(), ""); }

TEST_F(NoteText, ReturnsTheTextStoredLast) {
  for (const std::string text : {"one", "two", "", "a longer one"}) {
    ASSERT_TRUE(notes.keep(text));
    EXPECT_EQ(notes.text(), text);
    EXPECT_EQ(Notes(memory).text(), text);
  }
}

TEST_F(NoteText, KeepsTheOldTextWhenTheNewOneIsTooLong) {
  ASSERT_TRUE(notes.keep("old"));
  EXPECT_TRUE(notes.keep(std::string(notes.capacity(), 'x')));
  ASSERT_TRUE(notes.keep("old"));
  EXPECT_FALSE(notes.keep(std::string(notes.capacity() + 1, 'x')));
  EXPECT_EQ(notes.text(), "old");
}

TEST_F(NoteText, StoresNothingWithoutMemory) {
  Notes none({});
  EXPECT_EQ(none.capacity(), 0u);
  EXPECT_TRUE(none.keep(""));
  EXPECT_FALSE(none.keep("x"));
  EXPECT_EQ(none.text(), "");
}

// A process that is killed may have written any bytes of the new half.
TEST_F(NoteText, ReturnsTheOldTextWhenTheNewOneIsDamagedAnywhere) {
  ASSERT_TRUE(notes.keep("the first text"));
  const std::vector<std::byte> before(memory, memory + kNoteBytes);
  ASSERT_TRUE(notes.keep("a second text, which is longer"));
  const std::vector<std::byte> after(memory, memory + kNoteBytes);
  int damaged = 0;
  for (std::size_t i = 0; i < kNoteBytes; ++i) {
    if (before[i] == after[i]) continue;
    memory[i] = before[i];
    EXPECT_EQ(Notes(memory).text(), "the first text") << i;
    memory[i] = after[i];
    ++damaged;
  }
  EXPECT_GT(damaged, 30);
  EXPECT_EQ(Notes(memory).text(), "a second text, which is longer");
}

TEST_F(NoteText, IgnoresAnImpossibleSize) {
  ASSERT_TRUE(notes.keep("text"));
  for (std::size_t i = 0; i < kNoteBytes; ++i) memory[i] = std::byte{0xff};
  EXPECT_EQ(notes.text(), "");
}

// A table of another size is a new file.
TEST(TableNote, IsKeptAcrossAKillAndAResize) {
  const support::Folder folder;
  const std::string path = folder / "state";
  constexpr std::size_t bytes = 1 << 20;
  ASSERT_EQ(in_child([&] {
              const FileTable table = open_file(path, bytes);
              return table->notes().keep("left behind") ? raise(SIGKILL) : 1;
            }),
            -SIGKILL);
  for (const std::size_t size : {bytes, 2 * bytes, bytes / 2}) {
    const FileTable table = open_file(path, size);
    ASSERT_TRUE(table) << table.error;
    EXPECT_EQ(table->notes().text(), "left behind");
  }
}

TEST(TableNote, HasNoCapacityInTinyFilesAndInMemory) {
  const support::Folder folder;
  EXPECT_EQ(open_file(folder / "state", 72 << 10)->notes().capacity(), 0u);
  EXPECT_EQ(Table({.rows = 8}).notes().capacity(), 0u);
}

}  // namespace
}  // namespace weir::store
