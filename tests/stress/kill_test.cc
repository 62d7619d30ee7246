// Processes that are killed while they work, repeatedly, on one state file.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <random>

#include "file.h"
#include "threads.h"

namespace weir::store {
namespace {

constexpr int kThreads = 2;

// Not a single permit comes back within the time of a test.
constexpr Nanos kForLong = hours{24 * 3650};
const Rule kBucket{.limit = bucket(1'000'000, kForLong, 1'000'000), .identity = 1};
const Rule kLeft{.limit = bucket(1'000'000, kForLong, 1'000'000), .identity = 2};
const Rule kRight{.limit = window(1'000'000'000, kForLong), .identity = 3};
const Rule kLog{.limit = exact(core::kMaxExact, kForLong), .identity = 4};
const Rule kSeats{.limit = concurrency(core::kMaxConcurrent, kForLong), .identity = 5};
const Rule kTurnstile{.limit = concurrency(core::kMaxConcurrent, kForLong), .identity = 6};

constexpr int kKeys = 100;
constexpr int kKeysWithRecords = 30;

// Opens the file, sometimes with another size: answered takes survive a resize.
FileTable open_in_round(const std::string& path, int round) {
  const auto size = static_cast<std::size_t>(round / 25 % 3);
  return open_file(path, (12 + 2 * size) << 20, static_cast<std::ptrdiff_t>(8 + size) << 20);
}

// The answers of a process up to its death. Lies in memory that it shares with its parent.
struct Answered {
  template <std::size_t kCount>
  using Counts = std::array<std::atomic<Permits>, kCount>;

  Counts<kKeys> bucket;  // admitted, written after the answer
  Counts<kKeys> plan;
  Counts<kKeysWithRecords> log;
  Counts<kKeysWithRecords> seats;
  Counts<kKeysWithRecords> entered;  // of holders that also leave
  Counts<kKeysWithRecords> leaving;  // written before the leave
  Counts<kKeysWithRecords> left;     // written after the leave
  std::atomic<std::uint64_t> holders;
  std::atomic<std::uint64_t> calls;
};

class SharedAnswered {
 public:
  SharedAnswered()
      : answered_(new (mmap(nullptr, sizeof(Answered), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Answered{}) {}
  ~SharedAnswered() { munmap(answered_, sizeof(Answered)); }
  SharedAnswered(const SharedAnswered&) = delete;
  SharedAnswered& operator=(const SharedAnswered&) = delete;
  Answered* operator->() const { return answered_; }
  Answered& operator*() const { return *answered_; }

 private:
  Answered* answered_;
};

// Takes until the process is killed.
void work(Table& table, Answered& told, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::pair<std::size_t, std::uint64_t>> inside;
  for (;;) {
    ++told.calls;
    // Some calls come at the same clock time.
    const Nanos now = microseconds{told.calls.load() / 16};
    const std::size_t key = random() % kKeys;
    const std::size_t few = random() % kKeysWithRecords;
    const Permits cost = 1;
    switch (random() % 16) {
      default:
        if (take(table, kBucket, nth(static_cast<int>(key)), now, cost)) ++told.bucket[key];
        break;
      case 1:
      case 2:
      case 3: {
        const std::string name = nth(static_cast<int>(key));
        const std::vector<Item> plan{kLeft.item(name), kRight.item(name)};
        if (table.take(plan, kStart + now).decision) ++told.plan[key];
        break;
      }
      case 4:
        if (take(table, kLog, nth(static_cast<int>(few)), now, cost)) ++told.log[few];
        break;
      case 5: {
        const std::uint64_t holder = told.holders.fetch_add(1);
        const std::string name = nth(static_cast<int>(few));
        if (take(table, kSeats, name, now, cost, holder)) ++told.seats[few];
        break;
      }
      case 6: {
        const std::uint64_t holder = told.holders.fetch_add(1);
        const std::string name = nth(static_cast<int>(few));
        if (!take(table, kTurnstile, name, now, cost, holder)) break;
        ++told.entered[few];
        inside.emplace_back(few, holder);
        break;
      }
      case 7: {
        if (inside.empty()) break;
        std::swap(inside[random() % inside.size()], inside.back());
        const auto [where, holder] = inside.back();
        inside.pop_back();
        ++told.leaving[where];
        if (leave(table, kTurnstile, nth(static_cast<int>(where)), now, holder)) ++told.left[where];
        break;
      }
    }
  }
}

Permits used(Table& table, const Rule& rule, std::size_t key) {
  const core::Decision answer =
      peek(table, rule, nth(static_cast<int>(key)), seconds{10}, 1, ~std::uint64_t{0});
  return answer.limit - answer.remaining;
}

// The file contains every answered take, and beyond that no more than the takes in flight. From
// then on the content of the file counts as answered.
template <std::size_t kCount>
void check(Table& table, const Rule& rule, Answered::Counts<kCount>& told, const char* what) {
  Permits in_flight = 0;
  for (std::size_t key = 0; key < kCount; ++key) {
    const Permits now_used = used(table, rule, key);
    ASSERT_GE(now_used, told[key]) << what << " " << key << ": lost";
    in_flight += now_used - told[key];
    told[key] = now_used;
  }
  ASSERT_LE(in_flight, kThreads) << what;
}

void check_plans(Table& table, Answered& told) {
  Permits left_only = 0;
  Permits right_only = 0;
  for (std::size_t key = 0; key < kKeys; ++key) {
    const Permits left = used(table, kLeft, key);
    const Permits right = used(table, kRight, key);
    ASSERT_GE(std::min(left, right), told.plan[key]) << "plan " << key << ": lost";
    left_only += left - told.plan[key];
    right_only += right - told.plan[key];
    // The side that was charged alone is brought level, so that the next round starts even.
    const Permits level = std::max(left, right);
    const Item catch_up_left = kLeft.item(nth(static_cast<int>(key)), level - left);
    const Item catch_up_right = kRight.item(nth(static_cast<int>(key)), level - right);
    core::Receipt none;
    if (level > left) (void)table.settle({&catch_up_left, 1}, kStart, {&none, 1});
    if (level > right) (void)table.settle({&catch_up_right, 1}, kStart, {&none, 1});
    told.plan[key] = level;
  }
  ASSERT_LE(left_only, kThreads);
  ASSERT_LE(right_only, kThreads);
}

// Holders that enter and leave: one killed while leaving may be in or out, or have two permits.
void check_turnstile(Table& table, Answered& told) {
  Permits wasted = 0;
  for (std::size_t key = 0; key < kKeysWithRecords; ++key) {
    const Permits inside = used(table, kTurnstile, key);
    ASSERT_GE(inside, told.entered[key] - told.leaving[key]) << "turnstile " << key << ": lost";
    wasted += inside - (told.entered[key] - told.left[key]);
    told.entered[key] = inside;
    told.leaving[key] = 0;
    told.left[key] = 0;
  }
  ASSERT_LE(wasted, kThreads);
}

// Two hundred processes, one after the other, each killed after some milliseconds: no answered take
// is forgotten, and no unanswered one counts twice.
TEST(Kill, LosesNoAnsweredTake) {
  const Folder folder;
  const std::string path = folder / "state";
  const SharedAnswered told;
  std::mt19937 random(9);
  const int rounds = scaled(200);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t calls_before = told->calls;
    const unsigned seed = random();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const FileTable file = open_in_round(path, round);
      if (!file) _exit(1);
      in_threads(kThreads, [&](int t) { work(*file, *told, seed + static_cast<unsigned>(t)); });
      _exit(2);
    }
    // The process must have started, or the round shows nothing; then it works for a few
    // milliseconds.
    while (told->calls == calls_before) usleep(200);
    usleep(static_cast<useconds_t>(random() % 6000));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "ended by itself with " << WEXITSTATUS(status);

    const FileTable file = open_in_round(path, round);
    ASSERT_TRUE(file) << file.error;
    ASSERT_EQ(file.opened.dropped, 0u);
    ASSERT_EQ(file.opened.restored, true);
    check(*file, kBucket, told->bucket, "bucket");
    check_plans(*file, *told);
    check(*file, kLog, told->log, "log");
    check(*file, kSeats, told->seats, "seats");
    check_turnstile(*file, *told);
    ASSERT_FALSE(HasFatalFailure()) << "round " << round;
    const MemoryUse use = file->use(kStart);
    ASSERT_EQ(use.shared + use.denied + use.untracked, 0u);
  }
  std::cout << rounds << " processes killed, " << told->calls << " calls\n";
}

}  // namespace
}  // namespace weir::store
