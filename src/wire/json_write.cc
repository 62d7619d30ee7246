#include "wire/json_write.h"

#include <algorithm>

#include "base/utf8.h"
#include "wire/http1_response.h"
#include "wire/text_writer.h"

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

// Appends the character at the front of `text`, which is not plain. Returns the bytes it had there.
std::size_t append_non_plain(std::string& out, std::string_view text) {
  if (static_cast<unsigned char>(text[0]) < 0x80) {
    append_escaped(out, text[0]);
    return 1;
  }
  const Utf8 character = first_character(text);
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

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain < text.size() && is_plain(static_cast<unsigned char>(text[plain]))) ++plain;
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (!text.empty()) text.remove_prefix(append_non_plain(out, text));
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

void append_problem(std::string& out, const ProblemDetails& problem) {
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
