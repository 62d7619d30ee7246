#include "wire/rate_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::wire {

namespace {

// A Structured Field integer has up to 15 digits.
constexpr std::int64_t kLargestInteger = 999'999'999'999'999;

void append_number(std::string& out, std::int64_t number) {
  const fmt::format_int digits(std::clamp<std::int64_t>(number, 0, kLargestInteger));
  out.append(digits.data(), digits.size());
}

void append_parameter(std::string& out, std::string_view name, std::int64_t value) {
  out.append(";").append(name).append("=");
  append_number(out, value);
}

void append_line(std::string& out, std::string_view name, std::int64_t value) {
  out.append(name).append(": ");
  append_number(out, value);
  out += "\r\n";
}

// A Structured Field string holds printable ASCII only: other bytes are percent-encoded, so that
// different names stay different and nobody ends a line from within one.
void append_string(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e) {
      out += '%';
      out += digits[byte >> 4];
      out += digits[byte & 15];
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

void append_policies(std::string& out, std::span<const QuotaPolicy> policies) {
  if (policies.empty()) return;  // a list of none is not sent
  std::string_view separator = "RateLimit-Policy: ";
  for (const QuotaPolicy& policy : policies) {
    out += separator;
    append_string(out, policy.name);
    append_parameter(out, "q", policy.quota);
    if (policy.window && *policy.window > Nanos{0}) {
      append_parameter(out, "w", seconds_up(*policy.window));
    }
    separator = ", ";
  }
  out += "\r\n";
}

bool passes_later(const Decision& decision) {
  return decision.outcome == Outcome::limited && decision.retry_after != kNever;
}

// When there will be more: for who was refused, when it is enough. Never later than Retry-After.
Nanos more_after(const Decision& decision) {
  return passes_later(decision) ? decision.retry_after : decision.reset_after;
}

void append_rate_limit(std::string& out, std::string_view name, const Decision& decision) {
  out += "RateLimit: ";
  append_string(out, name);
  append_parameter(out, "r", decision.remaining);
  append_parameter(out, "t", seconds_up(more_after(decision)));
  out += "\r\n";
}

void append_legacy(std::string& out, const Decision& decision) {
  append_line(out, "X-RateLimit-Limit", decision.limit);
  append_line(out, "X-RateLimit-Remaining", decision.remaining);
  append_line(out, "X-RateLimit-Reset", seconds_up(decision.reset_after));
}

}  // namespace

std::int64_t seconds_up(Nanos duration) {
  constexpr std::int64_t second = 1'000'000'000;
  const std::int64_t whole = duration.count() / second;
  return duration.count() % second > 0 ? whole + 1 : whole;
}

void append_rate_fields(std::string& out, RateFieldStyle style,
                        std::span<const QuotaPolicy> policies, std::string_view name,
                        const Decision& decision) {
  if (style == RateFieldStyle::ietf || style == RateFieldStyle::both) {
    append_policies(out, policies);
    append_rate_limit(out, name, decision);
  }
  if (style == RateFieldStyle::legacy || style == RateFieldStyle::both) {
    append_legacy(out, decision);
  }
}

void append_retry_after(std::string& out, const Decision& decision) {
  if (!passes_later(decision)) return;
  append_line(out, "Retry-After", std::max<std::int64_t>(1, seconds_up(decision.retry_after)));
}

}  // namespace weir::wire
