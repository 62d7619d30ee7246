#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policy/limit.h"
#include "policy/policy_file.h"
#include "policy/source.h"
#include "weir/parts.h"

// Timelines: tests for limits and policies. A file is a list of cases; a case has a limit, several
// limits or a policy, and a list of steps: arrivals at a time, and their expected results.

namespace weir::store {
class SharedStore;
}  // namespace weir::store

namespace weir::timeline {

enum class Op { take, peek, settle, reset, enter, leave, set_limit };

// The expected results of a step. Absent fields are not checked.
struct Expected {
  std::optional<std::int64_t> allowed;      // how many of the step's n arrivals
  std::optional<std::vector<Nanos>> waits;  // of the admitted arrivals, in order
  // Of the last of the step's n arrivals:
  std::optional<Permits> remaining;
  std::optional<Nanos> retry_after;
  std::optional<Nanos> reset_after;
  std::optional<core::Outcome> outcome;
  std::optional<std::string> limited_by;  // a limit's name or position
};

// The key or the parts of a step.
struct StepSubject {
  std::string key;  // ignored if there are parts
  std::map<std::string, std::string> parts;

  Parts borrowed_parts() const;
};

struct Step {
  policy::SourcePosition place;
  Op op = Op::take;
  Nanos at{0};  // since the case's epoch
  std::int64_t n = 1;
  Permits permits = 1;
  StepSubject subject;
  std::optional<Nanos> max_wait;   // default: infinite for queues, 0 for others
  std::string holder;              // empty: a new holder for each arrival
  policy::Limit limit;             // of set_limit
  std::size_t limit_position = 0;  // of the limit that it replaces
  Expected expected;
};

struct Case {
  policy::SourcePosition place;
  std::string name;
  std::vector<policy::Limit> limits;
  // A policy whose limits depend on the key or the time; replaces `limits`.
  std::optional<policy::Policy> keyed_policy{};
  bool start_empty = false;
  Instant epoch{};
  Nanos tolerance{1000};
  std::vector<Step> steps;
};

// Reads the cases of a file, which may refer to `policies`. Problems are added to the list.
std::vector<Case> read_cases(const policy::Source& source, const policy::PolicySet* policies,
                             policy::Problems& problems);

// An expectation that was not met.
struct Mismatch {
  policy::SourcePosition place;  // of the step
  std::size_t step = 0;          // from 1
  std::string what;              // the field
  std::string expected;
  std::string actual;
};

// The store for a case: the algorithms alone, or an engine with its table in memory.
enum class Store { core, memory };

// Runs a case from the initial state.
std::vector<Mismatch> run(const Case& test, Store store);

// A shared store for a case to run on.
struct SharedStoreAccess {
  store::SharedStore* store = nullptr;
  std::string run{};             // makes its keys different from those of other cases
  std::function<void()> wait{};  // blocks until an answer may have arrived
};
std::vector<Mismatch> run(const Case& test, SharedStoreAccess way);
// The reason why a case cannot run on a shared store; none if it can.
std::optional<std::string> why_not_on_shared_store(const Case& test);

}  // namespace weir::timeline
