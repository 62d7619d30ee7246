#include <mutex>
#include <utility>

#include "engine/engine_impl.h"

// How the rules of an engine follow others: policies that were changed, the hours of a schedule,
// the nodes of a fleet.

namespace weir {
inline namespace v0 {

using engine::Rules;

void Engine::Impl::replace(PolicySet next) {
  const std::lock_guard lock(changing);
  const Instant at = now();
  const bool opens = rules == nullptr;
  if (!opens) {
    turn_to(at);
    // Rules without split limits do not follow the fleet. Those that come now begin in the fleet as
    // it is, and not with the first step that this node has made in it.
    follow_steps(at);
  }
  policies = std::move(next);
  publish(engine::compile(policies_of(policies), rules.get(), place, at, names));
  if (opens) join_fleet(at);
}

// (The table knows first: nobody who comes later may find a slot free that is not.)
void Engine::Impl::publish(std::shared_ptr<const Rules> next) {
  const auto slower = std::shared_ptr<const store::SlowerLimits>(next, &next->slower);
  table->set_slower(slower->empty() ? nullptr : slower);
  const std::lock_guard lock(mutex);
  rules = std::move(next);
  generation.store(rules->generation, std::memory_order_release);
  edition.store(rules->edition, std::memory_order_release);
  in_force->until.store(rules->span.end, std::memory_order_release);
  in_force->edition.store(rules->edition, std::memory_order_release);
}

// The first who comes at other hours makes the rules for them; who comes meanwhile goes on with
// those there are.
bool Engine::Impl::change_hours(Instant now) {
  const std::unique_lock lock(changing, std::try_to_lock);
  if (!lock) return false;
  turn_to(now);
  return true;
}

// With `changing` held. Somebody else may have been here before.
void Engine::Impl::turn_to(Instant now) {
  const policy::PolicySet& written = policies_of(policies);
  const auto changes = policy::changes_until(policy::schedules_of(written), rules->span, now,
                                             engine::changes_by_itself(written, *rules));
  if (changes.empty()) return;
  std::shared_ptr<const Rules> next = rules;
  for (const Instant at : changes) {
    next = engine::at_other_hours(written, *next, place, at, names, next->standing);
  }
  publish(std::move(next));
}

// The first who notices makes the rules, and all others wait for them: what the fleet is told next
// is that this node goes by them.
void Engine::Impl::follow_fleet(Instant now) {
  const std::lock_guard lock(changing);
  follow_steps(now);
}

// With `changing` held.
void Engine::Impl::follow_steps(Instant now) {
  if (fleet == nullptr || rules->standing.version == fleet->membership_version()) return;
  const Membership membership = fleet->membership(rules->standing.version);
  std::uint64_t version = membership.version - membership.steps.size();
  for (const Membership::Step& step : membership.steps) {
    const Instant at = later(now, -step.ago);
    turn_to(at);
    publish(engine::at_other_hours(
        policies_of(policies), *rules, place, at, names,
        {.version = ++version, .places = step.places, .founding = step.founding}));
  }
  turn_to(now);
}

// Where the node is a member already when the engine is opened, another engine of it may have used
// its parts until now: they begin with nothing.
void Engine::Impl::join_fleet(Instant now) {
  if (fleet == nullptr) return;
  const Membership membership = fleet->membership(0);
  if (membership.steps.empty()) return;
  publish(engine::at_other_hours(
      policies_of(policies), *rules, place, now, names,
      {.version = membership.version, .places = membership.steps.back().places}));
}

}  // namespace v0
}  // namespace weir
