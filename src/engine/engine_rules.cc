#include <mutex>
#include <random>
#include <utility>

#include "engine/engine_impl.h"
#include "engine/price_note.h"

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
  const policy::PolicySet& written = policies_of(policies);
  if (opens) {
    publish(engine::compile(written, rules_before_start(at), place, at, names));
    join_fleet(at);
  } else {
    publish(engine::compile(written, *rules, place, at, names));
  }
}

// What an earlier process has noted in the state file. Without a note the edition is a random one:
// states that others have left must not be taken for states of an epoch of this process.
Rules Engine::Impl::rules_before_start(Instant now) {
  auto noted = engine::read_price_note(table->notes().text(), names);
  if (!noted) return engine::no_rules(std::random_device{}());
  return noted->since < now ? rules_since(*noted, now) : *std::move(noted);
}

// Hours that have begun and orders that have ended since the note was written count from when they
// did, for policies that still say what they said then. An edited one counts from the start on.
Rules Engine::Impl::rules_since(const Rules& noted, Instant now) {
  const policy::PolicySet& written = policies_of(policies);
  const auto then = engine::compile(written, noted, place, noted.since, names);
  policy::PolicySet unchanged;
  for (const auto& [name, policy] : written) {
    const engine::Policy& made = *then->find(name);
    const auto old = noted.gone.find(name);
    const bool is_same = old != noted.gone.end() && made.epochs == old->second;
    if (is_same && !made.splits) unchanged.emplace(name, policy);
  }
  Rules before =
      *turned_to(unchanged, engine::compile(unchanged, noted, place, noted.since, names), now);
  before.generation = 0;
  return before;
}

// (The table knows first: nobody who comes later may find a slot free that is not. And the note is
// there before any state of the new edition is.)
void Engine::Impl::publish(std::shared_ptr<const Rules> next) {
  if (const std::size_t most = table->notes().capacity(); most > 0) {
    table->notes().keep(engine::price_note(*next, most));
  }
  const auto slower = std::shared_ptr<const store::SlowerLimits>(next, &next->slower);
  table->set_slower(slower->empty() ? nullptr : slower);
  const std::lock_guard lock(mutex);
  rules = std::move(next);
  generation.store(rules->generation, std::memory_order_release);
  edition.store(rules->edition, std::memory_order_release);
  in_force->until.store(rules->span.end, std::memory_order_release);
  in_force->edition.store(rules->leased_edition, std::memory_order_release);
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
  auto next = turned_to(policies_of(policies), rules, now);
  if (next != rules) publish(std::move(next));
}

// The rules after all that has changed by itself until `now`.
std::shared_ptr<const Rules> Engine::Impl::turned_to(const policy::PolicySet& written,
                                                     std::shared_ptr<const Rules> from,
                                                     Instant now) {
  const auto changes = policy::changes_until(policy::schedules_of(written), from->span, now,
                                             engine::changes_by_itself(written, *from));
  for (const Instant at : changes) {
    from = engine::at_other_hours(written, *from, place, at, names, from->standing);
  }
  return from;
}

// The next process has to know what has changed by itself since anybody asked.
void Engine::Impl::close() {
  const std::lock_guard lock(changing);
  if (rules != nullptr && table->notes().capacity() > 0) turn_to(now());
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
