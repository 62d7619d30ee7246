#pragma once

#include <optional>
#include <string>

#include "base/fixed_vector.h"
#include "engine/rules.h"
#include "store/memory/table.h"
#include "weir/engine.h"

namespace weir::engine {

enum class Verb { take, peek, settle, reset, enter, leave };

using Items = FixedVector<store::Item, core::kMaxLimits>;

// The policy of a request and its rules for the request's key, or why it cannot be decided.
struct Planned {
  const Policy* policy = nullptr;
  const Together* limits = nullptr;
  std::optional<Instant> blocked_until{};  // by an operator
  std::string error{};
};

// Turns a request into items for a table with that seed, one for each limit of its policy. Pure.
Planned plan(const Rules& rules, const Request& request, Verb verb, std::uint64_t seed,
             Items& items);

// The answer, as those who asked are told it. Pure.
Verdict judge(const Together& limits, const core::Verdict& verdict);

// The answer to somebody whom an operator has blocked.
Verdict blocked(Instant until, Instant now);

}  // namespace weir::engine
