#include "wire/json_write.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "wire/http1_response.h"

namespace weir::wire {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

bool is_plain(unsigned char c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

void append_escaped(std::string& out, char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += digits[static_cast<unsigned char>(c) >> 4];
      out += digits[static_cast<unsigned char>(c) & 15];
  }
}

// Appends what stands at the front of `text` and is not plain; how many bytes that was.
std::size_t append_special(std::string& out, std::string_view text) {
  if (static_cast<unsigned char>(text[0]) < 0x80) {
    append_escaped(out, text[0]);
    return 1;
  }
  const Utf8 character = first_character(text);
  out += character.whole ? text.substr(0, character.bytes) : kReplacement;
  return character.bytes;
}

void append_member(std::string& out, std::string_view name, std::int64_t number) {
  out += name;
  append_json_number(out, number);
}

void append_member(std::string& out, std::string_view name, std::string_view text) {
  out += name;
  append_json_string(out, text);
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain < text.size() && is_plain(static_cast<unsigned char>(text[plain]))) ++plain;
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (!text.empty()) text.remove_prefix(append_special(out, text));
  }
  out += '"';
}

void append_json_number(std::string& out, std::int64_t number) {
  const fmt::format_int digits(number);
  out.append(digits.data(), digits.size());
}

void append_verdict(std::string& out, const Verdict& verdict, const VerdictExtras& extras) {
  const Decision& decision = verdict.decision;
  out += decision ? R"({"allowed":true)" : R"({"allowed":false)";
  append_member(out, R"(,"limit":)", decision.limit);
  append_member(out, R"(,"remaining":)", decision.remaining);
  if (decision.outcome == Outcome::impossible || decision.retry_after == kNever) {
    out += R"(,"retry_after_ms":null)";
  } else {
    append_member(out, R"(,"retry_after_ms":)", millis_up(decision.retry_after));
  }
  append_member(out, R"(,"reset_after_ms":)", millis_up(decision.reset_after));
  append_member(out, R"(,"wait_ms":)", millis_up(decision.wait));
  append_member(out, R"(,"limited_by":)", verdict.limited_by);
  out += verdict.degraded ? R"(,"degraded":true)" : R"(,"degraded":false)";
  if (!extras.receipt.empty()) append_member(out, R"(,"receipt":)", extras.receipt);
  if (!extras.holder.empty()) append_member(out, R"(,"holder":)", extras.holder);
  out += '}';
}

void append_item_error(std::string& out, std::string_view error) {
  append_member(out, R"({"error":)", error);
  out += '}';
}

void append_problem(std::string& out, const Problem& problem) {
  append_member(out, R"({"type":)", problem.type);
  append_member(out, R"(,"title":)",
                problem.title.empty() ? status_text(problem.status) : problem.title);
  append_member(out, R"(,"status":)", std::int64_t{problem.status});
  append_member(out, R"(,"detail":)", problem.detail);
  if (!problem.field.empty()) append_member(out, R"(,"field":)", problem.field);
  std::string_view separator = R"(,"violated-policies":[)";
  for (const std::string_view policy : problem.violated_policies) {
    append_member(out, separator, policy);
    separator = ",";
  }
  out += problem.violated_policies.empty() ? "}" : "]}";
}

}  // namespace weir::wire
