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

enum class Verb { take, peek, settle, reset, enter, leave };

// The items of a request. They borrow its texts, and the prices of their keys are in here.
class Items : public FixedVector<store::Item, core::kMaxLimits> {
 public:
  void clear() {
    FixedVector::clear();
    prices_.clear();
  }
  // Lets the last item know which prices it has had.
  void remember(const Policy& policy, const policy::Subject& subject, std::uint64_t identity) {
    (*this)[size() - 1].history = &prices_.emplace_back(policy, subject, identity);
  }

 private:
  FixedVector<KeyPrices, core::kMaxLimits> prices_;
};

// What becomes of a request's limits that are split, beside what the table says.
struct SplitCall {
  SplitCall() noexcept {}  // NOLINT: leaves the place of a refusal as it is, which few calls need

  // The node is no member of its fleet, and the policy says what happens then.
  bool degraded = false;
  std::uint32_t unasked = 0;         // limits that refuse nobody, whatever they say
  std::uint32_t refusing = 0;        // limits of which the node has nothing
  std::optional<Verdict> refusal{};  // of all of it, without asking any
};

// The policy of a request and its rules for the request's key, or why it cannot be decided.
struct Planned {
  const Policy* policy = nullptr;
  const Together* limits = nullptr;
  std::optional<Instant> blocked_until{};  // by an operator
  Fault fault = Fault::none;
  std::string error{};
  SplitCall split{};

  bool asks_fleet() const { return limits->shares; }
  // Whether the answer is there, and nobody need be asked.
  bool is_decided() const { return blocked_until || split.refusal; }
};

// Turns a request into items for a table with that seed, one for each limit of its policy. Pure.
// Requests that come together tend to be under one policy: `likely` is that of the one before.
Planned plan(const Rules& rules, const Request& request, Verb verb, std::uint64_t seed,
             Items& items, const Policy* likely = nullptr);

// Adds what is to be said of limits that are split, some of which must be among the planned ones.
enum class Belonging { member, cut_off, mistaken };
void plan_split(Planned& planned, Items& items, Verb verb, Belonging belonging, Instant now);

// The answer, as those who asked are told it. Pure.
Verdict judge(const Together& limits, const core::Verdict& verdict);
void judge(const Together& limits, const core::Verdict& verdict, Verdict& answer);
// A verdict over some limits of a policy, as one over the policy.
core::Verdict placed(core::Verdict verdict, std::span<const std::size_t> positions);
// What limits that are split make of it.
void amend(Verdict& verdict, const SplitCall& split);

// What is done without an answer of the store. Who made a mistake must notice that, and not that
// there are no limits any more: `open` is for a store that is away.
policy::OnStoreFailure mode_of(policy::OnStoreFailure chosen, bool mistaken);

// What a limit would say of which the node has nothing.
core::Decision closed_decision(const Rule& rule, Instant now);

// Until when somebody who was refused for want of the fleet should wait: nobody knows how long it
// is gone.
inline constexpr Nanos kAskAgain = std::chrono::seconds{1};

// What one of the limits would say, for people to read.
LimitState state_of(const Together& limits, std::size_t position, Permits cost,
                    const core::Decision& decision);

// The answer to a request that cannot be decided.
Verdict error_of(Planned planned);

// The answer to somebody whom an operator has blocked.
Verdict blocked(Instant until, Instant now);

// The answer of a plan that has one.
Verdict decided(const Planned& planned, Instant now);

}  // namespace weir::engine
