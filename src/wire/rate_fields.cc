#include "wire/rate_fields.h"

#include <algorithm>

#include "base/saturating.h"
#include "wire/json_write.h"
#include "wire/text_writer.h"

namespace weir::wire {

namespace {

// A Structured Field sf_integer has up to 15 digits.
std::int64_t sf_integer(std::int64_t number) {
  constexpr std::int64_t largest = 999'999'999'999'999;
  return std::clamp<std::int64_t>(number, 0, largest);
}

bool is_unescaped(char c) { return c >= 0x20 && c <= 0x7e && c != '"' && c != '\\'; }

void write_escaped(TextWriter& writer, char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (c == '"' || c == '\\') {
    writer.text("\\").text({&c, 1});
  } else {
    writer.text("%").text(digits.substr(byte >> 4, 1)).text(digits.substr(byte & 15, 1));
  }
}

// A Structured Field string holds printable ASCII only. Other bytes are percent-encoded, so that
// different names stay different and no name can end the line (response splitting).
void write_field_string(TextWriter& writer, std::string_view text) {
  writer.text("\"");
  while (!text.empty()) {
    const auto escaped = std::ranges::find_if_not(text, is_unescaped);
    const auto unescaped = static_cast<std::size_t>(escaped - text.begin());
    writer.text(text.substr(0, unescaped));
    if (escaped != text.end()) write_escaped(writer, *escaped);
    text.remove_prefix(std::min(unescaped + 1, text.size()));
  }
  writer.text("\"");
}

bool is_retryable(const Decision& decision) {
  return decision.outcome == Outcome::limited && decision.retry_after != kNever;
}

// When more quota is available; after a refusal, when there is enough for the call. Never later
// than Retry-After.
Nanos more_quota_after(const Decision& decision) {
  return is_retryable(decision) ? decision.retry_after : decision.reset_after;
}

void write_rate_limit(TextWriter& writer, std::string_view name, const Decision& decision) {
  writer.text("RateLimit: ");
  write_field_string(writer, name);
  writer.text(";r=").number(sf_integer(decision.remaining));
  writer.text(";t=").number(sf_integer(seconds_up(more_quota_after(decision)))).text("\r\n");
}

void write_legacy(TextWriter& writer, const Decision& decision, const LegacyHeaders& legacy,
                  Instant now) {
  const Instant reset = later(legacy.reset_is_date ? now : Instant{}, decision.reset_after);
  const auto write = [&](std::string_view name, std::int64_t number) {
    writer.text(name).text(": ").number(sf_integer(number)).text("\r\n");
  };
  write(legacy.names.limit, decision.limit);
  write(legacy.names.remaining, decision.remaining);
  write(legacy.names.reset, seconds_up(reset.time_since_epoch()));
}

}  // namespace

std::int64_t seconds_up(Nanos duration) {
  constexpr std::int64_t second = 1'000'000'000;
  const std::int64_t whole = duration.count() / second;
  return duration.count() % second > 0 ? whole + 1 : whole;
}

void append_policy_field(std::string& out, std::span<const QuotaPolicy> policies) {
  if (policies.empty()) return;  // an empty list is not a valid field
  TextWriter writer(out);
  std::string_view separator = "RateLimit-Policy: ";
  for (const QuotaPolicy& policy : policies) {
    writer.text(separator);
    write_field_string(writer, policy.name);
    writer.text(";q=").number(sf_integer(policy.quota));
    if (policy.concurrent) writer.text(";qu=\"concurrent-requests\"");
    if (policy.window && *policy.window > Nanos{0}) {
      writer.text(";w=").number(sf_integer(seconds_up(*policy.window)));
    }
    separator = ", ";
  }
  writer.text("\r\n");
}

void append_rate_fields(std::string& out, HeaderStyle style, std::string_view policy_field,
                        std::string_view name, const Decision& decision,
                        const LegacyHeaders& legacy, Instant now) {
  TextWriter writer(out);
  if (style == HeaderStyle::ietf || style == HeaderStyle::both) {
    writer.text(policy_field);
    write_rate_limit(writer, name, decision);
  }
  if (style == HeaderStyle::legacy || style == HeaderStyle::both) {
    write_legacy(writer, decision, legacy, now);
  }
}

void append_scg_fields(std::string& out, const ScgFields& fields) {
  TextWriter writer(out);
  writer.text("X-RateLimit-Remaining: ").number(fields.remaining);
  writer.text("\r\nX-RateLimit-Requested-Tokens: ").number(fields.requested);
  writer.text("\r\nX-RateLimit-Burst-Capacity: ").number(fields.burst);
  writer.text("\r\nX-RateLimit-Replenish-Rate: ").number(fields.rate).text("\r\n");
}

void append_retry_after(std::string& out, const Decision& decision) {
  if (!is_retryable(decision)) return;
  const std::int64_t seconds = std::max<std::int64_t>(1, seconds_up(decision.retry_after));
  TextWriter(out).text("Retry-After: ").number(sf_integer(seconds)).text("\r\n");
}

void append_wait(std::string& out, const Decision& decision) {
  if (!decision || decision.wait <= Nanos{0}) return;
  TextWriter(out).text("Weir-Wait-Ms: ").number(millis_up(decision.wait)).text("\r\n");
}

}  // namespace weir::wire
