#include "gateway/deny_reply.h"

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

// True if the store was unreachable and no limit has refused.
bool store_is_down(const Verdict& verdict) { return verdict.degraded && verdict.refusing == 0; }

std::string reason_of(const Verdict& verdict) {
  if (verdict.blocked) return "an operator has blocked these calls";
  if (store_is_down(verdict)) return "the store of this limit is unreachable";
  const Decision& decision = verdict.decision;
  if (decision.outcome == Outcome::impossible) {
    return fmt::format("this call costs more than the limit {} ever admits at once",
                       verdict.limited_by);
  }
  const std::int64_t seconds = std::max<std::int64_t>(1, wire::seconds_up(decision.retry_after));
  return fmt::format("the limit {} admits this call in {} second{}", verdict.limited_by, seconds,
                     seconds == 1 ? "" : "s");
}

// Limit names come from the policy file, never from the client.
std::string problem_body(int status, const Verdict& verdict) {
  const std::string detail = reason_of(verdict);
  // As in RateLimit-Policy, which does not list an operator's block.
  const std::string_view limit = verdict.limited_by;
  const bool store_down = store_is_down(verdict);
  const bool violates = !store_down && !verdict.blocked && !limit.empty();
  std::string body;
  wire::append_problem(body,
                       {.status = status,
                        .detail = detail,
                        .type = store_down ? wire::kTemporaryReducedCapacity : wire::kQuotaExceeded,
                        .title = store_down ? "Service temporarily reduced" : "Quota exceeded",
                        .violated_policies = {&limit, violates ? 1u : 0u}});
  return body;
}

// ---- Bodies from the configuration

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

// As in Retry-After; -1 if waiting does not help.
std::string retry_seconds(const Decision& decision) {
  if (decision.outcome == Outcome::impossible) return "-1";
  return std::to_string(std::max<std::int64_t>(1, wire::seconds_up(decision.retry_after)));
}

std::string fill_placeholders(const RefusalConfig& refused, std::string_view policy,
                              const Verdict& verdict) {
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

bool has_header(const RefusalConfig& refused, std::string_view name) {
  return std::ranges::any_of(refused.headers, [&](const HeaderLine& line) {
    return same_ignoring_case(line.first, name);
  });
}

void append_configured_fields(const RefusalConfig& refused, LocalReply& reply) {
  for (const auto& [name, value] : refused.headers) append_line(reply.fields, name, value);
  if (!refused.redirect.empty()) append_line(reply.fields, "Location", refused.redirect);
}

}  // namespace

RateLimitHeaders::RateLimitHeaders(const policy::PolicySet& policies, wire::LegacyHeaders legacy)
    : legacy_(std::move(legacy)) {
  for (const auto& [name, policy] : policies) {
    PolicyHeaders& headers = by_policy_[name];
    headers.grants = policy::grants_of(policy);
    headers.concurrency_limits = policy::concurrent_limit_names(policy);
    headers.uncounted_if_down = policy.on_store_failure != policy::OnStoreFailure::local;
    const bool same_for_all =
        policy.overrides.empty() && policy.schedule.empty() && policy.orders.empty();
    if (!same_for_all) continue;
    std::vector<wire::QuotaPolicy> limits;
    for (const policy::Grant& grant : headers.grants) {
      limits.push_back({.name = grant.name,
                        .quota = grant.capacity,
                        .window = grant.window,
                        .concurrent = grant.is_concurrent});
    }
    wire::append_policy_field(headers.policy_field, limits);
  }
}

void RateLimitHeaders::append(std::string& out, wire::HeaderStyle style, std::string_view policy,
                              const Verdict& verdict, Permits permits) const {
  if (verdict.degraded) append_line(out, "Weir-Degraded", "1");
  const auto found = by_policy_.find(policy);
  if (style == wire::HeaderStyle::off || found == by_policy_.end()) return;
  const PolicyHeaders& headers = found->second;
  if (style == wire::HeaderStyle::scg) return append_scg(out, headers, verdict, permits);
  std::string deciding_policy;
  if (headers.policy_field.empty()) {
    const wire::QuotaPolicy deciding{
        .name = verdict.limited_by,
        .quota = verdict.decision.limit,
        .concurrent = headers.concurrency_limits.contains(verdict.limited_by)};
    wire::append_policy_field(deciding_policy, {&deciding, 1});
  }
  const Instant now = legacy_.reset_is_date ? std::chrono::system_clock::now() : Instant{};
  wire::append_rate_fields(out, style,
                           deciding_policy.empty() ? headers.policy_field : deciding_policy,
                           verdict.limited_by, verdict.decision, legacy_, now);
}

void RateLimitHeaders::append_scg(std::string& out, const PolicyHeaders& headers,
                                  const Verdict& verdict, Permits permits) {
  const auto tightest = std::ranges::find(headers.grants, verdict.limited_by, &policy::Grant::name);
  const policy::Grant grant = tightest != headers.grants.end() ? *tightest
                              : headers.grants.empty()         ? policy::Grant{}
                                                               : headers.grants.front();
  const bool unknown = verdict.degraded && headers.uncounted_if_down;
  // The verdict has the capacity that was in force: an override may differ from the policy.
  const Permits burst = verdict.decision.limit > 0 ? verdict.decision.limit : grant.capacity;
  wire::append_scg_fields(
      out, {.remaining = unknown ? -1 : std::max<Permits>(0, verdict.decision.remaining),
            .requested = grant.cost.of(permits),
            .burst = burst,
            .rate = grant.per_second});
}

const RefusalConfig& refusal_for(const RouteConfig& route, const Verdict& verdict) {
  const auto& by_limit = route.refused.by_limit;
  const auto own = store_is_down(verdict) ? by_limit.end() : by_limit.find(verdict.limited_by);
  return own == by_limit.end() ? route.refused : *own->second;
}

LocalReply deny_reply(const RouteConfig& route, const RateLimitHeaders& headers,
                      const Verdict& verdict, Permits permits) {
  const RefusalConfig& refused = refusal_for(route, verdict);
  const bool unavailable = store_is_down(verdict) && refused.redirect.empty();
  const int status = unavailable ? 503 : refused.status;
  LocalReply reply{.status = status};
  if (refused.body) {
    if (!refused.body->empty()) append_line(reply.fields, "Content-Type", refused.content_type);
    reply.body = fill_placeholders(refused, route.policy, verdict);
  } else if (refused.redirect.empty()) {
    append_line(reply.fields, "Content-Type", wire::kProblemJson);
    reply.body = problem_body(status, verdict);
  }
  if (!has_header(refused, "Cache-Control")) append_line(reply.fields, "Cache-Control", "no-store");
  append_configured_fields(refused, reply);
  headers.append(reply.fields, route.headers, route.policy, verdict, permits);
  if (!has_header(refused, "Retry-After")) wire::append_retry_after(reply.fields, verdict.decision);
  return reply;
}

LocalReply empty_key_reply(const RouteConfig& route, std::string_view missing) {
  const std::string detail =
      "the " + std::string{missing} + " is missing or empty, and this route limits requests by it";
  return problem_reply(route.empty_key.deny.value_or(403), detail);
}

LocalReply problem_reply(int status, std::string_view detail) {
  LocalReply reply{.status = status};
  append_line(reply.fields, "Content-Type", wire::kProblemJson);
  wire::append_problem(reply.body, {.status = status, .detail = detail});
  return reply;
}

}  // namespace weir::gateway
