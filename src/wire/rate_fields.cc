#include "wire/rate_fields.h"

#include <algorithm>

#include "base/saturating.h"
#include "wire/json_write.h"
#include "wire/text_writer.h"

namespace weir::wire {

namespace {

// A Structured Field integer has up to 15 digits.
std::int64_t integer(std::int64_t number) {
  constexpr std::int64_t largest = 999'999'999'999'999;
  return std::clamp<std::int64_t>(number, 0, largest);
}

bool is_plain_in_field(char c) { return c >= 0x20 && c <= 0x7e && c != '"' && c != '\\'; }

void write_special(TextWriter& writer, char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (c == '"' || c == '\\') {
    writer.text("\\").text({&c, 1});
  } else {
    writer.text("%").text(digits.substr(byte >> 4, 1)).text(digits.substr(byte & 15, 1));
  }
}

// A Structured Field string holds printable ASCII only: other bytes are percent-encoded, so that
// different names stay different and nobody ends a line from within one.
void write_field_string(TextWriter& writer, std::string_view text) {
  writer.text("\"");
  while (!text.empty()) {
    const auto special = std::ranges::find_if_not(text, is_plain_in_field);
    const auto plain = static_cast<std::size_t>(special - text.begin());
    writer.text(text.substr(0, plain));
    if (special != text.end()) write_special(writer, *special);
    text.remove_prefix(std::min(plain + 1, text.size()));
  }
  writer.text("\"");
}

bool passes_later(const Decision& decision) {
  return decision.outcome == Outcome::limited && decision.retry_after != kNever;
}

// When there will be more: for who was refused, when it is enough. Never later than Retry-After.
Nanos more_after(const Decision& decision) {
  return passes_later(decision) ? decision.retry_after : decision.reset_after;
}

void write_rate_limit(TextWriter& writer, std::string_view name, const Decision& decision) {
  writer.text("RateLimit: ");
  write_field_string(writer, name);
  writer.text(";r=").number(integer(decision.remaining));
  writer.text(";t=").number(integer(seconds_up(more_after(decision)))).text("\r\n");
}

void write_legacy(TextWriter& writer, const Decision& decision, const LegacyHeaders& legacy,
                  Instant now) {
  const Instant reset = later(legacy.reset_is_date ? now : Instant{}, decision.reset_after);
  const auto write = [&](std::string_view name, std::int64_t number) {
    writer.text(name).text(": ").number(integer(number)).text("\r\n");
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
  if (policies.empty()) return;  // a list of none is not sent
  TextWriter writer(out);
  std::string_view separator = "RateLimit-Policy: ";
  for (const QuotaPolicy& policy : policies) {
    writer.text(separator);
    write_field_string(writer, policy.name);
    writer.text(";q=").number(integer(policy.quota));
    if (policy.concurrent) writer.text(";qu=\"concurrent-requests\"");
    if (policy.window && *policy.window > Nanos{0}) {
      writer.text(";w=").number(integer(seconds_up(*policy.window)));
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
  if (!passes_later(decision)) return;
  const std::int64_t seconds = std::max<std::int64_t>(1, seconds_up(decision.retry_after));
  TextWriter(out).text("Retry-After: ").number(integer(seconds)).text("\r\n");
}

void append_wait(std::string& out, const Decision& decision) {
  if (!decision || decision.wait <= Nanos{0}) return;
  TextWriter(out).text("Weir-Wait-Ms: ").number(millis_up(decision.wait)).text("\r\n");
}

}  // namespace weir::wire
