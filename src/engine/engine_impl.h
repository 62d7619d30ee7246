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
#include "store/lease/lease_cache.h"
#include "weir/engine.h"
#include "weir/fleet.h"

namespace weir {
inline namespace v0 {

// The implementation of Engine. Calls to the fleet are in fleet_call.h.
struct Engine::Impl {
  using CoreReceipts = std::array<core::Receipt, core::kMaxLimits>;
  using Resets = std::array<std::uint32_t, core::kMaxLimits>;

  Impl(std::unique_ptr<store::Table> table, const EngineOptions& options,
       const store::StateFileReport& opened);
  // Returns the leases of its own links.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Instant now() const noexcept { return time.now(); }

  // ---- Decisions on this node

  const engine::Rules& current_rules(Instant now);
  void refresh_cached_rules();
  // The rules of this thread's last plan, for callers that need them beyond the call.
  std::shared_ptr<const engine::Rules> rules_of_last_plan() const;
  engine::Planned plan(const Request& request, engine::Operation operation, Instant now,
                       engine::Items& items);
  engine::Planned plan_on_node(const Request& request, engine::Operation operation, Instant now,
                               engine::Items& items);
  core::HolderId holder_id(std::string_view holder) const;
  Resets resets_of(std::span<const store::Item> items) const;
  // Writes a receipt for each item unless `receipts` is null.
  Verdict decide(const engine::Planned& planned, const engine::Items& items, const Request& request,
                 Instant now, const core::HolderId& holder, core::Receipt* receipts);
  // The same in place: moving a Verdict is expensive. Sets all fields of `verdict`.
  void decide(const engine::Planned& planned, const engine::Items& items, const Request& request,
              Instant now, const core::HolderId& holder, core::Receipt* receipts, Verdict& verdict);
  void take(Engine& engine, const Request& request, Verdict& verdict);
  void notify_sink(const engine::CompiledPolicy& policy, const engine::RuleGroup& limits,
                   const Request& request, const Verdict& verdict) const;
  void notify_sink(std::string_view key, Permits permits, const Verdict& verdict) const;
  core::Verdict settle(std::span<const store::Item> items, Instant now, Receipt::Impl* receipt);
  Verdict settle(Engine& engine, const Request& request, Receipt* receipt);
  // For plans without limits in the fleet's store.
  Verdict take_on_node(const engine::Planned& planned, const engine::Items& items,
                       const Request& request, Instant now, Receipt& receipt);
  Verdict peek_on_node(const engine::Planned& planned, const engine::Items& items, Instant now,
                       std::string_view holder) const;
  Verdict settle_on_node(const engine::Planned& planned, const engine::Items& items, Instant now,
                         Receipt* receipt);
  std::vector<LimitState> states_on_node(const engine::Planned& planned, const engine::Items& items,
                                         Instant now) const;
  // The decision of one limit alone.
  core::Decision decision_of(const engine::Rule& rule, store::Item item, Instant now) const;
  Verdict throttle(const engine::Throttle& throttle, std::string_view key, bool degraded = false);

  // ---- Replacing rules (engine_rules.cc)

  void replace(PolicySet next);
  engine::Rules rules_before_start(Instant now);
  engine::Rules rules_since(const engine::Rules& noted, Instant now);
  void publish(std::shared_ptr<const engine::Rules> next);
  // True if this call replaced the rules.
  bool follow_schedule(Instant now);
  void advance_to(Instant now);
  std::shared_ptr<const engine::Rules> advanced_rules(const policy::PolicySet& written,
                                                      std::shared_ptr<const engine::Rules> from,
                                                      Instant now);
  void close();
  void follow_membership(Instant now);
  void apply_membership_steps(Instant now);
  void join_fleet(Instant now);

  // ---- Links to the fleet (engine_links.cc)

  // The lease cache of a link.
  store::lease::LeaseCache& lease_cache_of(Link& link);
  void return_leases(Link& link);
  LeaseUse leases() const;

  // Passes a link to `start`, and runs the link until the flag is set.
  void run_on_link(const std::function<void(Link&, bool&)>& start);
  template <typename Answer, typename Ask>
  Answer wait_for_result(Engine& engine, const Ask& ask);

  // Constant after construction.
  const std::unique_ptr<store::Table> table;
  const engine::EngineTime time;
  DecisionSink* const sink;
  Fleet* const fleet;
  const std::string opening_text;
  const bool state_intact;
  const std::uint64_t id;
  engine::PriceRegistry registry;
  const engine::CompileTarget target;

  // Held while new rules are compiled, which may take long.
  std::mutex change_mutex;
  PolicySet policies;
  engine::StringPool strings;

  // Written under both mutexes, read under either.
  std::mutex mutex;
  std::shared_ptr<const engine::Rules> rules;

  std::atomic<std::uint64_t> generation{0};
  std::atomic<std::uint64_t> edition{0};
  // For lease caches, which may outlive the engine.
  const std::shared_ptr<store::lease::RulesInForce> in_force =
      std::make_shared<store::lease::RulesInForce>();

  // Idle links of synchronous calls.
  std::mutex links_mutex;
  std::vector<std::unique_ptr<Link>> links;

  // Counters of every link that was ever used. Counters of closed links still count.
  mutable std::mutex counts_mutex;
  std::vector<std::shared_ptr<store::lease::LeaseCacheCounts>> lease_counts;
};

}  // namespace v0
}  // namespace weir
