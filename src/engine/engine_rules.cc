#include <mutex>
#include <random>
#include <utility>

#include "engine/engine_impl.h"
#include "engine/price_note.h"

// Replaces the rules of an engine: on a reload, at the hours of a schedule, on membership changes.

namespace weir {
inline namespace v0 {

using engine::Rules;

void Engine::Impl::replace(PolicySet next) {
  const std::lock_guard lock(change_mutex);
  const Instant at = now();
  const bool opens = rules == nullptr;
  if (!opens) {
    advance_to(at);
    // Rules without split limits do not follow the membership. New split limits start at the
    // current membership, and not at the first step of this node.
    apply_membership_steps(at);
  }
  policies = std::move(next);
  const policy::PolicySet& written = policies_of(policies);
  if (opens) {
    publish(engine::compile(written, rules_before_start(at), target, at, strings));
    join_fleet(at);
  } else {
    publish(engine::compile(written, *rules, target, at, strings));
  }
}

// Reads the price note of the previous process. Without a note the edition is random: states of
// other processes must not be taken for states of an epoch of this process.
Rules Engine::Impl::rules_before_start(Instant now) {
  auto noted = engine::read_price_note(table->notes().text(), strings);
  if (!noted) return engine::no_rules(std::random_device{}());
  return noted->since < now ? rules_since(*noted, now) : *std::move(noted);
}

// Replays the schedule hours and the order ends since the note was written, at their own times.
// Only for policies that did not change since the note; a changed policy counts from the start of
// this process.
Rules Engine::Impl::rules_since(const Rules& noted, Instant now) {
  const policy::PolicySet& written = policies_of(policies);
  const auto then = engine::compile(written, noted, target, noted.since, strings);
  policy::PolicySet unchanged;
  for (const auto& [name, policy] : written) {
    const engine::CompiledPolicy& made = *then->find(name);
    const auto old = noted.removed.find(name);
    const bool is_same = old != noted.removed.end() && made.epochs == old->second;
    if (is_same && !made.has_split) unchanged.emplace(name, policy);
  }
  Rules before = *advanced_rules(
      unchanged, engine::compile(unchanged, noted, target, noted.since, strings), now);
  before.generation = 0;
  return before;
}

// Order matters: the table must know the slower limits before any call uses the new rules, or it
// may reuse a slot too early. The note is written before any state of the new edition.
void Engine::Impl::publish(std::shared_ptr<const Rules> next) {
  if (const std::size_t max_bytes = table->notes().capacity(); max_bytes > 0) {
    table->notes().keep(engine::price_note(*next, max_bytes));
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

// The first thread that notices compiles the new rules. Other threads go on with the current rules
// meanwhile. True if this call did it.
bool Engine::Impl::follow_schedule(Instant now) {
  const std::unique_lock lock(change_mutex, std::try_to_lock);
  if (!lock) return false;
  advance_to(now);
  return true;
}

// Requires change_mutex. Another thread may have advanced the rules already.
void Engine::Impl::advance_to(Instant now) {
  auto next = advanced_rules(policies_of(policies), rules, now);
  if (next != rules) publish(std::move(next));
}

// The rules after all unscheduled and scheduled changes until `now`.
std::shared_ptr<const Rules> Engine::Impl::advanced_rules(const policy::PolicySet& written,
                                                          std::shared_ptr<const Rules> from,
                                                          Instant now) {
  const auto changes = policy::changes_until(policy::schedules_of(written), from->span, now,
                                             engine::unscheduled_changes(written, *from));
  for (const Instant at : changes) {
    from = engine::recompile(written, *from, target, at, strings, from->fleet_position);
  }
  return from;
}

// Notes the changes since the last call in the state file.
void Engine::Impl::close() {
  const std::lock_guard lock(change_mutex);
  if (rules != nullptr && table->notes().capacity() > 0) advance_to(now());
}

// One thread compiles the rules and all others wait for them: the next message to the fleet says
// that this node applies them.
void Engine::Impl::follow_membership(Instant now) {
  const std::lock_guard lock(change_mutex);
  apply_membership_steps(now);
}

// Requires change_mutex.
void Engine::Impl::apply_membership_steps(Instant now) {
  if (fleet == nullptr || rules->fleet_position.version == fleet->membership_version()) return;
  const Membership membership = fleet->membership(rules->fleet_position.version);
  std::uint64_t version = membership.version - membership.steps.size();
  for (const Membership::Step& step : membership.steps) {
    const Instant at = later(now, -step.ago);
    advance_to(at);
    publish(engine::recompile(
        policies_of(policies), *rules, target, at, strings,
        {.version = ++version, .places = step.places, .founding = step.founding}));
  }
  advance_to(now);
}

// If the node is a member already when the engine is opened, another engine of this node may have
// used its shares: they start at 0.
void Engine::Impl::join_fleet(Instant now) {
  if (fleet == nullptr) return;
  const Membership membership = fleet->membership(0);
  if (membership.steps.empty()) return;
  publish(
      engine::recompile(policies_of(policies), *rules, target, now, strings,
                        {.version = membership.version, .places = membership.steps.back().places}));
}

}  // namespace v0
}  // namespace weir
