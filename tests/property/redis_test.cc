// The shared store on Redis against the pure core: the scripts decide and store as core::take & co.
// do, for any call at any microsecond.

#include <map>
#include <string>
#include <utility>

#include "generators.h"
#include "property.h"
#include "store/key_name.h"
#include "store/why_not_shareable.h"
#include "support/redis_connection.h"
#include "support/redis_server.h"

namespace weir::core {
namespace {

using store::StoreItem;
using store::StoreReceipt;
using store::StoreRequest;
using store::StoreResponse;
using store::StoreVerb;
using test_support::BlockingStore;
using test_support::RedisServer;

struct Act {
  enum class Op { take, peek, settle, give_back, leave, reset, change };

  Op op = Op::take;
  Step step{};
  int items = 1;
  int first = 0;
  int keys = 0;
  int shadows = 0;
  int paced_by = 0;
  std::uint64_t who = 1;
  bool rounds_up = false;
};

std::ostream& operator<<(std::ostream& out, const Act& act) {
  static constexpr const char* ops[] = {"take",  "peek",  "settle", "give back",
                                        "leave", "reset", "change"};
  return out << ops[static_cast<int>(act.op)] << " " << act.step << " items " << act.items
             << " from " << act.first << " keys " << act.keys << " shadows " << act.shadows
             << " paced by " << act.paced_by << " who " << act.who << " up " << act.rounds_up;
}

rc::Gen<Act> act() {
  using Op = Act::Op;
  return rc::gen::build<Act>(
      rc::gen::set(&Act::op, rc::gen::weightedElement<Op>({{12, Op::take},
                                                           {2, Op::peek},
                                                           {2, Op::settle},
                                                           {4, Op::give_back},
                                                           {2, Op::leave},
                                                           {1, Op::reset},
                                                           {1, Op::change}})),
      rc::gen::set(&Act::step, step()),
      rc::gen::set(&Act::items, rc::gen::weightedElement<int>({{4, 1}, {3, 2}, {2, 3}, {1, 4}})),
      rc::gen::set(&Act::first, rc::gen::inRange(0, 4)),
      rc::gen::set(&Act::keys, rc::gen::inRange(0, 256)),
      rc::gen::set(&Act::shadows, rc::gen::weightedOneOf<int>(
                                      {{2, rc::gen::just(0)}, {1, rc::gen::inRange(0, 16)}})),
      rc::gen::set(&Act::paced_by, rc::gen::inRange(0, 4)),
      rc::gen::set(&Act::who, rc::gen::inRange<std::uint64_t>(1, 6)),
      rc::gen::set(&Act::rounds_up, rc::gen::arbitrary<bool>()));
}

rc::Gen<NamedLimit> cell() {
  return rc::gen::map(rc::gen::tuple(rc::gen::inRange<Permits>(0, 20), rc::gen::inRange(1, 100),
                                     rc::gen::inRange(1, 100)),
                      [](const auto& drawn) {
                        const auto& [burst, count, period] = drawn;
                        return NamedLimit{"cell " + std::to_string(burst) + " " +
                                              std::to_string(count) + " " + std::to_string(period),
                                          *RedisCell::make(burst, count, period)};
                      });
}

rc::Gen<NamedLimit> fit_limit() {
  return rc::gen::suchThat(rc::gen::oneOf(any_limit(), cell()), [](const NamedLimit& named) {
    return !store::why_not_shareable(named.limit);
  });
}

class CoreMemory {
 public:
  explicit CoreMemory(const Limit& limit) {
    const auto most = static_cast<std::size_t>(capacity(limit));
    if (std::holds_alternative<SlidingLog>(limit)) ring_.resize(most);
    if (std::holds_alternative<Concurrency>(limit)) seats_.resize(most);
  }

  Charge charge(const Limit& limit, const Ask& ask, bool shadow, const PriceHistory* history) {
    Memory memory = &state_;
    if (!ring_.empty()) memory.emplace<AdmissionLog>(head_, std::span(ring_));
    if (!seats_.empty()) memory.emplace<Holders>(seated_, std::span(seats_));
    return {.limit = &limit, .memory = memory, .ask = ask, .shadow = shadow, .history = history};
  }

 private:
  State state_{};
  AdmissionLog::Head head_{};
  std::vector<LogEntry> ring_;
  std::uint32_t seated_ = 0;
  std::vector<Holder> seats_;
};

BlockingStore& the_store() {
  static BlockingStore store(RedisServer::shared().socket());
  return store;
}

// Redis and the core, driven with the same calls.
class Comparison {
 public:
  explicit Comparison(std::vector<NamedLimit> rules)
      : now_(start()), rules_(std::move(rules)), prices_(rules_.size()) {
    static int runs = 0;
    run_ = "property" + std::to_string(++runs);
  }

  void act(const Act& what) {
    const std::vector<LimitAndKey> places = places_of(what);
    const LimitAndKey& pace = places[static_cast<std::size_t>(what.paced_by) % places.size()];
    now_ = moved(what.step, rules_[pace.rule].limit, now_, last_);
    now_ = std::max(whole_micros(now_, what.rounds_up), changed_);
    latest_ = std::max(latest_, now_);
    std::vector<Ask> asks;
    for (const LimitAndKey& place : places) {
      asks.push_back(ask_of(what.step, limit_of(place)));
      if (what.op != Act::Op::give_back) continue;
      const Permits taken =
          std::max(receipts_of(place).core.taken, receipts_of(place).redis.receipt.taken);
      asks.back().cost = -(std::min<Permits>(taken, 1'000'000'000) * what.step.part + 999) / 1000;
    }
    perform(what, places, asks);
  }

 private:
  struct LimitAndKey {
    std::size_t rule;
    int key;
    friend auto operator<=>(const LimitAndKey&, const LimitAndKey&) = default;
  };
  struct KeyRecord {
    CoreMemory memory;
    std::string name;
    Receipt core{};
    StoreReceipt redis{};
  };

  static Instant whole_micros(Instant t, bool up) {
    const std::int64_t micros = ns(t) / 1000 + (up && ns(t) % 1000 > 0 ? 1 : 0);
    return instant(std::max<std::int64_t>(micros, 1) * 1000);
  }

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

  KeyRecord& receipts_of(const LimitAndKey& place) {
    std::string name = store::test_key_prefix(run_);
    store::append_whole_key(name, std::to_string(place.key));
    name += store::key_suffix("limit=" + std::to_string(place.rule));
    return memory_.try_emplace(place, KeyRecord{CoreMemory(limit_of(place)), name}).first->second;
  }

  void change(const LimitAndKey& place) {
    NamedLimit& rule = rules_[place.rule];
    if (std::holds_alternative<SlidingLog>(rule.limit)) return;
    if (std::holds_alternative<Concurrency>(rule.limit)) return;
    const std::size_t kind = rule.limit.index();
    const Limit old = rule.limit;
    rule = *rc::gen::suchThat(
        fit_limit(), [kind](const NamedLimit& named) { return named.limit.index() == kind; });
    // (The store dates states by its clock, in microseconds.)
    changed_ = now_ = latest_ = later(latest_, Nanos{1000});
    if (auto* bucket = std::get_if<Bucket>(&rule.limit)) {
      *bucket = prices_[place.rule].change(*bucket, std::get<Bucket>(old), now_);
    }
  }

  const StoreResponse& ask(StoreVerb verb, std::span<const StoreItem> items,
                           const std::string& holder, std::span<StoreReceipt> receipts) {
    const StoreResponse& answer = the_store().ask({.verb = verb,
                                                   .items = items,
                                                   .holder = holder,
                                                   .wants_receipts = true,
                                                   .receipts = receipts,
                                                   .now = now_});
    if (answer.kind != StoreResponse::Kind::decided) RC_FAIL(answer.error);
    RC_ASSERT(answer.now == now_);
    return answer;
  }

  void perform(const Act& what, const std::vector<LimitAndKey>& places,
               const std::vector<Ask>& asks) {
    std::vector<StoreItem> items;
    std::vector<Charge> charges;
    std::vector<Receipt> from_core;
    std::vector<StoreReceipt> from_redis;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const bool shadow = (what.shadows >> i & 1) != 0;
      KeyRecord& remembered = receipts_of(places[i]);
      const PriceHistory* history = &prices_[places[i].rule];
      items.push_back({.limit = &limit_of(places[i]),
                       .key = remembered.name,
                       .ask = asks[i],
                       .shadow = shadow,
                       .history = history});
      charges.push_back(remembered.memory.charge(limit_of(places[i]), asks[i], shadow, history));
      from_core.push_back(remembered.core);
      from_redis.push_back(remembered.redis);
    }
    const HolderId holder{.low = what.who};
    const std::string name = "holder " + std::to_string(what.who);
    std::vector<Decision> each(items.size());
    Verdict expected;
    const StoreResponse* answer = nullptr;
    switch (what.op) {
      case Act::Op::take:
        answer = &ask(StoreVerb::take, items, name, {});
        expected = core::take(charges, now_, holder, from_core, each);
        if (expected.decision) from_redis = answer->receipts;
        break;
      case Act::Op::peek:
        answer = &ask(StoreVerb::peek, items, name, {});
        expected = core::peek(charges, now_, holder, each);
        break;
      case Act::Op::settle:
      case Act::Op::give_back:
        answer = &ask(StoreVerb::settle, items, name, from_redis);
        expected = core::settle(charges, now_, from_core, each);
        break;
      case Act::Op::leave:
        RC_ASSERT(ask(StoreVerb::leave, items, name, {}).left ==
                  core::leave(charges, now_, holder));
        return;
      case Act::Op::reset:
        ask(StoreVerb::reset, items, name, {});
        for (const Charge& charge : charges) core::reset(charge.memory);
        for (const LimitAndKey& place : places) receipts_of(place).core = {};
        return;
      case Act::Op::change:
        change(places[0]);
        return;
    }
    RC_ASSERT(answer->verdict.decision == expected.decision);
    RC_ASSERT(answer->verdict.tightest == expected.tightest);
    RC_ASSERT(answer->verdict.refusing == expected.refusing);
    RC_ASSERT(answer->decisions == each);
    last_ = expected.decision;
    for (std::size_t i = 0; i < from_core.size(); ++i) {
      // (For the core, a fully refunded key equals a new one.)
      if (what.op == Act::Op::take && expected.decision && asks[i].cost > 0) {
        RC_ASSERT(from_redis[i].receipt.at == from_core[i].at);
        RC_ASSERT(from_redis[i].receipt.taken == from_core[i].taken);
        RC_ASSERT(from_redis[i].receipt.after == from_core[i].after);
      }
      receipts_of(places[i]).core = from_core[i];
      receipts_of(places[i]).redis = from_redis[i];
    }
  }

  Instant now_;
  Instant latest_{};
  Instant changed_{};  // when a limit was last changed
  std::vector<NamedLimit> rules_;
  std::vector<PriceTimeline> prices_;  // one for each rule
  std::string run_;
  std::map<LimitAndKey, KeyRecord> memory_;
  Decision last_;
};

void check_on(const rc::Gen<NamedLimit>& limit, int cases) {
  check(
      [&] {
        std::vector<NamedLimit> limits;
        const int count = *rc::gen::inRange(1, 5);
        for (int i = 0; i < count; ++i) limits.push_back(*limit);
        Comparison worlds(std::move(limits));
        for (const Act& what : *rc::gen::scale(2.0, rc::gen::container<std::vector<Act>>(act()))) {
          worlds.act(what);
        }
      },
      cases);
}

rc::Gen<NamedLimit> fit(const rc::Gen<NamedLimit>& limit) {
  return rc::gen::suchThat(
      limit, [](const NamedLimit& named) { return !store::why_not_shareable(named.limit); });
}

TEST(RedisProperty, BucketsAnswerLikeTheCore) { check_on(fit(bucket()), 300); }
TEST(RedisProperty, QueuesAnswerLikeTheCore) { check_on(fit(queue()), 200); }
TEST(RedisProperty, NginxAnswersLikeTheCore) { check_on(fit(nginx()), 200); }
TEST(RedisProperty, SmoothAnswersLikeTheCore) { check_on(fit(smooth()), 200); }
TEST(RedisProperty, WarmingUpAnswersLikeTheCore) { check_on(fit(warming()), 200); }
TEST(RedisProperty, WindowsAnswerLikeTheCore) { check_on(fit(window()), 200); }
TEST(RedisProperty, SlidingAnswersLikeTheCore) { check_on(fit(sliding()), 200); }
TEST(RedisProperty, QuotasAnswerLikeTheCore) { check_on(fit(quota()), 200); }
TEST(RedisProperty, LogsAnswerLikeTheCore) { check_on(fit(exact_log()), 200); }
TEST(RedisProperty, ConcurrencyLimitsDecideLikeTheCore) { check_on(fit(concurrency()), 200); }
TEST(RedisProperty, CellsAnswerLikeTheCore) { check_on(cell(), 200); }
TEST(RedisProperty, AnyPlanAnswersLikeTheCore) { check_on(fit_limit(), 800); }

}  // namespace
}  // namespace weir::core
