// Damaged and foreign state files: repairable damage is repaired, other files are set aside or
// refused, and no file is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "file.h"

namespace weir::store {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kPage = 4096;

const Rule kPlain{.limit = bucket(1, hours{1}, 5), .identity = 1};
const Rule kLog{.limit = exact(5, hours{1}), .identity = 2};
const Rule kConcurrency{.limit = concurrency(5, hours{1}), .identity = 3};
constexpr int kKeys = 40;

// A file in which each key has used 3 of 5 under each limit.
void make(const std::string& path) {
  const FileTable file = open_file(path);
  ASSERT_TRUE(file) << file.error;
  for (int i = 0; i < kKeys; ++i) {
    for (const Rule* rule : {&kPlain, &kLog}) {
      ASSERT_TRUE(take(*file, *rule, nth(i), Nanos{0}, 2));
      ASSERT_TRUE(take(*file, *rule, nth(i), seconds{1}, 1));
    }
    if (i >= kKeys / 2) continue;
    ASSERT_TRUE(take(*file, kConcurrency, nth(i), Nanos{0}, 3, 1));
  }
}

// The number of keys whose usage is unchanged.
int intact(Table& table) {
  int count = 0;
  for (int i = 0; i < kKeys; ++i) {
    for (const Rule* rule : {&kPlain, &kLog}) {
      count += peek(table, *rule, nth(i), seconds{1}).remaining == 2 ? 1 : 0;
    }
    count +=
        i < kKeys / 2 && peek(table, kConcurrency, nth(i), Nanos{0}, 1, 9).remaining == 2 ? 1 : 0;
  }
  return count;
}
constexpr int kAll = 2 * kKeys + kKeys / 2;

// Access to the parts of a file's content, to damage them.
class Image {
 public:
  explicit Image(std::string bytes) : bytes_(std::move(bytes)) {}

  const std::string& bytes() const { return bytes_; }
  Header& header() { return *reinterpret_cast<Header*>(bytes_.data()); }
  std::size_t row_count() { return header().layout.rows + header().layout.overflow_rows; }
  char* row(std::size_t i) { return bytes_.data() + kPage + i * sizeof(Row); }
  std::uint64_t& word(char* at, std::size_t i) { return reinterpret_cast<std::uint64_t*>(at)[i]; }
  // The words of a slot: when, what, high, low with the rest time.
  std::uint64_t* slot(std::size_t row_index, std::size_t i) {
    return reinterpret_cast<std::uint64_t*>(row(row_index) + 32 + i * sizeof(Slot));
  }
  std::uint64_t* record(std::uint64_t handle) {
    return reinterpret_cast<std::uint64_t*>(row(row_count()) + (handle - 1) * Arena::kMinBlock);
  }
  template <typename Visit>
  void each_slot(Visit visit) {
    for (std::size_t r = 0; r < row_count(); ++r) {
      for (std::size_t i = 0; i < Row::kSlots; ++i) visit(slot(r, i));
    }
  }
  // All slots in use that refer to a record.
  std::vector<std::uint64_t*> with_records() {
    std::vector<std::uint64_t*> slots;
    each_slot([&](std::uint64_t* s) {
      if ((s[3] & Fingerprint::kRecord) != 0 && s[0] != 0) slots.push_back(s);
    });
    return slots;
  }

 private:
  std::string bytes_;
};

class DamagedFile : public testing::Test {
 protected:
  void SetUp() override { make(path_); }

  // Damages the file and opens it.
  template <typename Tamper>
  FileTable after(Tamper tamper) {
    Image image(read_file(path_));
    tamper(image);
    write_file(path_, image.bytes());
    return open_file(path_);
  }

  // Expects that the file is set aside unchanged, for the given reason, and the table starts empty.
  void expect_set_aside(const std::string& bytes, const std::string& reason) {
    write_file(path_, bytes);
    const FileTable file = open_file(path_);
    ASSERT_TRUE(file) << file.error;
    EXPECT_FALSE(file.opened.restored);
    EXPECT_THAT(file.opened.set_aside, HasSubstr(path_ + ".aside-"));
    EXPECT_THAT(file.opened.note,
                AllOf(HasSubstr(path_), HasSubstr(file.opened.set_aside), HasSubstr(reason)));
    EXPECT_EQ(read_file(file.opened.set_aside), bytes);
    EXPECT_EQ(intact(*file), 0);
    EXPECT_TRUE(take(*file, kPlain, nth(0), seconds{1}, 5));
  }

  const Folder folder_;
  const std::string path_ = folder_ / "state";
};

// ---- Files that are set aside

TEST_F(DamagedFile, IsSetAsideWhenItIsTooShort) {
  const std::string bytes = read_file(path_);
  expect_set_aside(bytes.substr(0, 7), "too short");
  expect_set_aside(bytes.substr(0, 40), "too short");
}

TEST_F(DamagedFile, IsSetAsideWhenItIsOfAnotherFormat) {
  for (const char format : {'0', '1', '3', '\0'}) {
    std::string bytes = read_file(path_);
    bytes[7] = format;
    expect_set_aside(bytes, "format");
    make(path_ + "2");
    std::filesystem::rename(path_ + "2", path_);
  }
}

TEST_F(DamagedFile, IsSetAsideWhenItsLengthIsWrong) {
  const std::string bytes = read_file(path_);
  expect_set_aside(bytes.substr(0, bytes.size() - 1), "bytes instead of");
  expect_set_aside(bytes.substr(0, bytes.size() / 2), "bytes instead of");
  expect_set_aside(bytes.substr(0, kPage), "bytes instead of");
  expect_set_aside(bytes + "x", "bytes instead of");
}

// Each bit of the constant part of the header.
TEST_F(DamagedFile, IsSetAsideWhenItsHeaderIsDamaged) {
  const std::string bytes = read_file(path_);
  for (std::size_t at = 8; at < offsetof(Header, last_time); ++at) {
    for (int bit = 0; bit < 8; bit += 3) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      expect_set_aside(damaged, "first page is damaged");
      std::filesystem::remove_all(folder_.path());
      std::filesystem::create_directory(folder_.path());
    }
  }
}

// The checksum is right, but the layout is impossible: sums that wrap around to the size of the
// file, and missing parts.
TEST_F(DamagedFile, IsSetAsideWhenItsLayoutIsImpossible) {
  const std::string bytes = read_file(path_);
  const auto with = [&](auto change) {
    Image image(bytes);
    Header& header = image.header();
    change(header.layout);
    header.checksum = hash_of({image.bytes().data(), offsetof(Header, checksum)}, 1).low;
    return image.bytes();
  };
  const std::string reason = "an impossible table";
  expect_set_aside(with([](TableLayout& l) { l.rows += std::uint64_t{1} << 55; }), reason);
  expect_set_aside(with([](TableLayout& l) { l.overflow_rows += std::uint64_t{1} << 55; }), reason);
  expect_set_aside(with([](TableLayout& l) {
                     l.rows += std::uint64_t{1} << 54;
                     l.record_bytes += std::uint64_t{1} << 63;
                   }),
                   reason);
  expect_set_aside(with([](TableLayout& l) { l.rows += std::exchange(l.overflow_rows, 0); }),
                   reason);
  expect_set_aside(with([](TableLayout& l) { l.overflow_rows += std::exchange(l.rows, 0); }),
                   reason);
}

// Two damaged files in a row are both kept.
TEST_F(DamagedFile, NeverReplacesAnotherWhenSetAside) {
  const std::string bytes = read_file(path_);
  for (int i = 0; i < 20; ++i) expect_set_aside(bytes.substr(0, 2000 + i), "bytes instead of");
  int aside = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    aside += entry.path().string().find(".aside-") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(aside, 20);
}

// ---- Files of other programs

using ForeignFile = DamagedFile;

TEST_F(ForeignFile, IsRefusedAndStaysUnchanged) {
  std::string one_bit_off = read_file(path_);
  one_bit_off[3] ^= 1;
  std::mt19937 random(5);
  std::string garbage(kFileBytes, '\0');
  for (char& c : garbage) c = static_cast<char>(random());
  for (const std::string& bytes :
       {one_bit_off, garbage, std::string("weir"), std::string("\0", 1), std::string(4096, '\0'),
        std::string("{\"login\": \"limits: [ 5/s ]\"}"), std::string("root:x:0:0::/:/bin/sh\n")}) {
    write_file(path_, bytes);
    const FileTable file = open_file(path_);
    ASSERT_FALSE(file);
    EXPECT_THAT(file.error, AllOf(HasSubstr(path_ + " is not a state file of weir"),
                                  HasSubstr("stays as it is"), HasSubstr("move this one away")));
    EXPECT_EQ(read_file(path_), bytes);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
  }
}

TEST_F(ForeignFile, IsRefusedWhenItIsEmpty) {
  write_file(path_, "");
  const FileTable file = open_file(path_);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error, AllOf(HasSubstr(path_ + " is empty"), HasSubstr("move this one away")));
  EXPECT_EQ(std::filesystem::file_size(path_), 0u);
}

TEST_F(ForeignFile, IsRefusedBehindALink) {
  write_file(folder_ / "diary", "precious");
  std::filesystem::create_symlink(folder_ / "diary", folder_ / "link");
  const FileTable file = open_file(folder_ / "link");
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error, HasSubstr(folder_ / "diary is not a state file of weir"));
  EXPECT_EQ(read_file(folder_ / "diary"), "precious");
}

// ---- Files that are repaired

// A process was killed while it held all locks.
TEST_F(DamagedFile, IsUnlockedWhenOpened) {
  const FileTable file = after([](Image& image) {
    for (std::size_t r = 0; r < image.row_count(); ++r) image.word(image.row(r), 3) |= 1;
    image.each_slot([](std::uint64_t* slot) { slot[0] |= std::uint64_t{1} << 63; });
  });
  ASSERT_TRUE(file) << file.error;
  EXPECT_EQ(file.opened.dropped, 0u);
  EXPECT_EQ(intact(*file), kAll);
  for (int i = 0; i < 2000; ++i) (void)take(*file, kPlain, "new " + nth(i), seconds{1});
  for (int i = 0; i < kKeys; ++i) EXPECT_TRUE(take(*file, kPlain, nth(i), seconds{1}, 2));
}

// The file was not closed cleanly, and the system has been rebooted since: data that was not
// written to disk is missing, which must be reported.
TEST_F(DamagedFile, ReportsAPowerCut) {
  EXPECT_FALSE(after([](Image& image) { image.header().boot[0] ^= 1; }).opened.after_power_cut);
  EXPECT_FALSE(after([](Image& image) { image.header().clean = 0; }).opened.after_power_cut);
  const FileTable file = after([](Image& image) {
    image.header().clean = 0;
    image.header().boot[0] ^= 1;
  });
  EXPECT_TRUE(file.opened.after_power_cut);
  EXPECT_EQ(intact(*file), kAll);
}

TEST_F(DamagedFile, RebuildsItsTagsAndSummaries) {
  std::mt19937_64 random(6);
  const FileTable file = after([&](Image& image) {
    for (std::size_t r = 0; r < image.row_count(); ++r) {
      for (std::size_t i = 0; i < 3; ++i) image.word(image.row(r), i) = random();
    }
  });
  ASSERT_TRUE(file) << file.error;
  EXPECT_EQ(file.opened.dropped, 0u);
  EXPECT_EQ(intact(*file), kAll);
  const Rule other{.limit = bucket(1, hours{1}, 5), .identity = 9, .when_full = WhenFull::deny};
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(take(*file, other, nth(i), seconds{1}));
  EXPECT_EQ(intact(*file), kAll);
}

// Two rows are swapped: their keys would not be found there.
TEST_F(DamagedFile, DropsSlotsThatLieInTheWrongRow) {
  std::uint64_t moved = 0;
  const FileTable file = after([&](Image& image) {
    std::vector<char> kept(image.row(0), image.row(1));
    std::memcpy(image.row(0), image.row(7), sizeof(Row));
    std::memcpy(image.row(7), kept.data(), sizeof(Row));
    for (const std::size_t r : {std::size_t{0}, std::size_t{7}}) {
      for (std::size_t i = 0; i < Row::kSlots; ++i) moved += image.slot(r, i)[3] != 0 ? 1 : 0;
    }
  });
  ASSERT_TRUE(file) << file.error;
  ASSERT_GT(moved, 0u);
  // A slot whose second row happens to be the one it was moved to is still valid.
  EXPECT_LE(file.opened.dropped, moved);
  EXPECT_GE(file.opened.dropped + 2, moved);
  EXPECT_EQ(intact(*file), kAll - static_cast<int>(file.opened.dropped));
}

// Two slots refer to one record: the second one is dropped, or both would write to it.
TEST_F(DamagedFile, GivesARecordToOneOwnerOnly) {
  const FileTable file = after([](Image& image) {
    // The copy has the same owner and lies in an empty slot of the same row.
    for (std::size_t r = 0; r < image.row_count(); ++r) {
      std::uint64_t* owner = nullptr;
      std::uint64_t* empty = nullptr;
      for (std::size_t i = 0; i < Row::kSlots; ++i) {
        std::uint64_t* slot = image.slot(r, i);
        if (slot[3] == 0) empty = slot;
        if ((slot[3] & Fingerprint::kRecord) != 0 && slot[0] != 0) owner = slot;
      }
      if (owner == nullptr || empty == nullptr) continue;
      std::memcpy(empty, owner, sizeof(Slot));
      return;
    }
    FAIL() << "no row with a record and an empty slot";
  });
  ASSERT_TRUE(file) << file.error;
  EXPECT_EQ(file.opened.dropped, 1u);
  EXPECT_EQ(intact(*file), kAll);
  EXPECT_EQ(file->use(kStart).record_used, (kKeys + kKeys / 2) * Arena::kMinBlock);
}

// A slot with a wrong handle or an invalid record is dropped with its record; others stay.
TEST_F(DamagedFile, DropsInvalidRecords) {
  const FileTable file = after([](Image& image) {
    const auto slots = image.with_records();
    ASSERT_GE(slots.size(), 12u);
    slots[0][1] = 0;                                            // no handle
    slots[1][1] = std::uint64_t{1} << 40;                       // beyond all handles
    slots[2][1] = (24 << 10) / Arena::kMinBlock + 1;            // the first handle beyond the arena
    slots[3][1] = slots[4][1];                                  // the record of another slot
    image.record(slots[5][1])[0] ^= 1;                          // a record with another owner
    image.record(slots[6][1])[2] = 0xffff'ffff;                 // starts beyond its end
    image.record(slots[7][1])[2] = std::uint64_t{1} << 60;      // more entries than its capacity
    image.record(slots[8][1])[3] = 16ull << 32;                 // no capacity
    image.record(slots[9][1])[3] = 17ull << 32 | 8;             // entries of an unknown size
    image.record(slots[10][1])[3] = 16ull << 32 | 0xffff'ffff;  // larger than the arena
    // Impossible numbers of permits, which are the last word of each entry.
    const bool is_log = image.record(slots[11][1])[3] >> 32 == sizeof(core::LogEntry);
    image.record(slots[11][1])[is_log ? 5 : 7] = ~std::uint64_t{0};
  });
  ASSERT_TRUE(file) << file.error;
  EXPECT_EQ(file.opened.dropped, 11u);
  EXPECT_EQ(intact(*file), kAll - 11);
  EXPECT_EQ(file->use(kStart).record_used, (kKeys + kKeys / 2 - 11) * Arena::kMinBlock);
  // The blocks of dropped records are free again.
  const Rule other{.limit = exact(1, hours{1}), .identity = 9, .when_full = WhenFull::deny};
  for (int i = 0; i < 64 - (kKeys + kKeys / 2 - 11); ++i) {
    EXPECT_TRUE(take(*file, other, nth(i), Nanos{0}));
  }
  for (int i = 0; i < kKeys; ++i) (void)take(*file, kLog, nth(i), seconds{2});
}

// The last time in the header changes too often to be covered by a checksum. Implausible times,
// there and in the rows, are ignored.
TEST_F(DamagedFile, DoesNotContinueFromAnImplausibleTime) {
  for (const int bit : {63, 62, 61, 56}) {
    const FileTable file = after([&](Image& image) {
      image.header().last_time.store(std::uint64_t{1} << bit | core::word_of(kStart));
      for (std::size_t r = 0; r < image.row_count(); ++r) {
        image.word(image.row(r), 3) |= std::uint64_t{1} << bit;
      }
    });
    ASSERT_TRUE(file) << file.error;
    EXPECT_EQ(file->resumes_at(), kStart);
    EXPECT_EQ(file.opened.dropped, 0u);
    EXPECT_EQ(file.opened.rejected_clock_lead > hours{24 * 366}, bit < 63);
    EXPECT_EQ(intact(*file), kAll);
    const Rule window_rule{.limit = window(1, seconds{10}, true), .identity = 9};
    for (int i = 0; i < 50; ++i) {
      ASSERT_LE(take(*file, window_rule, "new " + nth(i), Nanos{0}).reset_after, minutes{2});
    }
  }
  const FileTable file = after(
      [](Image& image) { image.header().last_time.store(core::word_of(kStart + hours{24 * 90})); });
  EXPECT_EQ(file->resumes_at(), kStart + hours{24 * 90}) << "a clock that was a season ahead";
}

// Arithmetic on such instants would overflow.
TEST_F(DamagedFile, DropsStatesBeyondTheLatestInstant) {
  int changed = 0;
  const FileTable file = after([&](Image& image) {
    image.each_slot([&](std::uint64_t* slot) {
      if (slot[3] == 0 || (slot[3] & Fingerprint::kRecord) != 0 || changed == 10) return;
      slot[0] = (std::uint64_t{1} << 63) - 1 - static_cast<std::uint64_t>(changed++);
    });
  });
  ASSERT_TRUE(file) << file.error;
  EXPECT_EQ(file.opened.dropped, 10u);
  EXPECT_EQ(intact(*file), kAll - 10);
}

// Holders without permits would use entries without counting, so there could be too many of them.
TEST_F(DamagedFile, DropsHoldersWithoutPermits) {
  const FileTable file = after([](Image& image) {
    for (std::uint64_t* slot : image.with_records()) {
      std::uint64_t* record = image.record(slot[1]);
      if (record[3] >> 32 != sizeof(core::Holder)) continue;
      record[2] = std::uint64_t{7} << 32;
      for (int i_holder = 0; i_holder < 7; ++i_holder) {
        std::memcpy(record + 4 + 4 * i_holder, record + 4, sizeof(core::Holder));
        record[4 + 4 * i_holder + 3] = 0;
      }
    }
  });
  ASSERT_TRUE(file) << file.error;
  EXPECT_EQ(file.opened.dropped, static_cast<std::uint64_t>(kKeys / 2));
  for (int i = 0; i < kKeys / 2; ++i) {
    int entered = 0;
    for (std::uint64_t holder = 10; holder < 30; ++holder) {
      entered += take(*file, kConcurrency, nth(i), seconds{1}, 1, holder) ? 1 : 0;
    }
    EXPECT_EQ(entered, 5);
  }
}

// Random bit errors after the first page: the file can be opened, used and closed. A table cannot
// repair such data, but the process must not crash.
TEST_F(DamagedFile, NeverCrashesTheProcessThatOpensIt) {
  const std::string good = read_file(path_);
  // For another seed: --gtest_shuffle --gtest_random_seed=…
  std::mt19937_64 random(static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed()));
  for (int round = 0; round < scaled(400); ++round) {
    std::string bytes = good;
    const int flips = 1 << random() % 12;
    for (int i = 0; i < flips; ++i) {
      const std::size_t at = kPage + random() % (bytes.size() - kPage);
      bytes[at] = static_cast<char>(random() % 2 == 0 ? random() : bytes[at] ^ 1 << random() % 8);
    }
    write_file(path_, bytes);
    const FileTable file = open_file(path_);
    ASSERT_TRUE(file) << file.error;
    for (int i = 0; i < 3 * kKeys; ++i) {
      for (const Rule* rule : {&kPlain, &kLog, &kConcurrency}) {
        (void)peek(*file, *rule, nth(i), seconds{1}, 1, 5);
        (void)take(*file, *rule, nth(i), seconds{i}, 1 + i % 3, random() % 5);
        (void)leave(*file, *rule, nth(i), seconds{1}, 1);
      }
    }
    (void)file->use(kStart);
  }
}

}  // namespace
}  // namespace weir::store
