#include "policy/policy_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "policy/limit_yaml.h"
#include "policy/schedule_yaml.h"
#include "policy/values.h"
#include "store/why_not_shareable.h"

namespace weir::policy {

namespace {

constexpr std::array<std::string_view, 6> kPolicy{"limits", "on_store_failure", "when_full",
                                                  "shadow", "overrides",        "schedule"};
constexpr std::array<std::string_view, 1> kOverride{"limits"};
constexpr std::array<std::string_view, 4> kShift{"days", "hours", "in", "limits"};

constexpr std::array<std::string_view, 3> kWhenFull{"share", "deny", "allow"};
constexpr std::array<std::string_view, 3> kSharedScopes{"fleet", "leased", "split"};
constexpr std::array<std::string_view, 3> kOnStoreFailure{"open", "closed", "local"};

void check_names(const YamlNode& limits, Problems& problems) {
  std::vector<std::string_view> names;
  for (const auto& limit : limits.items) {
    const YamlNode* name = limit->find("name");
    if (name == nullptr || !name->is_scalar()) continue;
    if (std::ranges::find(names, name->text) != names.end()) {
      problems.push_back({name->place, fmt::format("two limits have the name {}: choose another",
                                                   in_quotes(name->text))});
    }
    names.push_back(name->text);
  }
}

// Reads limits that are decided together, with a bound on their number.
std::vector<Limit> read_together(const YamlNode& node, Problems& problems) {
  std::vector<Limit> limits = read_limits(node, problems);
  if (limits.size() > 1) check_names(node, problems);
  return limits;
}

// The limits of an override: a limit, a list of limits, or a map with `limits:`.
const YamlNode& limits_in(const YamlNode& node) {
  const YamlNode* limits = node.is_map() ? node.find("limits") : nullptr;
  return limits != nullptr ? *limits : node;
}

// ---- Overrides

void check_pattern(const YamlNode::Field& field, Problems& problems) {
  const std::string_view text = field.name;
  if (text.empty()) {
    problems.push_back({field.place, "a key has at least one byte: write a key, or a start and *"});
  } else if (text.size() > kMaxKeyLength) {
    problems.push_back({field.place, fmt::format("a key of {} bytes is too long (at most {})",
                                                 text.size(), kMaxKeyLength)});
  } else if (const std::size_t star = text.find('*'); star < text.size() - 1) {
    problems.push_back({field.place, fmt::format("a star must be at the end: write {}",
                                                 in_quotes(text.substr(0, star + 1)))});
  }
}

std::vector<Override> read_overrides(const YamlNode& node, Problems& problems) {
  std::vector<Override> overrides;
  if (!node.is_map()) {
    problems.push_back({node.place, fmt::format("\"overrides\" is a map from keys, or their start "
                                                "and a star, to limits, not {}",
                                                node.describe())});
    return overrides;
  }
  for (const YamlNode::Field& field : node.fields) {
    check_pattern(field, problems);
    const YamlNode& limits = limits_in(*field.value);
    if (&limits != field.value.get()) {
      check_fields(*field.value, kOverride, "an override", problems);
    }
    overrides.push_back({Pattern::of(field.name), read_together(limits, problems)});
  }
  return overrides;
}

// ---- Schedule

Shift read_shift(const YamlNode& node, Problems& problems) {
  Shift shift;
  if (!node.is_map()) {
    problems.push_back({node.place, fmt::format("a schedule is a list of maps like {{ days: "
                                                "mon-fri, limits: [ 100/s ] }}, not of {}",
                                                node.describe())});
    return shift;
  }
  check_fields(node, kShift, "an entry of a schedule", problems);
  shift.hours = read_hours(node, problems);
  if (const YamlNode* limits = node.find("limits")) {
    shift.limits = read_together(*limits, problems);
  } else {
    problems.push_back({node.place, "the limits are missing: write limits: [ 100/s ]"});
  }
  return shift;
}

Schedule read_schedule(const YamlNode& node, Problems& problems) {
  Schedule schedule;
  if (!node.is_list() || node.items.empty()) {
    problems.push_back({node.place, fmt::format("\"schedule\" is a list of entries like {{ days: "
                                                "mon-fri, limits: [ 100/s ] }}, not {}",
                                                node.is_list() ? "empty" : node.describe())});
  }
  for (const auto& item : node.items) schedule.push_back(read_shift(*item, problems));
  return schedule;
}

// ---- The policy

void shadow_all(Policy& policy) {
  const auto shadow = [](std::vector<Limit>& limits) {
    for (Limit& limit : limits) limit.shadow = true;
  };
  shadow(policy.limits);
  for (Override& own : policy.overrides) shadow(own.limits);
  for (Shift& shift : policy.schedule) shadow(shift.limits);
}

void read_settings(const YamlNode& node, Policy& policy, Problems& problems) {
  if (const YamlNode* field = node.find("when_full")) {
    policy.when_full = static_cast<WhenFull>(read_word(*field, "when_full", kWhenFull, problems));
  }
  if (const YamlNode* field = node.find("on_store_failure")) {
    policy.on_store_failure = static_cast<OnStoreFailure>(
        read_word(*field, "on_store_failure", kOnStoreFailure, problems));
  }
  if (const YamlNode* field = node.find("shadow"); field && read_bool(*field, "shadow", problems)) {
    shadow_all(policy);
  }
}

// ---- Scopes

const YamlNode* scope_of(const YamlNode& limit) {
  const YamlNode* scope = limit.is_map() ? limit.find("scope") : nullptr;
  return scope != nullptr && scope->is_scalar() ? scope : nullptr;
}

// (An unknown scope is reported elsewhere.)
void check_scope(const YamlNode& scope, Sharing sharing, Problems& problems) {
  const bool shared = std::ranges::find(kSharedScopes, scope.text) != kSharedScopes.end();
  if (shared && sharing == Sharing::none) {
    problems.push_back({scope.place, fmt::format("scope {} needs a store that nodes share: write "
                                                 "store: redis://127.0.0.1:6379, or scope: node",
                                                 scope.text)});
  }
}

// Reports combinations of scopes that cannot be decided atomically. A holder enters all concurrent
// limits of a policy or none, and a renewal must find its permits: that takes a single store.
void check_together(const YamlNode& limits, Sharing sharing, Problems& problems) {
  Problems told_before;
  const std::vector<Limit> read = read_limits(limits, told_before);
  for (std::size_t i = 0; told_before.empty() && i < read.size(); ++i) {
    const SourcePosition place = i < limits.items.size() ? limits.items[i]->place : limits.place;
    if (sharing == Sharing::fleet && read[i].scope == Scope::split &&
        !core::can_be_split(read[i].limit)) {
      problems.push_back({place,
                          "this kind of limit cannot be split among nodes, only buckets, queues, "
                          "windows and quotas can: write scope: fleet or scope: node"});
    }
    if (!is_shared(read[i], sharing)) continue;
    if (const auto flaw = store::why_not_shareable(read[i].limit)) {
      problems.push_back({place, *flaw + ", or write scope: node"});
    } else if (read[i].scope == Scope::leased) {
      if (auto why = store::why_not_leasable(read[i].limit)) problems.push_back({place, *why});
    }
  }
  const auto is_concurrent = [](const Limit& limit) {
    return std::holds_alternative<core::Concurrency>(limit.limit);
  };
  const auto shared = [&](const Limit& limit) {
    return is_shared(limit, sharing) && limit.scope != Scope::leased;
  };
  const auto count = static_cast<std::size_t>(std::ranges::count_if(read, shared));
  if (count == 0 || count == read.size() || std::ranges::none_of(read, is_concurrent)) return;
  problems.push_back(
      {limits.place,
       "all limits beside a concurrent limit need its scope: write the same scope for all"});
}

void check_scopes_of(const YamlNode& limits, Sharing sharing, Problems& problems) {
  if (const YamlNode* scope = scope_of(limits)) check_scope(*scope, sharing, problems);
  for (const auto& item : limits.items) {
    if (const YamlNode* scope = scope_of(*item)) check_scope(*scope, sharing, problems);
  }
  check_together(limits, sharing, problems);
}

}  // namespace

Policy read_policy(const YamlNode& node, Problems& problems) {
  Policy policy;
  if (!node.is_map()) {
    problems.push_back(
        {node.place, fmt::format("a policy is a map with limits, not {}", node.describe())});
    return policy;
  }
  check_fields(node, kPolicy, "a policy", problems);
  if (const YamlNode* limits = node.find("limits")) {
    policy.limits = read_together(*limits, problems);
  } else {
    problems.push_back({node.place, "a policy needs limits: write limits: [ 100/s ]"});
  }
  if (const YamlNode* overrides = node.find("overrides")) {
    policy.overrides = read_overrides(*overrides, problems);
  }
  if (const YamlNode* schedule = node.find("schedule")) {
    policy.schedule = read_schedule(*schedule, problems);
  }
  read_settings(node, policy, problems);
  return policy;
}

void check_scopes(const YamlNode& node, Sharing sharing, Problems& problems) {
  if (const YamlNode* limits = node.find("limits")) check_scopes_of(*limits, sharing, problems);
  if (const YamlNode* overrides = node.find("overrides")) {
    for (const YamlNode::Field& field : overrides->fields) {
      check_scopes_of(limits_in(*field.value), sharing, problems);
    }
  }
  const YamlNode* schedule = node.find("schedule");
  if (schedule == nullptr) return;
  for (const auto& item : schedule->items) {
    if (const YamlNode* limits = item->find("limits")) check_scopes_of(*limits, sharing, problems);
  }
}

std::string_view to_text(WhenFull when_full) {
  return kWhenFull[static_cast<std::size_t>(when_full)];
}

}  // namespace weir::policy
