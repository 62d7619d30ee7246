#include "wire/json_write.h"

#include <algorithm>

#include "wire/http1_response.h"
#include "wire/text_writer.h"

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

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return is_plain(static_cast<unsigned char>(c)); });
}

void write_string(TextWriter& writer, std::string_view text) {
  if (is_plain(text)) {
    writer.text("\"").text(text).text("\"");
  } else {
    append_json_string(writer.flush(), text);
  }
}

void write_member(TextWriter& writer, std::string_view name, std::string_view text) {
  writer.text(name);
  write_string(writer, text);
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

void append_verdict(std::string& out, const Verdict& verdict, const VerdictExtras& extras) {
  const Decision& decision = verdict.decision;
  TextWriter writer(out);
  writer.text(decision ? R"({"allowed":true,"limit":)" : R"({"allowed":false,"limit":)");
  writer.number(decision.limit);
  writer.text(R"(,"remaining":)").number(decision.remaining);
  if (decision.outcome == Outcome::impossible || decision.retry_after == kNever) {
    writer.text(R"(,"retry_after_ms":null)");
  } else {
    writer.text(R"(,"retry_after_ms":)").number(millis_up(decision.retry_after));
  }
  writer.text(R"(,"reset_after_ms":)").number(millis_up(decision.reset_after));
  writer.text(R"(,"wait_ms":)").number(millis_up(decision.wait));
  write_member(writer, R"(,"limited_by":)", verdict.limited_by);
  writer.text(verdict.degraded ? R"(,"degraded":true)" : R"(,"degraded":false)");
  if (!extras.receipt.empty()) write_member(writer, R"(,"receipt":)", extras.receipt);
  if (!extras.holder.empty()) write_member(writer, R"(,"holder":)", extras.holder);
  writer.text("}");
}

void append_item_error(std::string& out, std::string_view error) {
  TextWriter writer(out);
  write_member(writer, R"({"error":)", error);
  writer.text("}");
}

void append_problem(std::string& out, const Problem& problem) {
  TextWriter writer(out);
  write_member(writer, R"({"type":)", problem.type);
  write_member(writer, R"(,"title":)",
               problem.title.empty() ? status_text(problem.status) : problem.title);
  writer.text(R"(,"status":)").number(problem.status);
  write_member(writer, R"(,"detail":)", problem.detail);
  if (!problem.field.empty()) write_member(writer, R"(,"field":)", problem.field);
  std::string_view separator = R"(,"violated-policies":[)";
  for (const std::string_view policy : problem.violated_policies) {
    write_member(writer, separator, policy);
    separator = ",";
  }
  writer.text(problem.violated_policies.empty() ? "}" : "]}");
}

}  // namespace weir::wire
