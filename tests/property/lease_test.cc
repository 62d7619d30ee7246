// Properties of leases with random borrowers. Borrowers die, are late or lose the answer; all of
// them together stay within the limit, and returned permits are available again.

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "generators.h"
#include "property.h"
#include "store/lease/ledger.h"
#include "store/why_not_shareable.h"

namespace weir::core {
namespace {

using store::LeaseRequest;
using store::LeaseResponse;
using store::StoreResponse;

struct Act {
  enum class Op { ask, lose_question, lose_answer, spend, spend_late, outlive, die };

  Op op = Op::ask;
  Step step{};
  int who = 0;
  int returned = 0;  // thousandths of the held permits
  int wanted = 1;    // thousandths of the capacity
  int term = 8;      // eighths of a beat
};

std::ostream& operator<<(std::ostream& out, const Act& act) {
  static constexpr const char* ops[] = {"ask",        "lose question", "lose answer", "spend",
                                        "spend late", "outlive",       "die"};
  return out << ops[static_cast<int>(act.op)] << " " << act.step << " who " << act.who
             << " returned " << act.returned << " wanted " << act.wanted << " term " << act.term;
}

rc::Gen<Act> act() {
  using Op = Act::Op;
  return rc::gen::build<Act>(
      rc::gen::set(&Act::op, rc::gen::weightedElement<Op>({{8, Op::ask},
                                                           {1, Op::lose_question},
                                                           {2, Op::lose_answer},
                                                           {8, Op::spend},
                                                           {2, Op::spend_late},
                                                           {2, Op::outlive},
                                                           {1, Op::die}})),
      rc::gen::set(&Act::step, step({.steps_back = false, .waits = false})),
      rc::gen::set(&Act::who, rc::gen::inRange(0, 3)),
      rc::gen::set(&Act::returned, rc::gen::weightedOneOf<int>(
                                       {{3, rc::gen::just(0)}, {2, rc::gen::inRange(0, 1001)}})),
      rc::gen::set(&Act::wanted, rc::gen::inRange(0, 1200)),
      rc::gen::set(&Act::term, rc::gen::inRange(0, 200)));
}

rc::Gen<NamedLimit> fit(const rc::Gen<NamedLimit>& limit) {
  return rc::gen::suchThat(
      limit, [](const NamedLimit& named) { return !store::why_not_leasable(named.limit); });
}

struct Spent {
  Instant at{};
  Instant opened{};  // start of the window, if the first call opens it
  Permits permits = 0;
};

// A borrower that spends only its lease, before the lease ends.
struct Node {
  std::string name{};
  Permits has = 0;
  Instant ends{};
  bool waits = false;  // waiting for the answer to `question`
  LeaseRequest question{};
  Permits spent_since = 0;  // spent since the question was sent
  Instant spent_at{};       // time of the last spending
};

class World {
 public:
  explicit World(NamedLimit rule) : rule_(std::move(rule)), now_(start()) {
    for (Node& node : nodes_) node.name = next_name();
  }

  void act(const Act& what) {
    Node& node = nodes_[static_cast<std::size_t>(what.who)];
    now_ = moved(what.step, rule_.limit, now_, last_);
    switch (what.op) {
      case Act::Op::ask:
        return hear(node, ask(node, what));
      case Act::Op::lose_question:
        prepare(node, what);
        return;
      case Act::Op::lose_answer:
        ask(node, what);
        return;
      case Act::Op::spend:
        return spend(node, what);
      case Act::Op::spend_late:
        now_ = std::max(now_, node.ends - Nanos{1});
        return spend(node, what);
      case Act::Op::outlive:
        now_ = std::max(now_, node.ends);
        return;
      case Act::Op::die:
        node = Node{.name = next_name()};
        return;
    }
  }

  const std::vector<Spent>& spent() const { return spent_; }

 private:
  std::string next_name() { return "node " + std::to_string(++names_); }

  void prepare(Node& node, const Act& what) {
    if (node.waits) return;
    // An ended lease is not spent. Some borrowers report that at once, others only when the store
    // tells them.
    if (node.ends <= now_ && what.term % 2 == 0) node.has = std::min<Permits>(node.has, 0);
    const Permits back = std::max<Permits>(node.has, 0) * what.returned / 1000;
    node.has -= back;
    node.waits = true;
    node.spent_since = 0;
    node.question = {.borrower = node.name,
                     .number = ++numbers_,
                     .held = node.has,
                     .returned = back,
                     .spent_ago = between(node.spent_at, now_),
                     .least = ask_of(what.step, rule_.limit).cost,
                     .wanted = capacity(rule_.limit) * what.wanted / 1000,
                     .term = beat(rule_.limit) * what.term / 8};
  }

  LeaseResponse ask(Node& node, const Act& what) {
    prepare(node, what);
    const LeaseResponse answer = lend(rule_.limit, ledger_, now_, node.question);
    RC_ASSERT(answer.kind == StoreResponse::Kind::decided);
    RC_ASSERT(answer.kept <= std::max<Permits>(node.question.held, 0));
    last_.retry_after = answer.retry_after;
    last_.reset_after = answer.reset_after;
    return answer;
  }

  void hear(Node& node, const LeaseResponse& answer) {
    node.waits = false;
    node.has = answer.kept + answer.lent - node.spent_since;
    node.ends = later(now_, answer.lasts);
  }

  void spend(Node& node, const Act& what) {
    if (node.has <= 0 || now_ >= node.ends) return;
    const Permits permits = std::max<Permits>(node.has * what.step.part / 1000, 1);
    node.has -= permits;
    node.spent_at = now_;
    if (node.waits) node.spent_since += permits;
    spent_.push_back({now_, instant_of(ledger_.state.when), permits});
  }

  const NamedLimit rule_;
  Instant now_;
  store::lease::Ledger ledger_{};
  std::array<Node, 3> nodes_{};
  std::vector<Spent> spent_{};
  Decision last_{};
  int names_ = 0;
  std::uint64_t numbers_ = 0;
};

void check_bound(const Bucket& limit, const std::vector<Spent>& spent) {
  for (std::size_t first = 0; first < spent.size(); ++first) {
    Int128 sum = 0;
    for (std::size_t last = first; last < spent.size(); ++last) {
      sum += spent[last].permits * limit.interval.price;
      const Nanos passed = between(spent[first].at, spent[last].at);
      RC_ASSERT(sum <= limit.depth + Int128{passed.count()} * limit.interval.parts);
    }
  }
}

Instant window_of(const Window& limit, const Spent& spent) {
  return limit.from_first ? spent.opened : aligned_span(limit.period, spent.at).start;
}
Instant window_of(const SlidingCounter& limit, const Spent& spent) {
  return aligned_span(limit.period, spent.at).start;
}
Instant window_of(const CalendarWindow& limit, const Spent& spent) {
  return limit.calendar->span_at(spent.at).start;
}

template <typename L>
void check_bound(const L& limit, const std::vector<Spent>& spent) {
  std::map<Instant, Permits> used;
  for (const Spent& one : spent) {
    RC_ASSERT((used[window_of(limit, one)] += one.permits) <= limit.count);
  }
}

template <typename L>
void check_that_all_stay_within(const rc::Gen<NamedLimit>& limit) {
  check(
      [&] {
        const NamedLimit rule = *fit(limit);
        World world(rule);
        for (const Act& what : *rc::gen::scale(3.0, rc::gen::container<std::vector<Act>>(act()))) {
          world.act(what);
        }
        RC_CLASSIFY(!world.spent().empty(), "somebody spends");
        check_bound(std::get<L>(rule.limit), world.spent());
      },
      3000);
}

TEST(LeaseProperty, PermitsSpentByAllNodesStayWithinABucket) {
  check_that_all_stay_within<Bucket>(bucket());
}
TEST(LeaseProperty, PermitsSpentByAllNodesStayWithinAWindow) {
  check_that_all_stay_within<Window>(window());
}
TEST(LeaseProperty, PermitsSpentByAllNodesStayWithinAQuota) {
  check_that_all_stay_within<CalendarWindow>(quota());
}
TEST(LeaseProperty, PermitsSpentByAllNodesStayWithinEachWindowOfASlidingLimit) {
  check_that_all_stay_within<SlidingCounter>(sliding());
}

// A borrower that returns everything in time costs exactly the permits that it has spent.
void check_that_nothing_is_lost(const rc::Gen<NamedLimit>& limit) {
  check([&] {
    const NamedLimit rule = *fit(limit);
    const Instant begin = start();
    Instant now = begin;
    store::lease::Ledger ledger;
    std::array<Permits, 3> has{};
    std::uint64_t number = 0;
    Permits spent = 0;
    const auto ask = [&](std::size_t who, Permits back, Permits wanted) {
      const std::string name = std::to_string(who);
      const LeaseResponse answer = lend(rule.limit, ledger, now,
                                        {.borrower = name,
                                         .number = ++number,
                                         .held = has[who] - back,
                                         .returned = back,
                                         .wanted = wanted,
                                         .term = std::chrono::hours{24}});
      RC_ASSERT(answer.kept == has[who] - back);
      has[who] = answer.kept + answer.lent;
      return answer;
    };
    for (const Act& what : *rc::gen::container<std::vector<Act>>(act())) {
      // (Within a window, and a term.)
      now = later(begin, Nanos{std::min<std::int64_t>(beat(rule.limit).count() / 1000, 1'000'000)} *
                             number);
      const auto who = static_cast<std::size_t>(what.who);
      const Permits some = has[who] * what.returned / 1000;
      if (what.op == Act::Op::spend) {
        has[who] -= some;
        spent += some;
      } else {
        ask(who, some, capacity(rule.limit) * what.wanted / 1000);
      }
    }
    LeaseResponse last;
    for (std::size_t who = 0; who < has.size(); ++who) last = ask(who, has[who], 0);
    RC_ASSERT(last.outstanding == 0);
    RC_ASSERT(last.remaining >= capacity(rule.limit) - spent);
  });
}

rc::Gen<NamedLimit> long_windows() {
  return rc::gen::map(
      rc::gen::pair(rc::gen::inRange(1, 200), rc::gen::arbitrary<bool>()), [](const auto& drawn) {
        const Rate rate{.count = drawn.first, .period = std::chrono::hours{24 * 365}};
        return NamedLimit{"window", *Window::make(rate, drawn.second)};
      });
}

TEST(LeaseProperty, UnspentPermitsOfABucketAreNotLost) { check_that_nothing_is_lost(bucket()); }
TEST(LeaseProperty, UnspentPermitsOfAWindowAreNotLost) {
  check_that_nothing_is_lost(long_windows());
}

}  // namespace
}  // namespace weir::core
