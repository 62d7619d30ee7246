// Slots and rows: ownership, rest times and evictions.

#include "store/memory/slot.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <set>
#include <string>

#include "store.h"

namespace weir::store {
namespace {

constexpr Nanos kRounding{std::int64_t{1} << RestTime::kUnitBits};

Fingerprint key(int i) { return fingerprint(kSeed, 1, KeyKind::whole, nth(i), false); }

// A rest time may be late by less than its unit, but never early.
TEST(RestTime, IsRoundedUp) {
  for (const std::int64_t t :
       {std::int64_t{1}, std::int64_t{32'767}, std::int64_t{32'768}, std::int64_t{32'769},
        ns(kStart), ns(kStart) + 1, ns(kLatest) - 1, ns(kLatest)}) {
    const RestTime rest = RestTime::not_before(instant(t));
    EXPECT_GE(rest.instant(), instant(t));
    EXPECT_FALSE(rest.has_come(instant(t) - kRounding)) << t;
    if (instant(t) + kRounding > kLatest) continue;
    EXPECT_LT(rest.instant(), instant(t) + kRounding);
    EXPECT_TRUE(rest.has_come(instant(t) + kRounding)) << t;
  }
}

// An instant before the supported range is at rest at once; one beyond it never comes.
TEST(RestTime, IsClampedToTheRangeOfInstants) {
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto highest = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(RestTime::not_before(instant(lowest)), RestTime{}) << "that would be empty";
  EXPECT_TRUE(RestTime::not_before(instant(lowest)).has_come(kStart));
  EXPECT_FALSE(RestTime::not_before(kLatest + Nanos{1}).has_come(kLatest));
  EXPECT_FALSE(RestTime::not_before(kLatest + core::kLongestDebt).has_come(instant(highest)));
  EXPECT_FALSE(RestTime::not_before(instant(highest)).has_come(instant(highest)));
  EXPECT_TRUE(RestTime{}.has_come(instant(lowest)));
}

// The rest time is never lowered, and only extended for the owner.
TEST(Slot, KeepsTheLatestRestTime) {
  Slot slot;
  EXPECT_TRUE(slot.is_empty());
  EXPECT_FALSE(slot.extend_expiry(key(1), RestTime{5})) << "empty";
  slot.assign(key(1), RestTime{10});
  EXPECT_TRUE(slot.belongs_to(key(1)));
  EXPECT_FALSE(slot.belongs_to(key(2)));
  EXPECT_FALSE(slot.extend_expiry(key(2), RestTime{99}));
  EXPECT_TRUE(slot.extend_expiry(key(1), RestTime{20}));
  EXPECT_TRUE(slot.extend_expiry(key(1), RestTime{15}));
  EXPECT_EQ(slot.rest(), RestTime{20});
}

TEST(Slot, ChangesItsOwnerOnlyAtRest) {
  Slot slot;
  slot.assign(key(1), RestTime::not_before(kStart));
  EXPECT_FALSE(slot.vacate(kStart - kRounding));
  EXPECT_TRUE(slot.belongs_to(key(1)));
  EXPECT_TRUE(slot.vacate(kStart + kRounding));
  EXPECT_FALSE(slot.belongs_to(key(1)));
  EXPECT_TRUE(slot.is_empty());
  EXPECT_FALSE(slot.extend_expiry(key(1), RestTime::not_before(kStart + hours{1})));
}

// A row has room for fifteen keys; the sixteenth gets a slot once another key is at rest.
TEST(Row, PlacesFifteenKeysAndFindsThem) {
  Row row;
  row.lock();
  Row::Evicted evicted;
  std::set<Slot*> slots;
  for (int i = 0; i < 15; ++i) {
    Slot* slot = row.place(key(i), Row::Where::anywhere, kStart, evicted);
    ASSERT_NE(slot, nullptr);
    EXPECT_TRUE(AtomicState::is_locked(slot->state().load())) << "until the first take is over";
    slot->extend_expiry(key(i), RestTime::not_before(kStart + hours{i + 1}));
    slot->state().unlock({}, {.when = 1, .what = 1});
    slots.insert(slot);
  }
  EXPECT_EQ(slots.size(), 15u);
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(row.find(key(i))->belongs_to(key(i)));
  EXPECT_EQ(row.find(key(99)), nullptr);
  EXPECT_EQ(row.place(key(15), Row::Where::anywhere, kStart, evicted), nullptr);

  row.recount(kStart);
  EXPECT_TRUE(row.is_full(kStart));
  EXPECT_EQ(row.soonest_rest(), row.earliest());
  const Instant later_on = kStart + hours{1} + kRounding;
  EXPECT_FALSE(row.is_full(later_on));
  EXPECT_EQ(evicted.owner, Fingerprint{});
  ASSERT_NE(row.place(key(15), Row::Where::anywhere, later_on, evicted), nullptr);
  EXPECT_EQ(evicted.owner, key(0));
  EXPECT_EQ(row.find(key(0)), nullptr);
  EXPECT_EQ(row.last_eviction(), later_on);
  row.unlock();
  EXPECT_EQ(row.last_eviction(), later_on) << "the unlock keeps the time";
}

// A slot that another thread has locked is not evicted, and the caller does not wait for it.
TEST(Row, SkipsLockedSlots) {
  Row row;
  row.lock();
  Row::Evicted evicted;
  for (int i = 0; i < 15; ++i) {
    Slot* slot = row.place(key(i), Row::Where::anywhere, kStart, evicted);
    ASSERT_NE(slot, nullptr) << "all of them stay locked";
  }
  EXPECT_EQ(row.place(key(15), Row::Where::anywhere, kStart + hours{1}, evicted), nullptr);
  Slot* slot = row.find(key(7));
  slot->state().unlock({}, {});
  EXPECT_EQ(row.place(key(15), Row::Where::anywhere, kStart + hours{1}, evicted), slot);
  EXPECT_EQ(evicted.owner, key(7));
  row.unlock();
}

// The slot is empty afterwards.
TEST(Row, EvictsAKeyAtRest) {
  Row row;
  row.lock();
  Row::Evicted evicted;
  Slot* slot = row.place(key(1), Row::Where::anywhere, kStart, evicted);
  EXPECT_FALSE(row.evict(*slot, kStart + hours{1}, evicted)) << "locked";
  slot->state().unlock({}, {.when = 5, .what = 6});
  slot->extend_expiry(key(1), RestTime::not_before(kStart + hours{1}));
  EXPECT_FALSE(row.evict(*slot, kStart, evicted)) << "live";
  EXPECT_TRUE(row.evict(*slot, kStart + hours{2}, evicted));
  EXPECT_EQ(evicted.owner, key(1));
  EXPECT_EQ(evicted.state, (core::State{5, 6}));
  EXPECT_TRUE(slot->is_empty());
  EXPECT_TRUE(slot->state().load().never_seen());
  EXPECT_EQ(row.find(key(1)), nullptr);
  EXPECT_FALSE(row.evict(*slot, kStart + hours{2}, evicted)) << "empty";
  row.unlock();
}

// Limit, kind, every byte of the key, and the flags.
TEST(Fingerprint, DependsOnAllOfItsInputs) {
  std::set<Fingerprint> all;
  for (const std::uint64_t limit : {1, 2}) {
    for (const KeyKind kind : {KeyKind::whole, KeyKind::parts, KeyKind::overflow}) {
      for (const std::string& name : {std::string(), std::string("a"), std::string("a\0", 2),
                                      std::string(1000, 'a'), std::string(1001, 'a')}) {
        for (const bool record : {false, true}) {
          const Fingerprint made = fingerprint(kSeed, limit, kind, name, record);
          EXPECT_EQ(made.has_record(), record);
          EXPECT_EQ(made.is_overflow(), kind == KeyKind::overflow);
          EXPECT_EQ(made.low & ~Fingerprint::kLowBits, 0u);
          EXPECT_NE(made, fingerprint(kSeed + 1, limit, kind, name, record));
          all.insert(made);
        }
      }
    }
  }
  EXPECT_EQ(all.size(), 2u * 3 * 5 * 2);
}

}  // namespace
}  // namespace weir::store
