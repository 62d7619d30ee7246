// The memory table against the pure core: it answers as core::take & co. do on a memory that
// forgets nothing.

#include "store/memory/table.h"

#include <map>
#include <string>
#include <utility>

#include "generators.h"
#include "property.h"

namespace weir::core {
namespace {

using store::Fingerprint;
using store::fingerprint;
using store::Item;
using store::KeyKind;
using store::Table;
using store::TableLayout;

// The table's seed is random. The hashes of keys are fixed, so that a failure is reproducible.
constexpr std::uint64_t kSeed = 20260101;

bool has_record(const Limit& limit) {
  return std::holds_alternative<SlidingLog>(limit) || std::holds_alternative<Concurrency>(limit);
}

bool same(const Receipt& a, const Receipt& b) {
  return a.at == b.at && a.taken == b.taken && a.before == b.before && a.after == b.after;
}

// Random calls on a few keys under a few limits.
struct Act {
  enum class Op { take, take_again, peek, settle, give_back, leave, reset };

  Op op = Op::take;
  Step step{};
  int items = 1;          // number of limits in the plan
  int first = 0;          // the first of them
  int keys = 0;           // two bits for each limit: its key
  int shadows = 0;        // one bit for each limit
  int paced_by = 0;       // the item whose limit sets the length of the step
  std::uint64_t who = 1;  // holder
  bool with_receipt = true;
};

std::ostream& operator<<(std::ostream& out, const Act& act) {
  static constexpr const char* ops[] = {"take",      "take again", "peek", "settle",
                                        "give back", "leave",      "reset"};
  return out << ops[static_cast<int>(act.op)] << " " << act.step << " items " << act.items
             << " from " << act.first << " keys " << act.keys << " shadows " << act.shadows
             << " paced by " << act.paced_by << " who " << act.who;
}

rc::Gen<Act> act(ClockOptions clock_options) {
  using Op = Act::Op;
  return rc::gen::build<Act>(
      rc::gen::set(&Act::op, rc::gen::weightedElement<Op>({{12, Op::take},
                                                           {3, Op::take_again},
                                                           {2, Op::peek},
                                                           {2, Op::settle},
                                                           {4, Op::give_back},
                                                           {2, Op::leave},
                                                           {1, Op::reset}})),
      rc::gen::set(&Act::step, step(clock_options)),
      rc::gen::set(&Act::items, rc::gen::weightedElement<int>({{4, 1}, {3, 2}, {2, 3}, {1, 4}})),
      rc::gen::set(&Act::first, rc::gen::inRange(0, 4)),
      rc::gen::set(&Act::keys, rc::gen::inRange(0, 256)),
      rc::gen::set(&Act::shadows, rc::gen::weightedOneOf<int>(
                                      {{2, rc::gen::just(0)}, {1, rc::gen::inRange(0, 16)}})),
      rc::gen::set(&Act::paced_by, rc::gen::inRange(0, 4)),
      rc::gen::set(&Act::who, rc::gen::inRange<std::uint64_t>(1, 6)),
      rc::gen::set(&Act::with_receipt, rc::gen::arbitrary<bool>()));
}

std::vector<Act> acts(ClockOptions clock_options) {
  return *rc::gen::scale(2.0, rc::gen::container<std::vector<Act>>(act(clock_options)));
}

// The core's memory of a key: everything, for ever. Only unconditional debits fill a log, so that
// its answers then depend on its size: it has the same number of entries as in the table.
class CoreMemory {
 public:
  explicit CoreMemory(const Limit& limit) : limit_(&limit) {
    const auto most = static_cast<std::size_t>(capacity(limit));
    const std::size_t bytes =
        store::Arena::block_size(store::Record::bytes_for(most, sizeof(LogEntry)));
    if (std::holds_alternative<SlidingLog>(limit)) {
      ring_.resize((bytes - sizeof(store::Record)) / sizeof(LogEntry));
    }
    if (std::holds_alternative<Concurrency>(limit)) seats_.resize(most);
  }

  Charge charge(const Ask& ask, bool shadow) {
    Memory memory = &state_;
    if (!ring_.empty()) memory.emplace<AdmissionLog>(head_, std::span(ring_));
    if (!seats_.empty()) memory.emplace<Holders>(seated_, std::span(seats_));
    return {.limit = limit_, .memory = memory, .ask = ask, .shadow = shadow};
  }

 private:
  const Limit* limit_;
  State state_{};
  AdmissionLog::Head head_{};
  std::vector<LogEntry> ring_;
  std::uint32_t seated_ = 0;
  std::vector<Holder> seats_;
};

// The table, and the core on a memory that forgets nothing, driven with the same calls.
class Comparison {
 public:
  Comparison(const TableLayout& layout, std::vector<NamedLimit> rules)
      : table(layout), now(start()), rules_(std::move(rules)) {}

  // Applies the call to both and compares the answers. Receipts of a table that forgets have other
  // bytes, but the same effect.
  bool act(const Act& what, bool same_receipts) {
    const std::vector<LimitAndKey> places = places_of(what);
    const LimitAndKey& pace = places[static_cast<std::size_t>(what.paced_by) % places.size()];
    now = moved(what.step, rules_[pace.rule].limit, now, last_);
    if (what.op != Act::Op::take_again) {
      asks_.clear();
      for (const LimitAndKey& place : places) asks_.push_back(ask_of(what.step, limit_of(place)));
    }
    while (asks_.size() < places.size()) asks_.push_back({});
    if (what.op == Act::Op::give_back) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        asks_[i].cost = -(remembered(places[i]).core.taken * what.step.part + 999) / 1000;
      }
    }
    return perform(what, places, same_receipts);
  }

  // Keys that no other call uses and that are at rest at once: they make the table evict.
  void crowd(int count) {
    static const Limit brief = *Bucket::make({1, 1, Nanos{1}}, 5);
    for (int i = 0; i < count; ++i) {
      const std::string name = "passer-by " + std::to_string(passers_by_++);
      const Item item{.limit = &brief,
                      .key = fingerprint(kSeed, 99, KeyKind::whole, name, false),
                      .overflow_key = fingerprint(kSeed, 99, KeyKind::overflow, {}, false)};
      (void)table.take({&item, 1}, now);
    }
  }

  bool overflowed() const {
    const MemoryUse use = table.use(now);
    return use.shared + use.denied + use.untracked > 0;
  }

  Table table;
  Instant now;

 private:
  struct LimitAndKey {
    std::size_t rule;
    int key;
    friend auto operator<=>(const LimitAndKey&, const LimitAndKey&) = default;
  };
  struct KeyRecord {
    CoreMemory memory;
    Receipt core{};
    Receipt table{};
  };

  const Limit& limit_of(const LimitAndKey& place) const { return rules_[place.rule].limit; }

  std::vector<LimitAndKey> places_of(const Act& what) const {
    std::vector<LimitAndKey> places;
    const std::size_t count = std::min(static_cast<std::size_t>(what.items), rules_.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t rule = (static_cast<std::size_t>(what.first) + i) % rules_.size();
      places.push_back({rule, what.keys >> (2 * rule) & 3});
    }
    return places;
  }

  KeyRecord& remembered(const LimitAndKey& place) {
    return memory_.try_emplace(place, KeyRecord{CoreMemory(limit_of(place))}).first->second;
  }

  Item item_for(const LimitAndKey& place, const Ask& ask, bool shadow) const {
    const bool record = has_record(limit_of(place));
    const std::uint64_t rule = place.rule + 1;
    return {.limit = &limit_of(place),
            .key = fingerprint(kSeed, rule, KeyKind::whole, std::to_string(place.key), record),
            .overflow_key = fingerprint(kSeed, rule, KeyKind::overflow, {}, record),
            .ask = ask,
            .shadow = shadow};
  }

  bool perform(const Act& what, const std::vector<LimitAndKey>& places, bool same_receipts) {
    std::vector<Item> items;
    std::vector<Charge> charges;
    std::vector<Receipt> from_core;
    std::vector<Receipt> from_table;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const bool shadow = (what.shadows >> i & 1) != 0;
      items.push_back(item_for(places[i], asks_[i], shadow));
      charges.push_back(remembered(places[i]).memory.charge(asks_[i], shadow));
      from_core.push_back(remembered(places[i]).core);
      from_table.push_back(remembered(places[i]).table);
    }
    const HolderId holder{.low = what.who};
    Verdict expected;
    Verdict answer;
    switch (what.op) {
      case Act::Op::take:
      case Act::Op::take_again:
        if (!what.with_receipt) from_core.clear();
        if (!what.with_receipt) from_table.clear();
        expected = core::take(charges, now, holder, from_core);
        answer = table.take(items, now, holder, from_table);
        break;
      case Act::Op::peek:
        expected = core::peek(charges, now, holder);
        answer = table.peek(items, now, holder);
        break;
      case Act::Op::settle:
      case Act::Op::give_back:
        expected = core::settle(charges, now, from_core);
        answer = table.settle(items, now, from_table);
        break;
      case Act::Op::leave:
        RC_ASSERT(table.leave(items, now, holder) == core::leave(charges, now, holder));
        return true;
      case Act::Op::reset:
        table.reset(items, now);
        for (const Charge& charge : charges) core::reset(charge.memory);
        return true;
    }
    if (overflowed()) return false;
    RC_ASSERT(answer.decision == expected.decision);
    RC_ASSERT(answer.tightest == expected.tightest);
    RC_ASSERT(answer.refusing == expected.refusing);
    last_ = expected.decision;
    for (std::size_t i = 0; i < from_core.size(); ++i) {
      if (same_receipts) RC_ASSERT(same(from_table[i], from_core[i]));
      remembered(places[i]).core = from_core[i];
      remembered(places[i]).table = from_table[i];
    }
    return true;
  }

  std::vector<NamedLimit> rules_;
  std::map<LimitAndKey, KeyRecord> memory_;
  std::vector<Ask> asks_;
  Decision last_;
  int passers_by_ = 0;
};

std::vector<NamedLimit> any_limits() {
  std::vector<NamedLimit> limits;
  const int count = *rc::gen::inRange(1, 5);
  for (int i = 0; i < count; ++i) limits.push_back(*any_limit());
  return limits;
}

constexpr TableLayout kRoomy{.rows = 64, .overflow_rows = 1, .record_bytes = 64 << 10};

// Any plans of any limits, costs, receipts and holders: while the table has room, it answers and
// stores as the core does.
TEST(TableProperty, AnswersLikeTheCore) {
  check(
      [] {
        Comparison worlds(kRoomy, any_limits());
        for (const Act& what : acts({.steps_back = false})) RC_ASSERT(worlds.act(what, false));
      },
      1500);
}

// A clock that steps back makes no difference, as long as nothing was evicted.
TEST(TableProperty, AnswersLikeTheCoreWhenTheClockStepsBack) {
  check(
      [] {
        Comparison worlds(kRoomy, any_limits());
        for (const Act& what : acts({})) {
          RC_ASSERT(worlds.act(what, true));
          if (worlds.table.use(worlds.now).forgotten > 0) break;
        }
      },
      1500);
}

// Records outgrow their blocks while calls are refused, refunded, left and reset and the clock
// steps back and forth: no record is lost.
TEST(TableProperty, MovesRecordsWithoutVisibleEffect) {
  std::uint64_t most_used = 0;
  check(
      [&] {
        std::vector<NamedLimit> limits;
        const Permits count = *rc::gen::inRange<Permits>(10, 70);
        limits.push_back({"log", *SlidingLog::make({count, 1, std::chrono::seconds{1}})});
        limits.push_back({"seats", *Concurrency::make(count, std::chrono::seconds{1})});
        limits.push_back({"bucket", *Bucket::make({100, 1, std::chrono::seconds{1}}, 20)});
        Comparison worlds(kRoomy, limits);
        // Mostly single calls, since it takes many to fill a block.
        auto all =
            *rc::gen::noShrink(rc::gen::container<std::vector<Act>>(300, act({.waits = false})));
        for (Act& what : all) {
          if (what.step.amount % 4 != 0) what.step.size = Step::Size::one;
          if (what.step.move == Step::Move::to_rest) what.step.move = Step::Move::ticks;
          what.keys &= 0b010101;
          what.paced_by = 0;
          what.who = what.who * 1000 + static_cast<std::uint64_t>(what.step.part) % 40;
          if (what.op == Act::Op::reset && what.step.part > 100) what.op = Act::Op::take;
          RC_ASSERT(worlds.act(what, true));
          const MemoryUse use = worlds.table.use(worlds.now);
          most_used = std::max(most_used, use.record_used);
          if (use.forgotten > 0) break;
        }
      },
      150);
  EXPECT_GE(most_used, 2048u) << "or this test shows nothing";
}

// A table that evicts all the time evicts only keys at rest, without visible effect.
TEST(TableProperty, ForgetsKeysWithoutVisibleEffect) {
  std::uint64_t forgotten = 0;
  check(
      [&] {
        const auto rows = *rc::gen::inRange<std::uint64_t>(2, 6);
        Comparison worlds({.rows = rows, .overflow_rows = 1, .record_bytes = 64 << 10},
                          any_limits());
        Instant crowded = worlds.now;
        for (const Act& what : acts({.steps_back = false})) {
          if (!worlds.act(what, false)) break;
          // Keys that are used once are at rest after at most the granularity of rest.
          if (worlds.now - crowded < std::chrono::microseconds{100}) continue;
          worlds.crowd(10);
          crowded = worlds.now;
        }
        forgotten += worlds.table.use(worlds.now).forgotten;
      },
      1500);
  EXPECT_GT(forgotten, 1000u) << "or this test shows nothing";
}

}  // namespace
}  // namespace weir::core
