// The properties of changes_test.cc, for nodes that share a redis-server: a key is admitted the
// permits that the rates of each moment have granted, for any changes of its limit.

#include <memory>
#include <string>
#include <vector>

#include "changes_redis.h"

namespace weir::changes {
namespace {

// How Redis expires keys in the test.
enum class Expiry {
  none,
  // when the written usage has drained, at the longest emission interval known at the write
  at_rest,
  never_missed,  // the same, but all changes are known at the write: no usage may be forgotten
};

class FleetWorld {
 public:
  FleetWorld(int nodes, Learning learning, Expiry expiry) : learning_(learning), expiry_(expiry) {
    for (int i = 0; i < nodes; ++i)
      nodes_.push_back(std::make_unique<Node>("fleet", keys_, clock_));
  }

  void perform(const Step& step) {
    Node& node = *nodes_[static_cast<std::size_t>(step.number) % nodes_.size()];
    if (step.op == Step::Op::take) return take(node, kKeys[step.key], step.number);
    if (step.op == Step::Op::wait) return wait(time_of(step));
    if (step.op == Step::Op::restart) return restart(node, step);
    if (expiry_ == Expiry::never_missed && !is_known_to_end(step)) return;
    if (!change(settings_, step, clock_.now())) return;
    for (const auto& each : nodes_) {
      if (learning_ == Learning::together || each == nodes_.front()) each->learn(settings_);
    }
  }

 private:
  // Changes that come before the first use, or raise a limit for a while.
  bool is_known_to_end(const Step& step) const {
    using Op = Step::Op;
    if (!was_used_) return step.op != Op::leave;
    const bool replaces = std::ranges::any_of(settings_.orders, [&](const Order& order) {
      return order.verb == Order::Verb::boost && order.who == kKeys[step.key];
    });
    return step.op == Op::boost && !replaces;
  }

  // The node forgets when limits have changed, but not their current values. For a key that it has
  // not used since the last change it knows only the emission interval of that time, so it queries
  // all keys.
  void restart(Node& node, const Step& step) {
    if (learning_ == Learning::late) return nodes_.back()->learn(settings_);
    if (!settings_.present) return;
    for (const char* key : kKeys) take(node, key, step.number);
    node.open();
  }

  // Scripts write times in microseconds.
  void wait(Nanos time) {
    clock_.advance(time / 1000 * 1000);
    std::vector<const Rates*> rates;
    for (const auto& node : nodes_) rates.push_back(&node->rates);
    reference_.advance(rates, clock_.now());
    for (const auto& node : nodes_) node->rates.follow(clock_.now());
    if (expiry_ == Expiry::none) return;
    for (const std::string& name : keys_.expire()) {
      if (expiry_ == Expiry::never_missed) continue;
      for (const char* key : kKeys) {
        if (name.find(":" + std::string{key} + "}") != std::string::npos) reference_.forget(key);
      }
    }
  }

  void take(Node& node, const std::string& key, int number) {
    if (!node.settings.present) return;
    was_used_ = true;
    const Permits all = node.rates.at(key, clock_.now());
    const long double left = reference_.left(all, key);
    const Permits permits = std::max<Permits>(all * (number + 1) / 1000, 1);
    const Verdict verdict = node.engine->take({.policy = "p", .key = key, .permits = permits});
    RC_LOG() << key << " takes " << permits << " of " << static_cast<double>(left)
             << (verdict ? ": admitted" : ": refused") << "\n";
    RC_ASSERT(!verdict.degraded);
    if (verdict) {
      RC_ASSERT(static_cast<long double>(permits) <= left + kRounding);
      reference_.take(key, permits);
    } else if (learning_ == Learning::together) {
      RC_ASSERT(static_cast<long double>(permits) > left - kRounding);
    }
  }

  const Learning learning_;
  const Expiry expiry_;
  bool was_used_ = false;
  ManualClock clock_;
  TestKeys keys_{clock_};
  Settings settings_{};
  Reference reference_{clock_.now()};
  std::vector<std::unique_ptr<Node>> nodes_;
};

void check_fleet(int nodes, Learning learning, Expiry expiry = Expiry::none) {
  check_steps<FleetWorld>([=] { return std::make_unique<FleetWorld>(nodes, learning, expiry); },
                          300);
}

// ---- scope: fleet

TEST(ChangesOnRedis, AdmitWhatTheRatesOfEachMomentGrant) { check_fleet(1, Learning::together); }
TEST(ChangesOnRedis, AreTheSameOnTwoNodes) { check_fleet(2, Learning::together); }

// While the nodes have different limits, each admits up to its own, and used permits drain at most
// at the faster of both rates. (docs/redis.md: where a node finds an emission interval that it did
// not have itself, the slower of both counts. Writes of nodes in between are dated, and drain from
// then on.)
TEST(ChangesOnRedis, GrantNoMoreThanTheFasterRateWhenANodeLearnsThemLate) {
  check_fleet(2, Learning::late);
}

// A key expires when it is at rest under the longest emission interval known at its write. If an
// operator slows the limit beyond that and no call uses the key until then, the remaining debt is
// forgotten.
TEST(ChangesOnRedis, ForgetKeysAtRestUnderTheHighestKnownEmissionInterval) {
  check_fleet(2, Learning::together, Expiry::at_rest);
}

// The hours of a schedule and the ends of orders are known at the write, so no key expires too
// early for them.
TEST(ChangesOnRedis, ForgetNothingWhenKnownInAdvance) {
  check_fleet(2, Learning::together, Expiry::never_missed);
}

}  // namespace
}  // namespace weir::changes
