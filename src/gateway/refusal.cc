#include "gateway/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/ascii.h"
#include "wire/json_write.h"

namespace weir::gateway {

namespace {

void append_line(std::string& fields, std::string_view name, std::string_view value) {
  fields.append(name).append(": ").append(value).append("\r\n");
}

// No limit has said no: none could be asked.
bool for_the_store(const Verdict& verdict) { return verdict.degraded && verdict.refusing == 0; }

std::string why(const Verdict& verdict) {
  if (verdict.blocked) return "an operator has blocked these calls";
  if (for_the_store(verdict)) return "the store of this limit cannot be asked";
  const Decision& decision = verdict.decision;
  if (decision.outcome == Outcome::impossible) {
    return fmt::format("this call costs more than the limit {} ever admits at once",
                       verdict.limited_by);
  }
  const std::int64_t seconds = std::max<std::int64_t>(1, wire::seconds_up(decision.retry_after));
  return fmt::format("the limit {} admits this call in {} second{}", verdict.limited_by, seconds,
                     seconds == 1 ? "" : "s");
}

// The names of limits are those of the policy file: nothing that a stranger has chosen.
std::string problem_of(int status, const Verdict& verdict) {
  const std::string detail = why(verdict);
  // As in RateLimit-Policy, which an operator's block is not in.
  const std::string_view limit = verdict.limited_by;
  const bool stores = for_the_store(verdict);
  const bool violates = !stores && !verdict.blocked && !limit.empty();
  std::string body;
  wire::append_problem(body,
                       {.status = status,
                        .detail = detail,
                        .type = stores ? wire::kTemporaryReducedCapacity : wire::kQuotaExceeded,
                        .title = stores ? "Service temporarily reduced" : "Quota exceeded",
                        .violated_policies = {&limit, violates ? 1u : 0u}});
  return body;
}

// ---- Bodies of the configuration

std::string json_escaped(std::string_view text) {
  std::string quoted;
  wire::append_json_string(quoted, text);
  return quoted.substr(1, quoted.size() - 2);
}

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string escaped_for(std::string_view content_type, std::string_view text) {
  const std::string type = lowered(content_type.substr(0, content_type.find(';')));
  if (type.find("json") != std::string::npos) return json_escaped(text);
  if (type.find("html") != std::string::npos || type.find("xml") != std::string::npos) {
    return html_escaped(text);
  }
  return std::string{text};
}

// As in the header; -1 if waiting does not help.
std::string retry_seconds(const Decision& decision) {
  if (decision.outcome == Outcome::impossible) return "-1";
  return std::to_string(std::max<std::int64_t>(1, wire::seconds_up(decision.retry_after)));
}

std::string filled_in(const Refused& refused, std::string_view policy, const Verdict& verdict) {
  std::string_view body = *refused.body;
  const std::array<std::pair<std::string_view, std::string>, 3> values{
      {{"{limited_by}", escaped_for(refused.content_type, verdict.limited_by)},
       {"{policy}", escaped_for(refused.content_type, policy)},
       {"{retry_after}", retry_seconds(verdict.decision)}}};
  std::string out;
  while (!body.empty()) {
    const auto value = std::ranges::find_if(
        values, [&](const auto& each) { return body.starts_with(each.first); });
    if (value != values.end()) {
      out += value->second;
      body.remove_prefix(value->first.size());
    } else {
      const std::size_t next = std::min(body.find('{', 1), body.size());
      out += body.substr(0, next);
      body.remove_prefix(next);
    }
  }
  return out;
}

bool says(const Refused& refused, std::string_view name) {
  return std::ranges::any_of(refused.headers, [&](const HeaderLine& line) {
    return same_ignoring_case(line.first, name);
  });
}

void append_own_fields(const Refused& refused, Answer& answer) {
  for (const auto& [name, value] : refused.headers) append_line(answer.fields, name, value);
  if (!refused.redirect.empty()) append_line(answer.fields, "Location", refused.redirect);
}

}  // namespace

RateLines::RateLines(const policy::PolicySet& policies, LegacyHeaders legacy)
    : legacy_(std::move(legacy)) {
  for (const auto& [name, policy] : policies) {
    Lines& lines = by_policy_[name];
    lines.grants = policy::grants_of(policy);
    lines.held = policy::names_of_held(policy);
    lines.nobody_counts = policy.on_store_failure != policy::OnStoreFailure::local;
    const bool same_for_all =
        policy.overrides.empty() && policy.schedule.empty() && policy.orders.empty();
    if (!same_for_all) continue;
    std::vector<wire::QuotaPolicy> limits;
    for (const policy::Grant& grant : lines.grants) {
      limits.push_back({.name = grant.name,
                        .quota = grant.capacity,
                        .window = grant.window,
                        .concurrent = grant.is_held});
    }
    wire::append_policy_field(lines.policy_field, limits);
  }
}

void RateLines::append(std::string& out, HeaderStyle style, std::string_view policy,
                       const Verdict& verdict, Permits asked) const {
  if (verdict.degraded) append_line(out, "Weir-Degraded", "1");
  const auto found = by_policy_.find(policy);
  if (style == HeaderStyle::off || found == by_policy_.end()) return;
  const Lines& lines = found->second;
  if (style == HeaderStyle::scg) return append_scg(out, lines, verdict, asked);
  std::string only_this;
  if (lines.policy_field.empty()) {
    const wire::QuotaPolicy deciding{.name = verdict.limited_by,
                                     .quota = verdict.decision.limit,
                                     .concurrent = lines.held.contains(verdict.limited_by)};
    wire::append_policy_field(only_this, {&deciding, 1});
  }
  const Instant now = legacy_.reset_is_date ? std::chrono::system_clock::now() : Instant{};
  wire::append_rate_fields(out, style, only_this.empty() ? lines.policy_field : only_this,
                           verdict.limited_by, verdict.decision, legacy_, now);
}

void RateLines::append_scg(std::string& out, const Lines& lines, const Verdict& verdict,
                           Permits asked) {
  const auto tightest = std::ranges::find(lines.grants, verdict.limited_by, &policy::Grant::name);
  const policy::Grant grant = tightest != lines.grants.end() ? *tightest
                              : lines.grants.empty()         ? policy::Grant{}
                                                             : lines.grants.front();
  const bool unknown = verdict.degraded && lines.nobody_counts;
  // (An override may have another capacity: the decision knows.)
  const Permits burst = verdict.decision.limit > 0 ? verdict.decision.limit : grant.capacity;
  wire::append_scg_fields(
      out, {.remaining = unknown ? -1 : std::max<Permits>(0, verdict.decision.remaining),
            .requested = grant.cost.of(asked),
            .burst = burst,
            .rate = grant.per_second});
}

const Refused& refused_by(const Route& route, const Verdict& verdict) {
  const auto& by_limit = route.refused.by_limit;
  const auto own = for_the_store(verdict) ? by_limit.end() : by_limit.find(verdict.limited_by);
  return own == by_limit.end() ? route.refused : *own->second;
}

Answer refuse(const Route& route, const RateLines& lines, const Verdict& verdict, Permits asked) {
  const Refused& refused = refused_by(route, verdict);
  const bool unavailable = for_the_store(verdict) && refused.redirect.empty();
  const int status = unavailable ? 503 : refused.status;
  Answer answer{.status = status};
  if (refused.body) {
    if (!refused.body->empty()) append_line(answer.fields, "Content-Type", refused.content_type);
    answer.body = filled_in(refused, route.policy, verdict);
  } else if (refused.redirect.empty()) {
    append_line(answer.fields, "Content-Type", wire::kProblemJson);
    answer.body = problem_of(status, verdict);
  }
  if (!says(refused, "Cache-Control")) append_line(answer.fields, "Cache-Control", "no-store");
  append_own_fields(refused, answer);
  lines.append(answer.fields, route.headers, route.policy, verdict, asked);
  if (!says(refused, "Retry-After")) wire::append_retry_after(answer.fields, verdict.decision);
  return answer;
}

Answer deny_empty_key(const Route& route, std::string_view missing) {
  const std::string detail =
      "the " + std::string{missing} + " is missing or empty, and this route limits requests by it";
  return problem(route.empty_key.deny.value_or(403), detail);
}

Answer problem(int status, std::string_view detail) {
  Answer answer{.status = status};
  append_line(answer.fields, "Content-Type", wire::kProblemJson);
  wire::append_problem(answer.body, {.status = status, .detail = detail});
  return answer;
}

}  // namespace weir::gateway
