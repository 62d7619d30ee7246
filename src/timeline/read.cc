#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/date.h"
#include "base/decimal.h"
#include "base/saturating.h"
#include "base/suggest.h"
#include "policy/key.h"
#include "policy/limit_yaml.h"
#include "policy/yaml.h"
#include "timeline/timeline.h"

namespace weir::timeline {

namespace {

using policy::Problems;
using policy::YamlNode;

constexpr std::array<std::string_view, 8> kCaseFields{"name",  "limit", "limits", "policy",
                                                      "start", "epoch", "steps",  "tolerance"};

constexpr std::array<std::string_view, 16> kStepFields{
    "at",          "n",           "permits", "key",       "parts", "max_wait",
    "op",          "holder",      "limit",   "allowed",   "waits", "remaining",
    "retry_after", "reset_after", "outcome", "limited_by"};

constexpr std::array<std::string_view, 7> kOps{"take",  "peek",  "settle",   "reset",
                                               "enter", "leave", "set_limit"};

constexpr std::array<std::string_view, 3> kOutcomes{"allowed", "limited", "impossible"};

constexpr std::string_view kDefaultEpoch = "2026-01-01T00:00:00Z";

// More arrivals in one step would run for minutes.
constexpr std::int64_t kMaxArrivals = 10'000'000;

// ---- Values

std::optional<Decimal> read_number(const YamlNode& node, std::string_view what,
                                   Problems& problems) {
  const auto number = node.is_scalar() ? Decimal::parse(node.text) : std::nullopt;
  if (!number) {
    problems.push_back(
        {node.place, fmt::format("\"{}\" is a number, not {}", what, node.describe())});
  }
  return number;
}

std::int64_t read_whole(const YamlNode& node, std::string_view what, std::int64_t least,
                        std::int64_t most, Problems& problems) {
  const auto number = read_number(node, what, problems);
  if (!number) return least;
  const auto value = number->shifted(0);
  const auto thousandths = number->shifted(3);
  const bool whole = value && (!thousandths || *thousandths == Int128{*value} * 1000);
  if (!whole || *value < least || *value > most) {
    problems.push_back({node.place, fmt::format("\"{}\" is a whole number from {} to {}, not {}",
                                                what, least, most, node.text)});
    return least;
  }
  return *value;
}

Nanos read_seconds(const YamlNode& node, std::string_view what, Problems& problems) {
  const auto number = read_number(node, what, problems);
  if (!number) return Nanos{0};
  const auto nanos = number->shifted(9);
  if (!nanos) {
    problems.push_back({node.place, fmt::format("\"{}\" is beyond 292 years", what)});
    return Nanos{0};
  }
  return Nanos{*nanos};
}

template <std::size_t N>
std::size_t read_choice(const YamlNode& node, std::string_view what,
                        const std::array<std::string_view, N>& choices, Problems& problems) {
  const auto found = std::ranges::find(choices, node.text);
  if (node.is_scalar() && found != choices.end()) {
    return static_cast<std::size_t>(found - choices.begin());
  }
  problems.push_back(
      {node.place, fmt::format("\"{}\" is one of {}, not {}{}", what, fmt::join(choices, ", "),
                               node.describe(), did_you_mean(node.text, choices))});
  return 0;
}

std::string read_text(const YamlNode& node, std::string_view what, Problems& problems) {
  if (node.is_scalar()) return node.text;
  problems.push_back({node.place, fmt::format("\"{}\" is a text, not {}", what, node.describe())});
  return {};
}

Instant read_epoch(const YamlNode* node, Problems& problems) {
  if (node == nullptr) return *parse_date(kDefaultEpoch);
  const auto date = node->is_scalar() ? parse_date(node->text) : std::nullopt;
  if (!date) {
    problems.push_back({node->place, fmt::format("\"epoch\" is a date like {} from 1970 to 2115, "
                                                 "not {}",
                                                 kDefaultEpoch, node->describe())});
  }
  return date.value_or(kEarliest);
}

// ---- Steps

// Reads the steps of one case, and tracks changes of its limits.
class StepReader {
 public:
  StepReader(const Case& test, Problems& problems)
      : limits_(test.limits),
        keyed_policy_(test.keyed_policy),
        epoch_(test.epoch),
        problems_(problems) {
    if (keyed_policy_) overrides_ = policy::PatternIndex(keyed_policy_->overrides);
  }

  std::optional<Step> read(const YamlNode& node) {
    const std::size_t before = problems_.size();
    if (!node.is_map()) {
      problems_.push_back({node.place, fmt::format("a step is a map like {{ at: 0, allowed: 1 }}, "
                                                   "not {}",
                                                   node.describe())});
      return std::nullopt;
    }
    check_fields(node, kStepFields, "a step", problems_);
    Step step{.place = node.place,
              .subject = {},
              .max_wait = {},
              .holder = {},
              .limit = {},
              .expected = {}};
    read_arrival(node, step);
    read_change(node, step);
    read_expected(node, step);
    check(node, step);
    if (problems_.size() > before) return std::nullopt;
    return step;
  }

 private:
  void read_arrival(const YamlNode& node, Step& step) {
    if (const YamlNode* op = node.find("op")) {
      step.op = static_cast<Op>(read_choice(*op, "op", kOps, problems_));
    }
    if (const YamlNode* at = node.find("at")) last_ = read_seconds(*at, "at", problems_);
    step.at = last_;
    const Instant t = later(epoch_, step.at);
    if (t < Instant{} || t > kLatest) {
      problems_.push_back({node.place, "a step must lie between 1970 and 2116"});
    }
    if (const YamlNode* n = node.find("n"))
      step.n = read_whole(*n, "n", 1, kMaxArrivals, problems_);
    if (const YamlNode* permits = node.find("permits")) {
      const Permits least = step.op == Op::settle ? -core::kMaxPermits : 0;
      step.permits = read_whole(*permits, "permits", least, core::kMaxPermits, problems_);
    }
    if (const YamlNode* wait = node.find("max_wait")) {
      const bool forever = wait->text == "inf" || wait->text == ".inf";
      step.max_wait = forever ? kForever : read_seconds(*wait, "max_wait", problems_);
    }
    if (const YamlNode* holder = node.find("holder")) {
      step.holder = read_text(*holder, "holder", problems_);
    }
    read_subject(node, step);
  }

  void read_subject(const YamlNode& node, Step& step) {
    const YamlNode* key = node.find("key");
    const YamlNode* parts = node.find("parts");
    if (key != nullptr && parts != nullptr) {
      problems_.push_back({parts->place, "a step has a key or parts, not both"});
    }
    step.subject.key = key != nullptr ? read_text(*key, "key", problems_) : "k";
    if (parts == nullptr) return;
    if (!parts->is_map() || parts->fields.empty()) {
      problems_.push_back({parts->place, "\"parts\" is a map like { user: alice, sku: 9 }"});
      return;
    }
    for (const YamlNode::Field& part : parts->fields) {
      step.subject.parts[part.name] = read_text(*part.value, part.name, problems_);
    }
  }

  void read_change(const YamlNode& node, Step& step) {
    const YamlNode* limit = node.find("limit");
    if (step.op != Op::set_limit) {
      if (limit != nullptr) {
        problems_.push_back({limit->place, "\"limit\" in a step goes with \"op: set_limit\""});
      }
      return;
    }
    if (limit == nullptr) {
      problems_.push_back({node.place, "set_limit needs the new limit: write limit: 20/s"});
      return;
    }
    if (keyed_policy_) {
      problems_.push_back({node.place,
                           "set_limit cannot change a policy that has overrides or a "
                           "schedule"});
      return;
    }
    auto changed = policy::read_limit(*limit, problems_);
    if (!changed) return;
    const auto position = position_of(*changed);
    if (!position) {
      problems_.push_back(
          {limit->place, "it is not clear which limit this replaces: give both the same name"});
      return;
    }
    step.limit_position = *position;
    adopt(*changed, limits_[*position], *limit);
    limits_[*position] = *changed;
    step.limit = *std::move(changed);
  }

  // Fields that the new limit does not set keep their values.
  static void adopt(policy::Limit& changed, const policy::Limit& old, const YamlNode& node) {
    if (changed.name.empty()) changed.name = old.name;
    const auto says = [&](std::string_view field) { return node.find(field) != nullptr; };
    if (!says("by")) changed.by = old.by;
    if (!says("cost")) changed.cost = old.cost;
    if (!says("scope")) changed.scope = old.scope;
    if (!says("shadow")) changed.shadow = old.shadow;
  }

  // The limit that is replaced: that of the same name, the only one, or the only one with that
  // algorithm.
  std::optional<std::size_t> position_of(const policy::Limit& changed) const {
    std::optional<std::size_t> found;
    std::size_t count = 0;
    for (std::size_t i = 0; i < limits_.size(); ++i) {
      const bool matches =
          !changed.name.empty() && !limits_[i].name.empty()
              ? limits_[i].name == changed.name
              : limits_.size() == 1 || policy::same_algorithm(limits_[i].limit, changed.limit);
      if (!matches) continue;
      found = i;
      ++count;
    }
    return count == 1 ? found : std::nullopt;
  }

  void read_expected(const YamlNode& node, Step& step) {
    Expected& expected = step.expected;
    if (const YamlNode* allowed = node.find("allowed")) {
      expected.allowed = read_whole(*allowed, "allowed", 0, kMaxArrivals, problems_);
    }
    if (const YamlNode* waits = node.find("waits")) expected.waits = read_waits(*waits);
    if (const YamlNode* remaining = node.find("remaining")) {
      expected.remaining = read_whole(*remaining, "remaining", 0, core::kMaxPermits, problems_);
    }
    if (const YamlNode* retry = node.find("retry_after")) {
      const bool never = retry->is_null() || retry->text == "-1";
      expected.retry_after = never ? core::kNever : read_seconds(*retry, "retry_after", problems_);
    }
    if (const YamlNode* reset = node.find("reset_after")) {
      expected.reset_after = read_seconds(*reset, "reset_after", problems_);
    }
    if (const YamlNode* outcome = node.find("outcome")) {
      expected.outcome =
          static_cast<core::Outcome>(read_choice(*outcome, "outcome", kOutcomes, problems_));
    }
    if (const YamlNode* limited_by = node.find("limited_by")) {
      expected.limited_by = read_text(*limited_by, "limited_by", problems_);
    }
  }

  std::vector<Nanos> read_waits(const YamlNode& node) {
    std::vector<Nanos> waits;
    if (!node.is_list()) {
      problems_.push_back({node.place, "\"waits\" is a list of seconds like [0, 0.2]"});
    }
    for (const auto& item : node.items) waits.push_back(read_seconds(*item, "waits", problems_));
    return waits;
  }

  void check(const YamlNode& node, const Step& step) {
    if (step.op == Op::leave && step.holder.empty()) {
      problems_.push_back(
          {node.place, "the holder is missing: write holder: NAME, as at its enter"});
    }
    if (step.op == Op::set_limit) return;
    const Parts parts = step.subject.borrowed_parts();
    if (parts.too_many()) {
      problems_.push_back({node.place, fmt::format("a key has at most {} parts", Parts::kMax)});
      return;
    }
    const policy::Subject subject{.key = step.subject.key, .parts = parts.all()};
    const std::vector<policy::Limit>& limits = limits_for(subject, step);
    const bool has_holders = std::ranges::any_of(limits, [](const policy::Limit& limit) {
      return std::holds_alternative<core::Concurrency>(limit.limit);
    });
    if (step.op == Op::take && has_holders) {
      problems_.push_back({node.place, "a concurrent limit is entered and left: write op: enter"});
    }
    std::string buffer;
    for (const policy::Limit& limit : limits) {
      const auto key = policy::key_of(subject, limit.by, buffer);
      if (!key) problems_.push_back({node.place, key.error().message});
    }
  }

  const std::vector<policy::Limit>& limits_for(const policy::Subject& subject,
                                               const Step& step) const {
    if (!keyed_policy_) return limits_;
    const auto own = overrides_.find(subject);
    return own ? keyed_policy_->overrides[*own].limits
               : policy::default_limits(*keyed_policy_, later(epoch_, step.at));
  }

  std::vector<policy::Limit> limits_;
  const std::optional<policy::Policy>& keyed_policy_;
  policy::PatternIndex overrides_;
  Instant epoch_;
  Nanos last_{0};
  Problems& problems_;
};

// ---- Cases

const policy::Policy* find_policy(const YamlNode& node, const policy::PolicySet* policies,
                                  Problems& problems) {
  if (policies == nullptr) {
    problems.push_back({node.place,
                        "\"policy\" names one of a policy file: give it with "
                        "--config weir.yaml"});
    return nullptr;
  }
  const auto found = policies->find(node.text);
  if (found != policies->end()) return &found->second;
  std::vector<std::string_view> names;
  for (const auto& [name, policy] : *policies) names.push_back(name);
  problems.push_back({node.place, fmt::format("the policy file has no policy {}{}", node.describe(),
                                              did_you_mean(node.text, names))});
  return nullptr;
}

void read_case_limits(const YamlNode& node, const policy::PolicySet* policies, Case& test,
                      Problems& problems) {
  const YamlNode* limit = node.find("limit");
  const YamlNode* limits = node.find("limits");
  const YamlNode* named = node.find("policy");
  if ((limit != nullptr) + (limits != nullptr) + (named != nullptr) != 1) {
    problems.push_back({node.place, "a case has one of limit, limits and policy"});
    return;
  }
  if (named == nullptr) {
    test.limits = policy::read_limits(limit != nullptr ? *limit : *limits, problems);
    return;
  }
  const policy::Policy* policy = find_policy(*named, policies, problems);
  if (policy == nullptr) return;
  test.limits = policy->limits;
  if (!policy->overrides.empty() || !policy->schedule.empty()) test.keyed_policy = *policy;
}

void check_start(const YamlNode& start, const Case& test, Problems& problems) {
  if (start.text != "empty" && start.text != "rest") {
    problems.push_back({start.place, "\"start\" is empty or rest"});
  }
  if (start.text == "empty" && test.keyed_policy) {
    problems.push_back({start.place,
                        "\"start: empty\" is not for a policy that has overrides or a "
                        "schedule"});
    return;
  }
  const bool can_be_empty = std::ranges::any_of(test.limits, [](const policy::Limit& limit) {
    const auto* smooth = std::get_if<core::Smooth>(&limit.limit);
    return smooth != nullptr && !smooth->warms_up();
  });
  if (start.text == "empty" && !can_be_empty && !test.limits.empty()) {
    problems.push_back({start.place,
                        "\"start: empty\" is for smooth limits: others start at rest "
                        "(a warming one is created cold)"});
  }
}

Case read_case(const YamlNode& node, std::size_t position, const policy::PolicySet* policies,
               Problems& problems) {
  Case test{
      .place = node.place, .name = fmt::format("case {}", position), .limits = {}, .steps = {}};
  if (!node.is_map()) {
    problems.push_back({node.place, fmt::format("a case is a map with a limit and steps, not {}",
                                                node.describe())});
    return test;
  }
  check_fields(node, kCaseFields, "a case", problems);
  if (const YamlNode* name = node.find("name")) test.name = read_text(*name, "name", problems);
  read_case_limits(node, policies, test, problems);
  test.epoch = read_epoch(node.find("epoch"), problems);
  if (const YamlNode* tolerance = node.find("tolerance")) {
    test.tolerance = read_seconds(*tolerance, "tolerance", problems);
  }
  if (const YamlNode* start = node.find("start")) {
    check_start(*start, test, problems);
    test.start_empty = start->text == "empty";
  }
  const YamlNode* steps = node.find("steps");
  if (steps == nullptr || !steps->is_list()) {
    problems.push_back({steps == nullptr ? node.place : steps->place,
                        "a case needs steps: a list like [ { at: 0, allowed: 1 } ]"});
    return test;
  }
  if (test.limits.empty()) return test;
  StepReader reader(test, problems);
  for (const auto& item : steps->items) {
    if (auto step = reader.read(*item)) test.steps.push_back(*std::move(step));
  }
  return test;
}

}  // namespace

std::vector<Case> read_cases(const policy::Source& source, const policy::PolicySet* policies,
                             Problems& problems) {
  const auto root = parse_yaml(source, problems);
  if (root == nullptr) return {};
  const YamlNode& file = *root;
  if (!file.is_list()) {
    problems.push_back({file.place, fmt::format("a file of timelines is a list of cases, not {}",
                                                file.describe())});
    return {};
  }
  std::vector<Case> cases;
  for (std::size_t i = 0; i < file.items.size(); ++i) {
    cases.push_back(read_case(*file.items[i], i + 1, policies, problems));
  }
  return cases;
}

}  // namespace weir::timeline
