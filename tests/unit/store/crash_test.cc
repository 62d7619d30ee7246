// Simulates a kill between any two stores into the state file. Each operation runs on a
// write-protected mapping, so that every store faults. The fault handler saves the file's content
// before the store; each saved image is then opened as if the process had been killed there.

#include <gtest/gtest.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <set>
#include <sstream>
#include <vector>

#include "file.h"

namespace weir::store {
namespace {

constexpr std::size_t kBytes = 20 << 10;
constexpr std::ptrdiff_t kRecordBytes = 8 << 10;
constexpr std::size_t kMaxStores = 300;

// Records the content of a mapped file before each store into it.
class Stores {
 public:
  explicit Stores(const std::string& path) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find(path) == std::string::npos) continue;
      std::istringstream text(line);
      std::uintptr_t begin = 0;
      char dash = 0;
      text >> std::hex >> begin >> dash;
      memory_ = reinterpret_cast<char*>(begin);
    }
    images_.resize(kMaxStores * kBytes);
  }

  // Runs `work` and returns the content before each store, and the final content.
  std::vector<std::string> during(const std::function<void()>& work) {
    watched_ = this;
    struct sigaction on_fault {};
    on_fault.sa_sigaction = [](int, siginfo_t* info, void* context) {
      watched_->before_store(static_cast<char*>(info->si_addr), context);
    };
    on_fault.sa_flags = SA_SIGINFO;
    struct sigaction on_step {};
    on_step.sa_sigaction = [](int, siginfo_t*, void* context) { watched_->after_store(context); };
    on_step.sa_flags = SA_SIGINFO;
    struct sigaction old_fault {};
    struct sigaction old_step {};
    sigaction(SIGSEGV, &on_fault, &old_fault);
    sigaction(SIGTRAP, &on_step, &old_step);
    mprotect(memory_, kBytes, PROT_READ);
    work();
    mprotect(memory_, kBytes, PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &old_fault, nullptr);
    sigaction(SIGTRAP, &old_step, nullptr);
    std::vector<std::string> all;
    for (std::size_t i = 0; i < count_; ++i) {
      all.emplace_back(images_.data() + i * kBytes, kBytes);
    }
    all.emplace_back(memory_, kBytes);
    return all;
  }

 private:
  static constexpr greg_t kSingleStep = 0x100;

  void before_store(const char* at, void* context) {
    if (at < memory_ || at >= memory_ + kBytes || count_ == kMaxStores) abort();
    std::memcpy(images_.data() + count_++ * kBytes, memory_, kBytes);
    mprotect(memory_, kBytes, PROT_READ | PROT_WRITE);
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] |= kSingleStep;
  }
  void after_store(void* context) {
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kSingleStep;
    mprotect(memory_, kBytes, PROT_READ);
  }

  static inline Stores* watched_ = nullptr;
  char* memory_ = nullptr;
  std::vector<char> images_;
  std::size_t count_ = 0;
};

struct Key {
  Rule rule;
  std::string name;
};

// The usage of each key at `at`.
std::vector<Permits> used(Table& table, const std::vector<Key>& keys, Nanos at) {
  std::vector<Permits> all;
  for (const Key& key : keys) {
    const core::Decision answer = peek(table, key.rule, key.name, at, 1, 999'999);
    all.push_back(answer.limit - answer.remaining);
  }
  return all;
}

// Simulates a kill at every store of `work`, after `prepare`. Each key's usage must then be that
// before or after `work`, or between the two. Higher usage is accepted only with `may_waste`.
struct Killed {
  std::vector<Key> keys;
  std::function<void(Table&)> prepare;
  std::function<void(Table&)> work;
  Nanos at{0};
  bool may_waste = false;

  void at_every_store() const {
    const Folder folder;
    const std::string path = folder / "state";
    std::vector<std::string> images;
    std::vector<Permits> before;
    std::vector<Permits> after;
    {
      const FileTable file = open_file(path, kBytes, kRecordBytes);
      ASSERT_TRUE(file) << file.error;
      prepare(*file);
      before = used(*file, keys, at);
      images = Stores(path).during([&] { work(*file); });
      after = used(*file, keys, at);
    }
    ASSERT_NE(before, after) << "the test would prove nothing";
    ASSERT_GE(images.size(), 3u);
    for (std::size_t i = 0; i < images.size(); ++i) {
      if (i > 0 && images[i] == images[i - 1]) continue;
      write_file(path, images[i]);
      const FileTable file = open_file(path, kBytes, kRecordBytes);
      ASSERT_TRUE(file) << file.error;
      EXPECT_EQ(file.opened.dropped, 0u) << "store " << i << " of " << images.size();
      const std::vector<Permits> found = used(*file, keys, at);
      for (std::size_t k = 0; k < keys.size(); ++k) {
        EXPECT_GE(found[k], std::min(before[k], after[k]))
            << "minted: key " << k << ", store " << i << " of " << images.size();
        if (may_waste) continue;
        EXPECT_LE(found[k], std::max(before[k], after[k]))
            << "wasted: key " << k << ", store " << i << " of " << images.size();
      }
      expect_working(*file);
    }
  }

  // The table still works: it serves all keys, and all records can be freed.
  void expect_working(Table& table) const {
    for (const Key& key : keys) {
      for (std::uint64_t i = 0; i < 20; ++i) {
        (void)take(table, key.rule, key.name, at + seconds{1}, 1, 5000 + i);
      }
    }
    const Rule crowd{.limit = bucket(1, hours{1}, 1), .identity = 77};
    for (int i = 0; i < 200; ++i) (void)take(table, crowd, nth(i), at + seconds{1});
    for (const Key& key : keys) {
      const Item item = key.rule.item(key.name);
      table.reset({&item, 1}, kStart + at + seconds{1});
      EXPECT_EQ(peek(table, key.rule, key.name, at + seconds{1}).remaining,
                core::capacity(key.rule.limit));
    }
  }
};

const Rule kBucket{.limit = bucket(1, hours{1000}, 50), .identity = 1};
const Rule kWindow{.limit = window(50, hours{1000}), .identity = 2};
const Rule kLog{.limit = exact(50, hours{1000}), .identity = 3};
const Rule kConcurrency{.limit = concurrency(50, hours{1000}), .identity = 4};

void prepare_nothing(Table&) {}

TEST(Crash, KeepsUsageDuringATakeFromABucket) {
  Killed{.keys = {{kBucket, "alice"}},
         .prepare = [](Table& table) { (void)take(table, kBucket, "alice", Nanos{0}, 3); },
         .work = [](Table& table) { (void)take(table, kBucket, "alice", Nanos{0}, 4); }}
      .at_every_store();
}

TEST(Crash, KeepsUsageDuringTheFirstTakeOfAKey) {
  Killed{.keys = {{kBucket, "alice"}},
         .prepare = prepare_nothing,
         .work = [](Table& table) { (void)take(table, kBucket, "alice", Nanos{0}, 4); }}
      .at_every_store();
}

// A new key evicts one at rest, in a table where all other keys are live.
TEST(Crash, KeepsUsageDuringAnEviction) {
  const Rule brief{.limit = bucket(1, seconds{1}, 1), .identity = 9};
  std::vector<Key> keys{{kBucket, "alice"}};
  for (int i = 0; i < 10; ++i) keys.push_back({kWindow, nth(i)});
  Killed{.keys = keys,
         .prepare =
             [&](Table& table) {
               for (int i = 0; i < 10; ++i) (void)take(table, kWindow, nth(i), Nanos{0});
               for (int i = 0; i < 1000; ++i) (void)take(table, brief, nth(i), Nanos{0});
             },
         .work = [](Table& table) { (void)take(table, kBucket, "alice", seconds{5}, 4); },
         .at = seconds{5}}
      .at_every_store();
}

// Checks each key of the plan by itself: a call that was not answered may be charged to some of
// them.
TEST(Crash, KeepsUsageDuringATakeFromFourLimits) {
  Killed{.keys = {{kBucket, "alice"}, {kWindow, "alice"}, {kLog, "alice"}, {kConcurrency, "alice"}},
         .prepare =
             [](Table& table) {
               (void)take(table, kBucket, "alice", Nanos{0}, 3);
               (void)take(table, kLog, "alice", Nanos{0}, 3);
             },
         .work =
             [](Table& table) {
               const std::vector<Item> plan{kBucket.item("alice", 2), kWindow.item("alice", 2),
                                            kLog.item("alice", 2), kConcurrency.item("alice", 2)};
               (void)table.take(plan, kStart + seconds{1}, {.low = 1});
             },
         .at = seconds{1}}
      .at_every_store();
}

// New entries within the capacity of the record, and such as move it into a larger block.
TEST(Crash, KeepsUsageWhenALogGrows) {
  for (const int entries : {0, 1, 13, 14, 30}) {
    Killed{.keys = {{kLog, "alice"}},
           .prepare =
               [&](Table& table) {
                 for (int i = 0; i < entries; ++i)
                   (void)take(table, kLog, "alice", milliseconds{i});
               },
           .work = [](Table& table) { (void)take(table, kLog, "alice", seconds{1}, 5); },
           .at = seconds{1}}
        .at_every_store();
  }
}

// A new entry replaces an expired one in a full ring buffer.
TEST(Crash, KeepsUsageWhenALogWrapsAround) {
  const Rule log{.limit = exact(14, seconds{1}), .identity = 5};
  for (const int start : {0, 1, 7, 13}) {
    Killed{
        .keys = {{log, "alice"}},
        .prepare =
            [&](Table& table) {
              for (int i = 0; i < 14 + start; ++i) {
                (void)take(table, log, "alice", milliseconds{i * 72});
              }
            },
        .work =
            [&](Table& table) { (void)take(table, log, "alice", milliseconds{1008 + start * 72}); },
        .at = milliseconds{1008 + start * 72}}
        .at_every_store();
  }
}

// A refund removes an entry from the middle, or reduces it.
TEST(Crash, LosesNoUsageWhenALogGivesBack) {
  for (const Permits back : {-1, -3}) {
    core::Receipt receipt;
    Killed{.keys = {{kLog, "alice"}},
           .prepare =
               [&](Table& table) {
                 for (int i = 0; i < 10; ++i) {
                   const Item item = kLog.item("alice", i == 4 ? 3 : 1);
                   core::Receipt given;
                   (void)table.take({&item, 1}, kStart + milliseconds{i}, {}, {&given, 1});
                   if (i == 4) receipt = given;
                 }
               },
           .work =
               [&](Table& table) {
                 const Item item = kLog.item("alice", back);
                 (void)table.settle({&item, 1}, kStart + seconds{1}, {&receipt, 1});
               },
           .at = seconds{1},
           .may_waste = true}
        .at_every_store();
  }
}

// With and without a free entry in the record.
TEST(Crash, KeepsUsageWhenAHolderEnters) {
  for (const std::uint64_t holders : {0, 1, 6, 7, 15}) {
    Killed{
        .keys = {{kConcurrency, "alice"}},
        .prepare =
            [&](Table& table) {
              for (std::uint64_t i = 1; i <= holders; ++i) {
                (void)take(table, kConcurrency, "alice", milliseconds{i}, 1 + i % 3, i);
              }
            },
        .work = [](Table& table) { (void)take(table, kConcurrency, "alice", seconds{1}, 5, 100); },
        .at = seconds{1}}
        .at_every_store();
  }
}

TEST(Crash, KeepsUsageOrResetsItDuringAReset) {
  Killed{.keys = {{kLog, "alice"}},
         .prepare = [](Table& table) { (void)take(table, kLog, "alice", Nanos{0}, 5); },
         .work =
             [](Table& table) {
               const Item item = kLog.item("alice");
               table.reset({&item, 1}, kStart);
             }}
      .at_every_store();
}

// Records at rest are evicted for the record of a new key.
TEST(Crash, KeepsUsageWhenRecordsAreReclaimed) {
  const Rule brief{.limit = exact(1, seconds{1}), .identity = 9};
  Killed{.keys = {{kLog, "alice"}, {kBucket, "alice"}},
         .prepare =
             [&](Table& table) {
               (void)take(table, kBucket, "alice", Nanos{0}, 5);
               for (int i = 0; i < kRecordBytes / 256; ++i) {
                 (void)take(table, brief, nth(i), Nanos{0});
               }
             },
         .work = [](Table& table) { (void)take(table, kLog, "alice", seconds{5}, 5); },
         .at = seconds{5}}
      .at_every_store();
}

// The other holders move up, and each of them counts at least once.
TEST(Crash, LosesNoHolderWhenAnotherLeaves) {
  for (const std::uint64_t holders : {1, 2, 3, 5, 7, 12}) {
    for (std::uint64_t leaving = 1; leaving <= holders; ++leaving) {
      Killed{
          .keys = {{kConcurrency, "alice"}},
          .prepare =
              [&](Table& table) {
                for (std::uint64_t i = 1; i <= holders; ++i) {
                  (void)take(table, kConcurrency, "alice", milliseconds{i}, 1 + i % 3, i);
                }
              },
          .work =
              [&](Table& table) { (void)leave(table, kConcurrency, "alice", seconds{1}, leaving); },
          .at = seconds{1},
          .may_waste = true}
          .at_every_store();
    }
  }
}

// A holder enters after others have expired.
TEST(Crash, LosesNoHolderWhenOneEntersAfterOthersHaveExpired) {
  const Rule rule{.limit = concurrency(50, seconds{10}), .identity = 5};
  for (const std::uint64_t holders : {2, 3, 5, 7, 12}) {
    for (std::uint64_t expired = 1; expired < holders; ++expired) {
      const Nanos at = seconds{10 + expired} + milliseconds{500};
      Killed{.keys = {{rule, "alice"}},
             .prepare =
                 [&](Table& table) {
                   for (std::uint64_t i = 1; i <= holders; ++i) {
                     (void)take(table, rule, "alice", seconds{i}, 1 + i % 3, i);
                   }
                 },
             .work = [&](Table& table) { (void)take(table, rule, "alice", at, 5, 100); },
             .at = at,
             .may_waste = true}
          .at_every_store();
    }
  }
}

// A holder renews its hold time and moves to the end.
TEST(Crash, KeepsUsageWhenAHolderRenews) {
  for (const std::uint64_t holders : {1, 2, 3, 7}) {
    for (std::uint64_t renewing = 1; renewing <= holders; ++renewing) {
      const Key other{kBucket, "alice"};
      Killed{.keys = {{kConcurrency, "alice"}, other},
             .prepare =
                 [&](Table& table) {
                   for (std::uint64_t i = 1; i <= holders; ++i) {
                     (void)take(table, kConcurrency, "alice", milliseconds{i}, 1 + i % 3, i);
                   }
                 },
             .work =
                 [&](Table& table) {
                   (void)take(table, kConcurrency, "alice", seconds{1}, 1, renewing);
                   (void)take(table, kBucket, "alice", seconds{1});
                 },
             .at = seconds{1}}
          .at_every_store();
    }
  }
}

// A holder enters by a clock that is slightly behind: holders that expire later move back.
TEST(Crash, KeepsUsageWhenAHolderEntersBeforeOthers) {
  for (const std::uint64_t holders : {1, 2, 6, 7}) {
    Killed{
        .keys = {{kConcurrency, "alice"}},
        .prepare =
            [&](Table& table) {
              for (std::uint64_t i = 1; i <= holders; ++i) {
                (void)take(table, kConcurrency, "alice", seconds{i}, 5 - i % 3, i);
              }
            },
        .work =
            [&](Table& table) { (void)take(table, kConcurrency, "alice", milliseconds{1}, 1, 99); },
        .at = seconds{holders}}
        .at_every_store();
  }
}

}  // namespace
}  // namespace weir::store

#endif
