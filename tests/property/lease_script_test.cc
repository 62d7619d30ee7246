// The lease script on Redis against the ledger of store/lease/ledger.h: it lends the same for any
// queries in any order, and the other scripts see what remains.

#include <array>
#include <ostream>
#include <string>
#include <utility>

#include "generators.h"
#include "property.h"
#include "store/key_name.h"
#include "store/lease/ledger.h"
#include "store/why_not_shareable.h"
#include "support/redis_connection.h"
#include "support/redis_server.h"

namespace weir::store {

std::ostream& operator<<(std::ostream& out, const LeaseResponse& a) {
  return out << "{lent " << a.lent << ", kept " << a.kept << ", lasts " << a.lasts.count()
             << ", remaining " << a.remaining << ", outstanding " << a.outstanding << ", retry "
             << a.retry_after.count() << ", reset " << a.reset_after.count() << "}";
}

}  // namespace weir::store

namespace weir::core {
namespace {

using store::LeaseRequest;
using store::LeaseResponse;
using store::StoreItem;
using store::StoreResponse;
using store::StoreVerb;
using test_support::BlockingStore;
using test_support::RedisServer;

struct Act {
  enum class Op { ask, repeat, take, forget, reset, change };
  enum class Claim { all, part, less, too_much, overspent };

  Op op = Op::ask;
  Step step{};
  int who = 0;
  Claim claim = Claim::all;
  int held = 0;      // thousandths of the lease
  int returned = 0;  // thousandths of the rest
  int wanted = 0;    // thousandths of the capacity
  int term = 0;      // eighths of a beat
  int ago = 0;       // eighths of a beat
};

std::ostream& operator<<(std::ostream& out, const Act& act) {
  static constexpr const char* ops[] = {"ask", "repeat", "take", "forget", "reset", "change"};
  static constexpr const char* claims[] = {"all", "part", "less", "too much", "overspent"};
  return out << ops[static_cast<int>(act.op)] << " " << act.step << " who " << act.who << " claims "
             << claims[static_cast<int>(act.claim)] << " " << act.held << " returned "
             << act.returned << " wanted " << act.wanted << " term " << act.term << " ago "
             << act.ago;
}

rc::Gen<Act> act() {
  using Op = Act::Op;
  using Claim = Act::Claim;
  return rc::gen::build<Act>(
      rc::gen::set(&Act::op, rc::gen::weightedElement<Op>({{14, Op::ask},
                                                           {2, Op::repeat},
                                                           {2, Op::take},
                                                           {1, Op::forget},
                                                           {1, Op::reset},
                                                           {1, Op::change}})),
      rc::gen::set(&Act::step, step()), rc::gen::set(&Act::who, rc::gen::inRange(0, 4)),
      rc::gen::set(&Act::claim, rc::gen::weightedElement<Claim>({{4, Claim::all},
                                                                 {6, Claim::part},
                                                                 {2, Claim::less},
                                                                 {1, Claim::too_much},
                                                                 {1, Claim::overspent}})),
      rc::gen::set(&Act::held, rc::gen::inRange(0, 1001)),
      rc::gen::set(&Act::returned, rc::gen::inRange(0, 1001)),
      rc::gen::set(&Act::wanted, rc::gen::weightedOneOf<int>({{1, rc::gen::just(0)},
                                                              {4, rc::gen::inRange(0, 400)},
                                                              {1, rc::gen::inRange(0, 1200)}})),
      rc::gen::set(&Act::term, rc::gen::inRange(0, 200)),
      rc::gen::set(&Act::ago, rc::gen::weightedOneOf<int>({{1, rc::gen::just(0)},
                                                           {2, rc::gen::inRange(0, 16)},
                                                           {1, rc::gen::inRange(0, 200)}})));
}

rc::Gen<NamedLimit> fit(const rc::Gen<NamedLimit>& limit) {
  return rc::gen::suchThat(
      limit, [](const NamedLimit& named) { return !store::why_not_leasable(named.limit); });
}

BlockingStore& the_store() {
  static BlockingStore store(RedisServer::shared().socket());
  return store;
}

// The script and the ledger, driven with the same queries.
class Comparison {
 public:
  Comparison(NamedLimit rule, rc::Gen<NamedLimit> others)
      : rule_(std::move(rule)), others_(std::move(others)), now_(start()) {
    static int runs = 0;
    name_ = store::test_key_prefix("loans" + std::to_string(++runs));
    store::append_whole_key(name_, "key");
    name_ += store::key_suffix("limit=1");
  }

  void act(const Act& what) {
    now_ = moved(what.step, rule_.limit, now_, last_);
    // Scripts know buckets to the nanosecond, and all other limits to the microsecond.
    const bool knows_nanos = std::holds_alternative<Bucket>(rule_.limit);
    const std::int64_t least = 1000;
    now_ = instant(std::max(knows_nanos ? ns(now_) : ns(now_) / 1000 * 1000, least));
    now_ = std::max(now_, changed_);
    latest_ = std::max(latest_, now_);
    perform(what);
    look();
  }

 private:
  struct Node {
    Permits has = 0;
    std::string name{};
    LeaseRequest question{};
  };

  void perform(const Act& what) {
    Node& node = nodes_[static_cast<std::size_t>(what.who)];
    switch (what.op) {
      case Act::Op::ask:
        node.question = question(node, what);
        return ask(node);
      case Act::Op::repeat:
        if (node.question.limit != nullptr) ask(node);
        return;
      case Act::Op::take:
        return take(ask_of(what.step, rule_.limit));
      case Act::Op::forget:
        the_store().connection().say({"DEL", name_ + ":loans"});
        ledger_.loans.clear();
        return;
      case Act::Op::reset:
        ask(StoreVerb::reset, {});
        ledger_.state = {};
        return;
      case Act::Op::change:
        return change();
    }
  }

  void change() {
    const Limit old = std::exchange(rule_, *others_).limit;
    changed_ = now_ = latest_ = later(latest_, Nanos{1000});
    const auto* from = std::get_if<Bucket>(&old);
    auto* to = std::get_if<Bucket>(&rule_.limit);
    if (from != nullptr && to != nullptr) *to = prices_.change(*to, *from, now_);
  }

  // As a node does that knows when the limit changed.
  void carry_over() {
    const auto* bucket = std::get_if<Bucket>(&rule_.limit);
    if (bucket == nullptr) return;
    ledger_.state = state_under_current_limit(*bucket, ledger_.state, now_, &prices_);
  }

  LeaseRequest question(Node& node, const Act& what) {
    node.name = std::string("node\0\r\n ", 8) + std::to_string(what.who);
    const Permits all = capacity(rule_.limit);
    const Permits part = node.has * what.held / 1000;
    const auto held = [&]() -> Permits {
      switch (what.claim) {
        case Act::Claim::all:
          return node.has;
        case Act::Claim::part:
        case Act::Claim::less:
          return part;
        case Act::Claim::too_much:
          return node.has + all * what.held / 1000;
        case Act::Claim::overspent:
          return -all * what.held / 1000;
      }
      return 0;
    }();
    const bool gives_back = what.claim == Act::Claim::part || what.claim == Act::Claim::too_much;
    return {.limit = &rule_.limit,
            .key = name_,
            .borrower = node.name,
            .number = (std::uint64_t{1} << 63) + ++numbers_,
            .held = held,
            .returned = gives_back ? (node.has - part) * what.returned / 1000 : 0,
            .spent_ago = beat(rule_.limit) * what.ago / 8,
            .least = ask_of(what.step, rule_.limit).cost,
            .wanted = all * what.wanted / 1000,
            .term = beat(rule_.limit) * what.term / 8,
            .history = &prices_};
  }

  void ask(Node& node) {
    node.question.now = now_;
    const LeaseResponse& answer = the_store().request_lease(node.question);
    if (answer.kind != StoreResponse::Kind::decided) RC_FAIL(answer.error);
    carry_over();
    const LeaseResponse expected = lend(rule_.limit, ledger_, now_, node.question);
    RC_ASSERT(expected.kind == StoreResponse::Kind::decided);
    RC_ASSERT(answer.now == now_);
    if (!same(answer, expected)) {
      std::ostringstream text;
      text << "on Redis " << answer << ", by the ledger " << expected;
      RC_FAIL(text.str());
    }
    node.has = answer.kept + answer.lent;
    last_.retry_after = answer.retry_after;
    last_.reset_after = answer.reset_after;
  }

  static bool same(const LeaseResponse& a, const LeaseResponse& b) {
    return a.lent == b.lent && a.kept == b.kept && a.lasts == b.lasts &&
           a.remaining == b.remaining && a.outstanding == b.outstanding &&
           a.retry_after == b.retry_after && a.reset_after == b.reset_after;
  }

  const StoreResponse& ask(StoreVerb verb, const Ask& ask) {
    const StoreItem item{.limit = &rule_.limit, .key = name_, .ask = ask, .history = &prices_};
    const StoreResponse& answer = the_store().ask({.verb = verb, .items = {&item, 1}, .now = now_});
    if (answer.kind != StoreResponse::Kind::decided) RC_FAIL(answer.error);
    return answer;
  }

  // A client that does not use leases.
  void take(const Ask& cost) {
    carry_over();
    Charge charge{.limit = &rule_.limit, .memory = &ledger_.state, .ask = cost};
    const Decision expected = core::take({&charge, 1}, now_).decision;
    RC_ASSERT(ask(StoreVerb::take, cost).verdict.decision == expected);
  }

  void look() {
    carry_over();
    const Charge charge{.limit = &rule_.limit, .memory = &ledger_.state, .ask = {.cost = 1}};
    const Decision expected = core::peek({&charge, 1}, now_).decision;
    RC_ASSERT(ask(StoreVerb::peek, {.cost = 1}).verdict.decision == expected);
  }

  NamedLimit rule_;
  const rc::Gen<NamedLimit> others_;
  Instant now_;
  Instant latest_{};
  Instant changed_{};
  PriceTimeline prices_;
  std::string name_;
  store::lease::Ledger ledger_{};
  std::array<Node, 4> nodes_{};
  Decision last_{};
  std::uint64_t numbers_ = 0;
};

void check_on(const rc::Gen<NamedLimit>& limit) {
  check(
      [&] {
        Comparison worlds(*fit(limit), fit(limit));
        for (const Act& what : *rc::gen::scale(2.0, rc::gen::container<std::vector<Act>>(act()))) {
          worlds.act(what);
        }
      },
      300);
}

TEST(LeaseScriptProperty, LendsFromABucketAsTheLedgerDoes) { check_on(bucket()); }
TEST(LeaseScriptProperty, LendsFromAWindowAsTheLedgerDoes) { check_on(window()); }
TEST(LeaseScriptProperty, LendsFromAQuotaAsTheLedgerDoes) { check_on(quota()); }
TEST(LeaseScriptProperty, LendsFromASlidingWindowAsTheLedgerDoes) { check_on(sliding()); }

}  // namespace
}  // namespace weir::core
