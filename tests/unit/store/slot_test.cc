// Slots and rows: who they belong to, until when, and how they change hands.

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

// Rest may be announced late, by less than the unit it is kept in, and never early.
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

// What is at rest before time began is at rest at its first instant; what is owed beyond the end
// of time is owed for ever.
TEST(RestTime, HoldsAtTheEndsOfTime) {
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto highest = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(RestTime::not_before(instant(lowest)), RestTime{}) << "that would be nobody's";
  EXPECT_TRUE(RestTime::not_before(instant(lowest)).has_come(kStart));
  EXPECT_FALSE(RestTime::not_before(kLatest + Nanos{1}).has_come(kLatest));
  EXPECT_FALSE(RestTime::not_before(kLatest + core::kLongestDebt).has_come(instant(highest)));
  EXPECT_FALSE(RestTime::not_before(instant(highest)).has_come(instant(highest)));
  EXPECT_TRUE(RestTime{}.has_come(instant(lowest)));
}

// The time of rest is raised, never lowered, and only by the owner.
TEST(Slot, IsHeldUntilTheLatestOfAllTimesOfRest) {
  Slot slot;
  EXPECT_TRUE(slot.is_empty());
  EXPECT_FALSE(slot.hold_until(key(1), RestTime{5})) << "nobody's";
  slot.give_to(key(1), RestTime{10});
  EXPECT_TRUE(slot.belongs_to(key(1)));
  EXPECT_FALSE(slot.belongs_to(key(2)));
  EXPECT_FALSE(slot.hold_until(key(2), RestTime{99}));
  EXPECT_TRUE(slot.hold_until(key(1), RestTime{20}));
  EXPECT_TRUE(slot.hold_until(key(1), RestTime{15}));
  EXPECT_EQ(slot.rest(), RestTime{20});
}

TEST(Slot, ChangesHandsOnlyAtRest) {
  Slot slot;
  slot.give_to(key(1), RestTime::not_before(kStart));
  EXPECT_FALSE(slot.vacate(kStart - kRounding));
  EXPECT_TRUE(slot.belongs_to(key(1)));
  EXPECT_TRUE(slot.vacate(kStart + kRounding));
  EXPECT_FALSE(slot.belongs_to(key(1)));
  EXPECT_TRUE(slot.is_empty());
  EXPECT_FALSE(slot.hold_until(key(1), RestTime::not_before(kStart + hours{1})));
}

// A row takes fifteen, each is found, and the sixteenth is turned away until one is at rest.
TEST(Row, SettlesFifteenAndFindsThem) {
  Row row;
  row.lock();
  Row::Vacated vacated;
  std::set<Slot*> slots;
  for (int i = 0; i < 15; ++i) {
    Slot* slot = row.settle(key(i), Row::Where::anywhere, kStart, vacated);
    ASSERT_NE(slot, nullptr);
    EXPECT_TRUE(AtomicState::is_locked(slot->state().load())) << "until the first take is over";
    slot->hold_until(key(i), RestTime::not_before(kStart + hours{i + 1}));
    slot->state().unlock({}, {.when = 1, .what = 1});
    slots.insert(slot);
  }
  EXPECT_EQ(slots.size(), 15u);
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(row.find(key(i))->belongs_to(key(i)));
  EXPECT_EQ(row.find(key(99)), nullptr);
  EXPECT_EQ(row.settle(key(15), Row::Where::anywhere, kStart, vacated), nullptr);

  row.survey(kStart);
  EXPECT_TRUE(row.is_full(kStart));
  EXPECT_EQ(row.soonest_rest(), row.earliest());
  const Instant later_on = kStart + hours{1} + kRounding;
  EXPECT_FALSE(row.is_full(later_on));
  EXPECT_EQ(vacated.owner, Fingerprint{});
  ASSERT_NE(row.settle(key(15), Row::Where::anywhere, later_on, vacated), nullptr);
  EXPECT_EQ(vacated.owner, key(0));
  EXPECT_EQ(row.find(key(0)), nullptr);
  EXPECT_EQ(row.forgotten(), later_on);
  row.unlock();
  EXPECT_EQ(row.forgotten(), later_on) << "the lock leaves the time alone";
}

// Somebody is in the middle of a take: its slot is not given away, and nobody waits for it.
TEST(Row, PassesOverWhoIsBusy) {
  Row row;
  row.lock();
  Row::Vacated vacated;
  for (int i = 0; i < 15; ++i) {
    Slot* slot = row.settle(key(i), Row::Where::anywhere, kStart, vacated);
    ASSERT_NE(slot, nullptr) << "and all stay locked";
  }
  EXPECT_EQ(row.settle(key(15), Row::Where::anywhere, kStart + hours{1}, vacated), nullptr);
  Slot* slot = row.find(key(7));
  slot->state().unlock({}, {});
  EXPECT_EQ(row.settle(key(15), Row::Where::anywhere, kStart + hours{1}, vacated), slot);
  EXPECT_EQ(vacated.owner, key(7));
  row.unlock();
}

// Its owner goes, and the slot is as if it had never been anybody's.
TEST(Row, EvictsWhoIsAtRest) {
  Row row;
  row.lock();
  Row::Vacated vacated;
  Slot* slot = row.settle(key(1), Row::Where::anywhere, kStart, vacated);
  EXPECT_FALSE(row.evict(*slot, kStart + hours{1}, vacated)) << "busy";
  slot->state().unlock({}, {.when = 5, .what = 6});
  slot->hold_until(key(1), RestTime::not_before(kStart + hours{1}));
  EXPECT_FALSE(row.evict(*slot, kStart, vacated)) << "live";
  EXPECT_TRUE(row.evict(*slot, kStart + hours{2}, vacated));
  EXPECT_EQ(vacated.owner, key(1));
  EXPECT_EQ(vacated.state, (core::State{5, 6}));
  EXPECT_TRUE(slot->is_empty());
  EXPECT_TRUE(slot->state().load().never_seen());
  EXPECT_EQ(row.find(key(1)), nullptr);
  EXPECT_FALSE(row.evict(*slot, kStart + hours{2}, vacated)) << "nobody's";
  row.unlock();
}

// Fingerprints say what they were made of: limit, kind and text, all of it.
TEST(Fingerprint, DiffersByEverythingThatMatters) {
  std::set<Fingerprint> all;
  for (const std::uint64_t limit : {1, 2}) {
    for (const KeyKind kind : {KeyKind::whole, KeyKind::parts, KeyKind::sharing}) {
      for (const std::string& name : {std::string(), std::string("a"), std::string("a\0", 2),
                                      std::string(1000, 'a'), std::string(1001, 'a')}) {
        for (const bool record : {false, true}) {
          const Fingerprint made = fingerprint(kSeed, limit, kind, name, record);
          EXPECT_EQ(made.has_record(), record);
          EXPECT_EQ(made.is_shared(), kind == KeyKind::sharing);
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
