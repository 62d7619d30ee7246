// Threads that take the same keys: together they get as much as one thread would.

#include <gtest/gtest.h>

#include <barrier>
#include <numeric>
#include <random>

#include "store.h"
#include "threads.h"

namespace weir::store {
namespace {

constexpr int kThreads = 4;
constexpr TableLayout kRoomy{.rows = 512, .overflow_rows = 1, .record_bytes = 4 << 20};

struct NamedLimit {
  const char* name;
  core::Limit limit;
};

std::vector<NamedLimit> all_limits() {
  return {{"bucket", bucket(10, seconds{1}, 100)},
          {"bucket of a fractional price", bucket(7, seconds{1}, 100)},
          {"bucket of a tiny price", bucket(1'000'003, milliseconds{1}, 100)},
          {"queue", *core::Bucket::make_queue({10, 1, seconds{1}}, 99, 99)},
          {"nginx", *core::NginxQueue::make({10, 1, seconds{1}}, 99, 99)},
          {"smooth", *core::Smooth::make({99, 1, seconds{1}})},
          {"window", window(100, hours{1})},
          {"window from first", window(100, hours{1}, true)},
          {"sliding", sliding(100, hours{1})},
          {"quota", quota(100)},
          {"exact log", exact(100, hours{1})},
          {"concurrency", concurrency(100, hours{1})}};
}

// A new holder for each call.
core::HolderId somebody() {
  static std::atomic<std::uint64_t> last = 0;
  return {.high = 1, .low = last.fetch_add(1)};
}

// At a frozen time every algorithm admits exactly its capacity, however threads interleave.
TEST(Contention, OneKeyGrantsExactlyItsLimit) {
  for (const NamedLimit& named : all_limits()) {
    const Rule rule{.limit = named.limit};
    for (int round = 0; round < scaled(20); ++round) {
      Table table(kRoomy);
      const Item item = rule.item("alice");
      std::atomic<int> admitted = 0;
      in_threads(kThreads, [&](int) {
        for (int i = 0; i < 60; ++i) {
          admitted += table.take({&item, 1}, kStart, somebody()).decision ? 1 : 0;
        }
      });
      ASSERT_EQ(admitted, core::capacity(named.limit)) << named.name;
      ASSERT_EQ(peek(table, rule, "alice", Nanos{0}).remaining, 0) << named.name;
    }
  }
}

// The same for many keys at once, all of them new.
TEST(Contention, ManyKeysGrantExactlyTheirLimits) {
  constexpr int keys = 300;
  for (const NamedLimit& named : all_limits()) {
    Table table(kRoomy);
    const Rule rule{.limit = named.limit};
    std::vector<std::atomic<int>> admitted(keys);
    in_threads(kThreads, [&](int t) {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < scaled(40'000); ++i) {
        const auto key = random() % keys;
        const Item item = rule.item(nth(static_cast<int>(key)));
        admitted[key] += table.take({&item, 1}, kStart, somebody()).decision ? 1 : 0;
      }
    });
    for (int key = 0; key < keys; ++key) {
      const core::Decision left = peek(table, rule, nth(key), Nanos{0});
      ASSERT_EQ(left.limit - left.remaining, admitted[static_cast<std::size_t>(key)]) << named.name;
    }
    const MemoryUse use = table.use(kStart);
    EXPECT_EQ(use.shared + use.denied + use.untracked + use.forgotten, 0u);
  }
}

// Several threads use a new key at the same time: it gets one slot, as two would double its limit.
TEST(Contention, ANewKeyIsInsertedOnce) {
  for (const core::Limit& limit : {bucket(1, hours{1}, 1), exact(1, hours{1})}) {
    const int keys = scaled(30'000);
    const Rule rule{.limit = limit};
    Table table({.rows = 4096,
                 .overflow_rows = 1,
                 .record_bytes = rule.has_record() ? std::uint64_t{16} << 20 : 0});
    std::vector<std::atomic<int>> admitted(static_cast<std::size_t>(keys));
    in_threads(kThreads, [&](int) {
      for (int key = 0; key < keys; ++key) {
        admitted[static_cast<std::size_t>(key)] += take(table, rule, nth(key), Nanos{0}) ? 1 : 0;
      }
    });
    for (const std::atomic<int>& count : admitted) ASSERT_EQ(count, 1);
    EXPECT_EQ(table.use(kStart).live, static_cast<std::uint64_t>(keys));
  }
}

// The same in a table so small that each new key evicts a key at rest.
TEST(Contention, ANewKeyIsInsertedOnceDuringEviction) {
  constexpr std::size_t keys = 10;
  Table table({.rows = 3, .overflow_rows = 1, .record_bytes = 8 << 10});
  const Rule plain{
      .limit = bucket(1, milliseconds{1}, 1), .identity = 1, .when_full = WhenFull::deny};
  const Rule log{.limit = exact(1, milliseconds{1}), .identity = 2, .when_full = WhenFull::deny};
  const int rounds = scaled(3000);
  std::vector<std::atomic<int>> admitted(2 * keys);
  std::barrier meet(kThreads);
  std::uint64_t denied = 0;
  bool failed = false;
  in_threads(kThreads, [&](int t) {
    std::vector<std::size_t> order(2 * keys);
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(static_cast<unsigned>(t));
    for (int round = 0; round < rounds && !failed; ++round) {
      const Nanos now = milliseconds{2} * round;
      std::shuffle(order.begin(), order.end(), random);
      meet.arrive_and_wait();
      for (const std::size_t i : order) {
        const Rule& rule = i < keys ? plain : log;
        // Other keys in every round.
        const std::string name = nth(round * 100 + static_cast<int>(i));
        admitted[i] += take(table, rule, name, now) ? 1 : 0;
      }
      meet.arrive_and_wait();
      if (t == 0) {
        const std::uint64_t denied_now = table.use(kStart).denied;
        for (std::atomic<int>& count : admitted) {
          // (A thread that finds the last free slot locked is denied; no promise forbids that.)
          const bool right = denied_now == denied ? count == 1 : count <= 1;
          EXPECT_TRUE(right) << "round " << round << ": " << count;
          failed = failed || !right;
          count = 0;
        }
        denied = denied_now;
      }
      meet.arrive_and_wait();
    }
  });
  EXPECT_GT(table.use(kStart).forgotten, static_cast<std::uint64_t>(rounds));
}

// Plans over a few keys, written in any order: there is no deadlock, no refused plan is charged,
// and the answers add up for each key.
TEST(Contention, PlansAreChargedAsAWhole) {
  std::vector<Rule> rules;
  rules.push_back({.limit = bucket(1, hours{1000}, 3000), .identity = 1});
  rules.push_back({.limit = bucket(7, hours{1000}, 2000), .identity = 2});
  rules.push_back({.limit = window(2500, hours{1000}), .identity = 3});
  rules.push_back({.limit = sliding(4000, hours{1000}), .identity = 4});
  rules.push_back({.limit = exact(1500, hours{1000}), .identity = 5});
  rules.push_back({.limit = concurrency(1000, hours{1000}), .identity = 6});
  for (int round = 0; round < scaled(10); ++round) {
    Table table(kRoomy);
    struct LimitAndKey {
      std::size_t rule;
      int key;
    };
    std::vector<LimitAndKey> places;
    for (std::size_t r = 0; r < rules.size(); ++r) {
      for (const int key : {0, 1}) places.push_back({r, key});
    }
    std::vector<std::atomic<Permits>> charged(places.size());
    std::atomic<int> refused = 0;
    in_threads(kThreads, [&](int t) {
      std::mt19937 random(static_cast<unsigned>(round * kThreads + t));
      std::vector<std::size_t> order(places.size());
      std::iota(order.begin(), order.end(), 0);
      for (int i = 0; i < 1500; ++i) {
        std::shuffle(order.begin(), order.end(), random);
        const std::size_t size = 1 + random() % 4;
        std::vector<Item> plan;
        std::vector<Permits> costs;
        for (std::size_t k = 0; k < size; ++k) {
          const LimitAndKey& place = places[order[k]];
          costs.push_back(1 + static_cast<Permits>(random() % 3));
          plan.push_back(rules[place.rule].item(nth(place.key), costs.back()));
        }
        if (!table.take(plan, kStart, somebody()).decision) {
          ++refused;
          continue;
        }
        for (std::size_t k = 0; k < size; ++k) charged[order[k]] += costs[k];
      }
    });
    EXPECT_GT(refused, 0) << "or this test shows half of it";
    for (std::size_t p = 0; p < places.size(); ++p) {
      const Rule& rule = rules[places[p].rule];
      const core::Decision left = peek(table, rule, nth(places[p].key), Nanos{0});
      ASSERT_EQ(left.limit - left.remaining, charged[p]) << "limit " << rule.identity;
    }
  }
}

// Permits are taken and refunded by their receipts; never are more taken than the limit.
TEST(Contention, RefundedPermitsAreGrantedOnce) {
  for (const NamedLimit& named : all_limits()) {
    // These limits can undo only their latest take; the others can undo any.
    const bool last_only = std::holds_alternative<core::NginxQueue>(named.limit) ||
                           std::holds_alternative<core::Smooth>(named.limit);
    if (last_only || std::holds_alternative<core::Concurrency>(named.limit)) continue;
    Table table(kRoomy);
    const Rule rule{.limit = named.limit};
    const Permits capacity = core::capacity(named.limit);
    std::atomic<Permits> out = 0;
    std::atomic<bool> exceeded = false;
    in_threads(kThreads, [&](int t) {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<core::Receipt> mine;
      for (int i = 0; i < scaled(20'000); ++i) {
        if (random() % 2 == 0 || mine.empty()) {
          const Item item = rule.item("alice", 1 + static_cast<Permits>(random() % 3));
          core::Receipt receipt;
          if (!table.take({&item, 1}, kStart, {}, {&receipt, 1}).decision) continue;
          if (out.fetch_add(receipt.taken) + receipt.taken > capacity) exceeded = true;
          mine.push_back(receipt);
        } else {
          core::Receipt receipt = mine.back();
          mine.pop_back();
          const Item back = rule.item("alice", -receipt.taken);
          out.fetch_sub(receipt.taken);
          (void)table.settle({&back, 1}, kStart, {&receipt, 1});
          if (receipt.taken != 0) exceeded = true;
        }
      }
    });
    EXPECT_FALSE(exceeded) << named.name;
    EXPECT_EQ(peek(table, rule, "alice", Nanos{0}).remaining, capacity - out) << named.name;
  }
}

// Smooth and nginx limits refund no more than was taken.
TEST(Contention, PermitsThatCannotBeRefundedStayTaken) {
  for (const NamedLimit& named : all_limits()) {
    const bool last_only = std::holds_alternative<core::NginxQueue>(named.limit) ||
                           std::holds_alternative<core::Smooth>(named.limit);
    if (!last_only) continue;
    Table table(kRoomy);
    const Rule rule{.limit = named.limit};
    std::atomic<Permits> kept = 0;
    in_threads(kThreads, [&](int) {
      const Item item = rule.item("alice");
      const Item back = rule.item("alice", -1);
      for (int i = 0; i < scaled(5000); ++i) {
        core::Receipt receipt;
        if (!table.take({&item, 1}, kStart, {}, {&receipt, 1}).decision) continue;
        (void)table.settle({&back, 1}, kStart, {&receipt, 1});
        kept += receipt.taken;
      }
    });
    EXPECT_LE(kept, core::capacity(named.limit)) << named.name;
    const core::Decision left = peek(table, rule, "alice", Nanos{0});
    EXPECT_EQ(left.limit - left.remaining, kept) << named.name;
  }
}

// Each reset is worth one capacity, at any time.
TEST(Contention, AResetGrantsAtMostOneCapacity) {
  for (const NamedLimit& named : all_limits()) {
    Table table(kRoomy);
    const Rule rule{.limit = named.limit};
    const Item item = rule.item("alice");
    std::atomic<Permits> admitted = 0;
    std::atomic<Permits> resets = 0;
    in_threads(kThreads, [&](int t) {
      for (int i = 0; i < scaled(20'000); ++i) {
        if (t == 0 && i % 100 == 0) {
          ++resets;
          table.reset({&item, 1}, kStart);
        } else {
          admitted += table.take({&item, 1}, kStart, somebody()).decision ? 1 : 0;
        }
      }
    });
    const Permits capacity = core::capacity(named.limit);
    const Permits left = peek(table, rule, "alice", Nanos{0}).remaining;
    EXPECT_LE(admitted, capacity * (resets + 1) - left) << named.name;
    EXPECT_GE(admitted, capacity - left) << named.name;
  }
}

// Holders never exceed the limit, counted between enter and leave.
TEST(Contention, HoldersNeverExceedTheLimit) {
  constexpr Permits max_holders = 5;
  constexpr int keys = 3;
  const Rule rule{.limit = concurrency(max_holders, hours{1}), .identity = 1};
  const Rule paced{.limit = bucket(1, hours{1}, 1'000'000'000), .identity = 2};
  Table table(kRoomy);
  std::vector<std::atomic<Permits>> inside(keys);
  std::atomic<bool> exceeded = false;
  std::atomic<int> entered = 0;
  in_threads(kThreads, [&](int t) {
    std::mt19937 random(static_cast<unsigned>(t));
    struct Stay {
      std::size_t key;
      core::HolderId holder;
      Permits permits;
    };
    std::vector<Stay> mine;
    for (int i = 0; i < scaled(60'000); ++i) {
      if (random() % 2 == 0 || mine.empty()) {
        const Stay stay{random() % keys, somebody(), 1 + static_cast<Permits>(random() % 2)};
        const std::string name = nth(static_cast<int>(stay.key));
        const std::vector<Item> plan{rule.item(name, stay.permits), paced.item(name)};
        const std::span<const Item> items(plan.data(), random() % 2 == 0 ? 1 : 2);
        if (!table.take(items, kStart, stay.holder).decision) continue;
        if (inside[stay.key].fetch_add(stay.permits) + stay.permits > max_holders) exceeded = true;
        ++entered;
        mine.push_back(stay);
      } else {
        std::swap(mine[random() % mine.size()], mine.back());
        const Stay stay = mine.back();
        mine.pop_back();
        inside[stay.key].fetch_sub(stay.permits);
        const Item item = rule.item(nth(static_cast<int>(stay.key)));
        if (!table.leave({&item, 1}, kStart, stay.holder)) exceeded = true;
      }
    }
    for (const Stay& stay : mine) {
      inside[stay.key].fetch_sub(stay.permits);
      const Item item = rule.item(nth(static_cast<int>(stay.key)));
      if (!table.leave({&item, 1}, kStart, stay.holder)) exceeded = true;
    }
  });
  EXPECT_FALSE(exceeded);
  EXPECT_GT(entered, 100);
  for (int key = 0; key < keys; ++key) {
    EXPECT_EQ(peek(table, rule, nth(key), Nanos{0}).remaining, max_holders);
  }
}

// New keys in a full table, from all threads, share the limit of one key.
TEST(Contention, NewKeysInAFullTableTogetherGetTheLimitOfOneKey) {
  Table table({.rows = 4, .overflow_rows = 1, .record_bytes = 16 << 10});
  const Rule filler{.limit = bucket(1, hours{1}, 1), .identity = 1000};
  for (int i = 0; i < 5000; ++i) (void)take(table, filler, nth(i), Nanos{0});
  for (std::uint64_t identity = 1; identity <= 3; ++identity) {
    const Rule rule{.limit = identity == 1   ? bucket(1, hours{1}, 100)
                             : identity == 2 ? exact(100, hours{1})
                                             : concurrency(100, hours{1}),
                    .identity = identity};
    std::atomic<int> admitted = 0;
    in_threads(kThreads, [&](int t) {
      for (int i = 0; i < scaled(5000); ++i) {
        const Item item = rule.item(nth(i * kThreads + t));
        admitted += table.take({&item, 1}, kStart, somebody()).decision ? 1 : 0;
      }
    });
    EXPECT_EQ(admitted, 100) << "limit " << identity;
  }
}

}  // namespace
}  // namespace weir::store
