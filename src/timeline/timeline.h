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

// Timelines: tests for limits and policies. A file is a list of cases; a case is a limit, several
// limits or a policy, and a list of steps: who arrives when, and what is expected to happen.

namespace weir::store {
class SharedStore;
}  // namespace weir::store

namespace weir::timeline {

enum class Op { take, peek, settle, reset, enter, leave, set_limit };

// What a step is expected to bring; what is not given is not checked.
struct Expected {
  std::optional<std::int64_t> allowed;      // how many of the n
  std::optional<std::vector<Nanos>> waits;  // of those that passed, in order
  // Of the last of the n:
  std::optional<Permits> remaining;
  std::optional<Nanos> retry_after;
  std::optional<Nanos> reset_after;
  std::optional<core::Outcome> outcome;
  std::optional<std::string> limited_by;  // a limit's name or position
};

// Who a step is about.
struct Subject {
  std::string key;  // used if there are no parts
  std::map<std::string, std::string> parts;

  Parts borrowed_parts() const;
};

struct Step {
  policy::Place place;
  Op op = Op::take;
  Nanos at{0};  // since the case's epoch
  std::int64_t n = 1;
  Permits permits = 1;
  Subject subject;
  std::optional<Nanos> max_wait;   // default: any time for queues, none for others
  std::string holder;              // empty: a new one each time
  policy::Limit limit;             // of set_limit
  std::size_t limit_position = 0;  // which one it replaces
  Expected expected;
};

struct Case {
  policy::Place place;
  std::string name;
  std::vector<policy::Limit> limits;
  // One whose limits depend on the key or the time, instead of those above.
  std::optional<policy::Policy> varying{};
  bool start_empty = false;
  Instant epoch{};
  Nanos tolerance{1000};
  std::vector<Step> steps;
};

// The cases of a file; policies are those a case may name. Problems are added to the list.
std::vector<Case> read_cases(const policy::Source& source, const policy::PolicySet* policies,
                             policy::Problems& problems);

// An expectation that was not met.
struct Mismatch {
  policy::Place place;   // of the step
  std::size_t step = 0;  // from 1
  std::string what;      // the field
  std::string expected;
  std::string actual;
};

// What a case is run on: the bare algorithms, or an engine with its memory store.
enum class Store { core, memory };

// Runs a case from a state in which nothing has been seen.
std::vector<Mismatch> run(const Case& test, Store store);

// A store that nodes share, for a case to run on.
struct SharedWay {
  store::SharedStore* store = nullptr;
  std::string run{};             // what tells its keys from those of any other case
  std::function<void()> wait{};  // until something may have been answered
};
std::vector<Mismatch> run(const Case& test, SharedWay way);
// Why a case cannot run there, if it cannot.
std::optional<std::string> unfit_for_shared(const Case& test);

}  // namespace weir::timeline
