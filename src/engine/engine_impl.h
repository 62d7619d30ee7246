#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine_time.h"
#include "engine/plan.h"
#include "engine/policy_set_access.h"
#include "engine/receipt_impl.h"
#include "engine/throttle.h"
#include "store/lease/purses.h"
#include "weir/engine.h"
#include "weir/fleet.h"

namespace weir {
inline namespace v0 {

// What an Engine is made of. The parts that ask the fleet are in fleet_call.h.
struct Engine::Impl {
  using CoreReceipts = std::array<core::Receipt, core::kMaxLimits>;
  using Resets = std::array<std::uint32_t, core::kMaxLimits>;

  Impl(std::unique_ptr<store::Table> table, const EngineOptions& options,
       const store::Opened& opened);
  // Gives back what was borrowed by way of its own links.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Instant now() const noexcept { return time.now(); }

  // ---- Deciding, on this node

  const engine::Rules& current_rules(Instant now);
  void renew();
  // Those of this thread's last plan, for who needs them longer than for a call.
  std::shared_ptr<const engine::Rules> used_rules() const;
  engine::Planned plan(const Request& request, engine::Verb verb, Instant now,
                       engine::Items& items);
  engine::Planned plan_here(const Request& request, engine::Verb verb, Instant now,
                            engine::Items& items);
  core::HolderId holder_id(std::string_view holder) const;
  Resets resets_of(std::span<const store::Item> items) const;
  // With a receipt for each item, if there is room for them.
  Verdict decide(const engine::Planned& planned, const engine::Items& items, const Request& request,
                 Instant now, const core::HolderId& holder, core::Receipt* receipts);
  // The same where the verdict has its place, all of which is set: to move one costs too much.
  void decide(const engine::Planned& planned, const engine::Items& items, const Request& request,
              Instant now, const core::HolderId& holder, core::Receipt* receipts, Verdict& verdict);
  void take(Engine& engine, const Request& request, Verdict& verdict);
  void tell_sink(const engine::Policy& policy, const engine::Together& limits,
                 const Request& request, const Verdict& verdict) const;
  void tell_sink(std::string_view key, Permits permits, const Verdict& verdict) const;
  core::Verdict settle(std::span<const store::Item> items, Instant now, Receipt::Impl* receipt);
  Verdict settle(Engine& engine, const Request& request, Receipt* receipt);
  // Of a plan that need not ask the fleet.
  Verdict take_here(const engine::Planned& planned, const engine::Items& items,
                    const Request& request, Instant now, Receipt& receipt);
  Verdict peek_here(const engine::Planned& planned, const engine::Items& items, Instant now,
                    std::string_view holder) const;
  Verdict settle_here(const engine::Planned& planned, const engine::Items& items, Instant now,
                      Receipt* receipt);
  std::vector<LimitState> states_here(const engine::Planned& planned, const engine::Items& items,
                                      Instant now) const;
  // What one limit would say.
  core::Decision decision_of(const engine::Rule& rule, store::Item item, Instant now) const;
  Verdict throttle(const engine::Throttle& throttle, std::string_view key, bool degraded = false);

  // ---- Rules that follow others (engine_rules.cc)

  void replace(PolicySet next);
  engine::Rules rules_before_start(Instant now);
  engine::Rules rules_since(const engine::Rules& noted, Instant now);
  void publish(std::shared_ptr<const engine::Rules> next);
  // Whether it was this call that did.
  bool change_hours(Instant now);
  void turn_to(Instant now);
  std::shared_ptr<const engine::Rules> turned_to(const policy::PolicySet& written,
                                                 std::shared_ptr<const engine::Rules> from,
                                                 Instant now);
  void close();
  void follow_fleet(Instant now);
  void follow_steps(Instant now);
  void join_fleet(Instant now);

  // ---- Asking the fleet (engine_links.cc)

  // What was borrowed by way of a link.
  store::lease::Purses& purses_of(Link& link);
  void return_leases(Link& link);
  LeaseUse leases() const;

  // Lends a link to `start` and lets it run until the flag that is given along is set.
  void wait_for(const std::function<void(Link&, bool&)>& start);
  template <typename Answer, typename Ask>
  Answer waited(Engine& engine, const Ask& ask);

  // Constant after construction.
  const std::unique_ptr<store::Table> table;
  const engine::EngineTime time;
  DecisionSink* const sink;
  Fleet* const fleet;
  const std::string note;
  const bool opened_well;
  const std::uint64_t id;
  engine::PriceRegistry registry;
  const engine::Place place;

  // Held by who makes other rules, which may take a while.
  std::mutex changing;
  PolicySet policies;
  engine::Names names;

  // Changed under both, read under either.
  std::mutex mutex;
  std::shared_ptr<const engine::Rules> rules;

  std::atomic<std::uint64_t> generation{0};
  std::atomic<std::uint64_t> edition{0};
  // For purses, which may outlive the engine.
  const std::shared_ptr<store::lease::RulesInForce> in_force =
      std::make_shared<store::lease::RulesInForce>();

  // Of those who wait for the fleet, when they do not.
  std::mutex lending;
  std::vector<std::unique_ptr<Link>> links;

  // Of all links that were ever used; what those that are gone have counted stays counted.
  mutable std::mutex counting;
  std::vector<std::shared_ptr<store::lease::PurseCounts>> purse_counts;
};

}  // namespace v0
}  // namespace weir
