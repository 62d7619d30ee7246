#include "wire/json_write.h"

#include <fmt/format.h>

#include "wire/http1_response.h"

namespace weir::wire {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

bool is_plain(unsigned char c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

bool continues(std::string_view text, std::size_t i) {
  return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
}

// What the byte behind the first may be, so that nothing is written longer than it needs to be, is
// a surrogate or lies beyond Unicode.
bool second_fits(unsigned char first, unsigned char second) {
  switch (first) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second < 0xa0;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second < 0x90;
    default:
      return true;
  }
}

std::size_t length_by(unsigned char first) {
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

// A character of several bytes at the front of `text`.
struct Character {
  std::size_t bytes;  // that belong together
  bool whole;         // or the start of one, to be replaced
};
Character character_at(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = length_by(first);
  if (length == 0 || !continues(text, 1)) return {1, false};
  if (!second_fits(first, static_cast<unsigned char>(text[1]))) return {1, false};
  std::size_t bytes = 2;
  while (bytes < length && continues(text, bytes)) ++bytes;
  return {bytes, bytes == length};
}

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
  const Character character = character_at(text);
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

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const bool ascii = static_cast<unsigned char>(text[0]) < 0x80;
    const Character character = ascii ? Character{1, true} : character_at(text);
    if (!character.whole) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

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
