// Limits that change while nodes hold leased permits, on a real redis-server in virtual time.
//
// A lease never exceeds the permits granted by the rates of each moment, less those that nodes have
// used and hold. A node admits only from its lease. So the fleet never exceeds the limit, except
// that permits leased before a limit was lowered may be spent until their term ends
// (docs/fleet.md). Fewer permits than the limit may be admitted; once all keys are at rest, all
// permits must be available again.

#include <memory>
#include <string>
#include <vector>

#include "changes_redis.h"
#include "store/lease/lease_cache.h"

namespace weir::changes {
namespace {

class LeasedWorld {
 public:
  LeasedWorld(int nodes, Learning learning) : learning_(learning) {
    for (int i = 0; i < nodes; ++i) {
      nodes_.push_back(std::make_unique<LeasingNode>(*this));
      nodes_.back()->node.fleet.node_count = static_cast<std::uint32_t>(nodes);
    }
  }

  void perform(const Step& step) {
    LeasingNode& at = *nodes_[static_cast<std::size_t>(step.number) % nodes_.size()];
    if (step.op == Step::Op::take) return take(at, kKeys[step.key], step.number);
    if (step.op == Step::Op::wait) return wait(time_of(step), step.key > 0);
    if (step.op == Step::Op::restart) return restart(at, step.key > 0);
    if (!change(settings_, step, clock_.now())) return;
    is_changed_ = true;
    for (const auto& each : nodes_) {
      if (learning_ == Learning::together || each == nodes_.front()) each->node.learn(settings_);
    }
  }

  // When all keys are at rest, all permits are available.
  void rest() {
    if (!settings_.present) return;
    wait(std::chrono::hours{24}, true);
    keys_.expire_loans();
    LeasingNode& at = *nodes_.front();
    for (const char* key : kKeys) {
      const Permits all = at.node.rates.at(key, clock_.now());
      RC_ASSERT(at.node.engine->take({.policy = "p", .key = key, .permits = all}));
    }
  }

 private:
  struct Held {
    Permits permits = 0;
    Instant until{};

    Permits at(Instant now) const { return now < until ? permits : 0; }
  };

  // A node with its lease cache.
  struct LeasingNode final : public LeaseObserver {
    explicit LeasingNode(LeasedWorld& in) : world(in), node("leased", in.keys_, in.clock_, this) {}
    void on_lease(const store::LeaseRequest& question,
                  const store::LeaseResponse& answer) override {
      world.check_loan(*this, question, answer);
    }

    LeasedWorld& world;
    std::map<std::string, Held> held{};
    Node node;
  };

  // The call that is being decided.
  struct Call {
    LeasingNode* node = nullptr;
    std::string key{};
    Permits permits = 0;
    bool is_paid = false;
  };

  static std::string key_of(std::string_view name) {
    const std::size_t at = name.find("{p:") + 3;
    return std::string(name.substr(at, name.find('}') - at));
  }

  void check_loan(LeasingNode& at, const store::LeaseRequest& question,
                  const store::LeaseResponse& answer) {
    const Instant now = clock_.now();
    const std::string key = key_of(question.key);
    Held& own = at.held[key];
    // A call that the lease covers is paid before more permits are leased.
    const bool is_own_call = call_.node == &at && call_.key == key;
    if (is_own_call && !call_.is_paid && call_.permits <= own.at(now)) pay();
    expect(question.held + question.returned <= own.at(now), "the node claims what it has not");
    expect(answer.kept <= question.held, "the node keeps what it does not hold");
    // (Nodes allow for a clock of the store that runs slightly faster.)
    own = {answer.kept + answer.lent, now + answer.lasts - answer.lasts / 128};
    if (answer.lent == 0) return;
    Permits held = 0;
    for (const auto& each : nodes_) held += each->held[key].at(now);
    const PerMinute all = at.node.rates.at(key, now);
    const long double left = reference_.left(all, key);
    RC_LOG() << key << " is lent " << answer.lent << ", then " << held << " are held of "
             << static_cast<double>(left) << "\n";
    expect(static_cast<long double>(held) <= left + kRounding, "more is held than there is");
  }

  // (Not thrown: the engine is in the middle of receiving an answer.)
  void expect(bool is_so, const char* otherwise) {
    if (!is_so && failure_.empty()) failure_ = otherwise;
  }

  void take(LeasingNode& at, const std::string& key, int number) {
    if (!at.node.settings.present) return;
    const Permits all = at.node.rates.at(key, clock_.now());
    const Permits permits = std::max<Permits>(all * (number + 1) / 1000, 1);
    call_ = {.node = &at, .key = key, .permits = permits};
    const Verdict verdict = at.node.engine->take({.policy = "p", .key = key, .permits = permits});
    RC_LOG() << key << " takes " << permits << (verdict ? ": admitted" : ": refused") << "\n";
    RC_ASSERT(!verdict.degraded);
    if (verdict && !call_.is_paid) pay();
    RC_ASSERT(call_.is_paid == static_cast<bool>(verdict));
    call_ = {};
    if (!failure_.empty()) RC_FAIL(failure_);
  }

  void pay() {
    Held& own = call_.node->held[call_.key];
    expect(call_.permits <= own.at(clock_.now()), "the node admits what it does not hold");
    own.permits -= call_.permits;
    reference_.take(call_.key, call_.permits);
    call_.is_paid = true;
  }

  // If `runs_maintenance`, runs the maintenance of all links ten times a second until every lease
  // has ended. Then advances the clock by the rest of `time`.
  void wait(Nanos time, bool runs_maintenance) {
    time = time / 1000 * 1000;
    const Nanos last = 2 * store::lease::kTerm;
    for (Nanos passed{0};
         runs_maintenance && passed < last && time > store::kMaintenanceInterval;) {
      passed += store::kMaintenanceInterval;
      time -= store::kMaintenanceInterval;
      advance(store::kMaintenanceInterval);
      for (const auto& each : nodes_) {
        if (each->node.fleet.link != nullptr) each->node.fleet.link->run_ready();
      }
    }
    advance(time);
    if (!failure_.empty()) RC_FAIL(failure_);
  }

  void advance(Nanos time) {
    clock_.advance(time);
    std::vector<const Rates*> rates;
    for (const auto& each : nodes_) rates.push_back(&each->node.rates);
    reference_.advance(rates, clock_.now());
    for (const auto& each : nodes_) each->node.rates.follow(clock_.now());
  }

  // A node that stops returns its lease; a killed one does not. A new node does not know earlier
  // changes, so nodes are replaced only before the first change.
  void restart(LeasingNode& at, bool is_killed) {
    if (learning_ == Learning::late) return nodes_.back()->node.learn(settings_);
    if (is_changed_) return;
    if (is_killed && at.node.fleet.link != nullptr) at.node.fleet.link->is_cut_off = true;
    at.node.open();
    if (!failure_.empty()) RC_FAIL(failure_);
    at.held.clear();
  }

  const Learning learning_;
  bool is_changed_ = false;
  std::string failure_;
  Call call_{};
  ManualClock clock_;
  TestKeys keys_{clock_};
  Settings settings_{};
  Reference reference_{clock_.now()};
  std::vector<std::unique_ptr<LeasingNode>> nodes_;
};

void check_leased(int nodes, Learning learning) {
  core::check(
      [=] {
        LeasedWorld world(nodes, learning);
        for (const Step& one :
             *rc::gen::scale(2.0, rc::gen::container<std::vector<Step>>(step()))) {
          world.perform(one);
        }
        world.rest();
      },
      300);
}

TEST(ChangesOfLeasedLimits, LendNoMoreThanTheRatesOfEachMomentGrant) {
  check_leased(1, Learning::together);
}
TEST(ChangesOfLeasedLimits, LendNoMoreToTwoNodes) { check_leased(2, Learning::together); }
// As for fleet limits: used permits drain at most at the faster of both rates.
TEST(ChangesOfLeasedLimits, LendNoMoreThanTheFasterRateWhenANodeLearnsThemLate) {
  check_leased(2, Learning::late);
}

}  // namespace
}  // namespace weir::changes
