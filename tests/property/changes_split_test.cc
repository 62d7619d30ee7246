// Limits that change while they are split among nodes, in virtual time: each node is admitted the
// permits that the rates of each moment have granted to its share.
//
// The membership list is given here; the real one is tested in split_test.cc. All nodes learn of
// the list and of changes at the same instant.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "changes.h"
#include "core/node_share.h"
#include "weir/clock.h"
#include "weir/fleet.h"

namespace weir::changes {
namespace {

// The position of one node in the fleet.
class ScriptedFleet final : public Fleet {
 public:
  explicit ScriptedFleet(const Clock& clock) : clock_(clock) {}

  std::unique_ptr<Link> connect() override { return nullptr; }
  bool is_member() const noexcept override { return !steps_.empty(); }
  std::uint64_t membership_version() const noexcept override { return steps_.size(); }
  Membership membership(std::uint64_t since) const override {
    Membership membership{.version = steps_.size()};
    for (std::size_t i = since; i < steps_.size(); ++i) {
      membership.steps.push_back(steps_[i].step);
      membership.steps.back().ago = clock_.now() - steps_[i].at;
    }
    return membership;
  }

  void stands(std::uint32_t rank, std::uint32_t nodes, bool founding) {
    steps_.push_back(
        {clock_.now(), {.places = {{.nodes = nodes, .rank = rank}}, .founding = founding}});
  }

 private:
  struct TimedStep {
    Instant at{};
    Membership::Step step{};
  };
  const Clock& clock_;
  std::vector<TimedStep> steps_;
};

struct SplitNode {
  SplitNode(const Clock& clock, const Settings& settings)
      : fleet(clock),
        engine(policies_under(settings, "split"),
               {.memory = {.bytes = std::size_t{1} << 18}, .clock = &clock, .fleet = &fleet}) {}

  ScriptedFleet fleet;
  Engine engine;
};

// True if a node may have no share of a limit that is smaller than the fleet.
enum class MinShare { positive, zero };

// A fixed number of nodes, all present from the start. The remainder of a division goes to the
// first of them. While the share of a node is zero, its debt does not drain.
class FixedNodes {
 public:
  explicit FixedNodes(std::uint32_t nodes) {
    for (std::uint32_t i = 0; i < nodes; ++i) {
      nodes_.push_back(std::make_unique<SplitNode>(clock_, settings_));
      nodes_.back()->fleet.stands(i, nodes, true);
      (void)nodes_.back()->engine.split_limits();
      used_.emplace_back(clock_.now(), [=](PerMinute all) { return core::portion(all, nodes, i); });
    }
    rates_.set(settings_, clock_.now());
  }

  void perform(const Step& step) {
    const std::size_t which = static_cast<std::size_t>(step.number) % nodes_.size();
    if (step.op == Step::Op::take) return take(which, kKeys[step.key], step.number);
    if (step.op == Step::Op::wait) return wait(time_of(step));
    const bool was_present = settings_.present;
    if (!change(settings_, step, clock_.now())) return;
    for (const auto& node : nodes_) node->engine.replace(policies_under(settings_, "split"));
    rates_.set(settings_, clock_.now());
    if (!was_present && settings_.present) has_returned_ = true;
    note_parts();
  }

  bool had_zero_share() const { return had_zero_share_; }

 private:
  PerMinute part(std::size_t which, const std::string& key) const {
    return core::portion(rates_.at(key, clock_.now()), static_cast<Permits>(nodes_.size()),
                         static_cast<Permits>(which));
  }

  void note_parts() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      for (const char* key : kKeys) had_zero_share_ = had_zero_share_ || part(i, key) == 0;
    }
  }

  void wait(Nanos time) {
    clock_.advance(time);
    for (Reference& used : used_) used.advance({&rates_}, clock_.now());
    rates_.follow(clock_.now());
    note_parts();
  }

  void take(std::size_t which, const std::string& key, int number) {
    if (!settings_.present) return;
    const PerMinute all = part(which, key);
    const long double left = used_[which].left(all, key);
    const Permits permits = std::max<Permits>(all * (number + 1) / 1000, 1);
    const Verdict verdict =
        nodes_[which]->engine.take({.policy = "p", .key = key, .permits = permits});
    RC_LOG() << "node " << which << ": " << key << " takes " << permits << " of "
             << static_cast<double>(left) << (verdict ? ": admitted" : ": refused") << "\n";
    RC_ASSERT(!verdict.degraded);
    if (verdict) {
      RC_ASSERT(static_cast<long double>(permits) <= left + kRounding);
      used_[which].take(key, permits);
    } else if (!had_zero_share_ && !has_returned_) {
      // (Otherwise the node starts with no share.)
      RC_ASSERT(static_cast<long double>(permits) > left - kRounding);
    }
  }

  ManualClock clock_;
  Settings settings_{};
  Rates rates_{};
  std::vector<std::unique_ptr<SplitNode>> nodes_;
  std::vector<Reference> used_;  // one for each node
  bool had_zero_share_ = false;  // some node had a share of zero of some key's limit at some time
  bool has_returned_ = false;    // that limit has a share again
};

void check_fixed(std::uint32_t nodes, MinShare min_share) {
  core::check(
      [=] {
        FixedNodes world(nodes);
        for (const Step& one :
             *rc::gen::scale(2.0, rc::gen::container<std::vector<Step>>(step()))) {
          world.perform(one);
          if (min_share == MinShare::positive && world.had_zero_share()) return;
        }
      },
      500);
}

TEST(ChangesOfSplitLimits, AdmitOnOneNodeWhatTheRatesOfEachMomentGrant) {
  check_fixed(1, MinShare::positive);
}
TEST(ChangesOfSplitLimits, AdmitOnEachOfTwoNodesWhatTheRatesGrantToItsShare) {
  check_fixed(2, MinShare::positive);
}
// (Up to the first change that leaves one of them without a share.)
TEST(ChangesOfSplitLimits, AdmitOnEachOfThreeNodesWhatTheRatesGrantToItsShare) {
  check_fixed(3, MinShare::positive);
}

TEST(ChangesOfSplitLimits, AdmitNoMoreOnANodeWhoseShareIsZeroForAWhile) {
  check_fixed(3, MinShare::zero);
}

}  // namespace
}  // namespace weir::changes
