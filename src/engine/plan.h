#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/fixed_vector.h"
#include "engine/key_prices.h"
#include "engine/rules.h"
#include "store/memory/table.h"
#include "weir/engine.h"

namespace weir::engine {

enum class Operation { take, peek, settle, reset, enter, leave };

// The store items of one request. They borrow its texts and own the price histories of its keys.
class Items : public FixedVector<store::Item, core::kMaxLimits> {
 public:
  void clear() {
    FixedVector::clear();
    prices_.clear();
  }
  // Gives the last item the price history of its key.
  void attach_history(const CompiledPolicy& policy, const policy::Subject& subject,
                      std::uint64_t identity) {
    (*this)[size() - 1].history = &prices_.emplace_back(policy, subject, identity);
  }

 private:
  FixedVector<KeyPrices, core::kMaxLimits> prices_;
};

// The effect of split limits on a request, in addition to the decision of the table.
struct SplitEffect {
  SplitEffect() noexcept {}  // NOLINT: does not clear `refusal`, which few calls need

  // The node is not a member of its fleet, and the policy's on_store_failure mode applies.
  bool degraded = false;
  std::uint32_t bypassed = 0;  // bits of the limits that are treated as shadow limits in the table
  std::uint32_t refusing = 0;  // bits of the limits that refuse because this node's share is 0
  std::optional<Verdict> refusal{};  // refuses the whole request without a decision of the store
};

// The policy of a request and its rules for the request's key, or the reason why there is none.
struct Planned {
  const CompiledPolicy* policy = nullptr;
  const RuleGroup* limits = nullptr;
  std::optional<Instant> blocked_until{};  // the end of an operator's block
  Fault fault = Fault::none;
  std::string error{};
  SplitEffect split{};

  bool asks_fleet() const { return limits->has_fleet; }
  // True if the verdict is known without a decision of the store.
  bool has_verdict() const { return blocked_until || split.refusal; }
};

// Turns a request into items for the table with that seed, one for each limit of its policy. Pure.
// Requests of one batch often have the same policy: `likely` is the policy of the previous request
// (null: none).
Planned plan(const Rules& rules, const Request& request, Operation operation, std::uint64_t seed,
             Items& items, const CompiledPolicy* likely = nullptr);

// How this node stands in its fleet: a member, no member now, or no member because of a
// configuration error.
enum class MembershipStatus { member, cut_off, misconfigured };

// Applies split limits, of which the plan must have some, to a plan: its shadow flags, or a refusal
// of the whole request.
void plan_split(Planned& planned, Items& items, Operation operation, MembershipStatus status,
                Instant now);

// The public verdict for a decision of the core. Pure.
Verdict judge(const RuleGroup& limits, const core::Verdict& verdict);
void judge(const RuleGroup& limits, const core::Verdict& verdict, Verdict& answer);
// Maps a verdict over a subset of a policy's limits to positions in the policy.
core::Verdict at_policy_positions(core::Verdict verdict, std::span<const std::size_t> positions);
// Applies the effect of split limits to a verdict.
void apply_split(Verdict& verdict, const SplitEffect& split);

// The failure mode that applies when the store does not decide. A configuration error never opens a
// policy: `open` is for outages, and a permanent mistake must be noticed.
policy::OnStoreFailure failure_mode(policy::OnStoreFailure chosen, bool misconfigured);

// The decision of a split limit of which this node's share is 0.
core::Decision closed_decision(const Rule& rule, Instant now);

// The retry_after of a call that is refused because the fleet does not answer. The length of the
// outage is unknown.
inline constexpr Nanos kFleetRetryAfter = std::chrono::seconds{1};

// The decision and the state of one limit, in the form that people read.
LimitState state_of(const RuleGroup& limits, std::size_t position, Permits cost,
                    const core::Decision& decision);

// The verdict for a request with a fault.
Verdict error_verdict(Planned planned);

// The verdict for a key that an operator has blocked.
Verdict blocked_verdict(Instant until, Instant now);

// The verdict of a plan that has one already.
Verdict early_verdict(const Planned& planned, Instant now);

}  // namespace weir::engine
