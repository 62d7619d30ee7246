#include "policy/yaml_flaw.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace weir::policy {

namespace {

constexpr std::size_t kLongestText = std::size_t{16} << 20;
// In bytes. The parser reads ahead to the end of a line, with up to 250 bytes of memory per byte.
constexpr int kMaxLineLength = 4 << 20;

bool is_control(std::string_view text) {
  const auto c = static_cast<unsigned char>(text[0]);
  if (c == '\r') return !text.starts_with("\r\n");
  return (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f;
}

Problem no_control(SourcePosition place, char c) {
  return {place, fmt::format("the control character 0x{:02x} is not allowed here: remove it{}",
                             static_cast<unsigned char>(c),
                             c == '\0' ? ", or save the file as UTF-8" : "")};
}

// A message of the parser, and the usual mistake behind it.
struct UsualMistake {
  std::string_view said;
  std::string_view meant;
};

const std::array<UsualMistake, 9> kMeanings{{
    {YAML::ErrorMsg::UNKNOWN_ANCHOR,
     "no anchor above has this name: put a text that starts with * in quotes"},
    {YAML::ErrorMsg::ALIAS_NOT_FOUND,
     "the name of an anchor is missing: put a text that starts with * in quotes"},
    {YAML::ErrorMsg::UNKNOWN_TOKEN, "put a text that starts with this character in quotes"},
    {YAML::ErrorMsg::END_OF_MAP,
     "this line is indented unlike any line above, or its colon is missing"},
    {YAML::ErrorMsg::END_OF_SEQ,
     "this line is indented unlike any line above, or its dash is missing"},
    {YAML::ErrorMsg::MAP_VALUE,
     "no field can begin here: indent the line like its neighbours, write a blank after each "
     "colon, and put texts with a colon and a blank in quotes"},
    {YAML::ErrorMsg::FLOW_END, "this closes nothing that is open here"},
    {YAML::ErrorMsg::END_OF_MAP_FLOW,
     "a comma or } is missing before this, or a blank behind a colon"},
    {YAML::ErrorMsg::END_OF_SEQ_FLOW, "a comma or ] is missing before this"},
}};

std::optional<Problem> check_indentation(const Source& source, int number) {
  const std::string_view line = source.line(number);
  const std::size_t tab = std::min(line.find_first_not_of(' '), line.size());
  if (tab == line.size() || line[tab] != '\t') return std::nullopt;
  return Problem{SourcePosition{number, 1}.moved(tab),
                 "a tab does not indent in YAML: write blanks"};
}

// An unclosed list or map in brackets is reported where it begins.
std::optional<Problem> check_open(const YAML::Exception& exception, std::string_view text,
                                  std::optional<SourcePosition> open) {
  const bool map = exception.msg == YAML::ErrorMsg::END_OF_MAP_FLOW;
  if (!open || (!map && exception.msg != YAML::ErrorMsg::END_OF_SEQ_FLOW)) return std::nullopt;
  text.remove_prefix(std::min(static_cast<std::size_t>(exception.mark.pos), text.size()));
  if (text.find_first_not_of(" \t\r\n") != std::string_view::npos) return std::nullopt;
  return Problem{*open, fmt::format("this is never closed: a {} is missing", map ? "}" : "]")};
}

}  // namespace

std::optional<Problem> check_text(const Source& source) {
  std::string_view text = source.content();
  if (text.size() > kLongestText) {
    return Problem{{},
                   "a file of more than 16 MiB is too long: split it, or make limits in a "
                   "program"};
  }
  for (SourcePosition place; !text.empty();) {
    const Utf8 character = first_character(text);
    if (!character.whole) return Problem{place, "this is not UTF-8: save the file as UTF-8"};
    if (is_control(text)) return no_control(place, text[0]);
    place = text[0] == '\n' ? SourcePosition{place.line + 1, 1} : place.moved(character.bytes);
    if (place.column > kMaxLineLength) {
      return Problem{place, "a line of more than 4 MiB is too long: break it"};
    }
    text.remove_prefix(character.bytes);
  }
  return std::nullopt;
}

Problem explain(const YAML::Exception& exception, const Source& source,
                std::optional<SourcePosition> open) {
  if (exception.mark.is_null()) return {{}, "not valid YAML: " + exception.msg};
  const SourcePosition place = place_of(exception.mark);
  if (auto wrong = check_indentation(source, place.line)) return *std::move(wrong);
  if (auto wrong = check_open(exception, source.content(), open)) return *std::move(wrong);
  const auto known = std::ranges::find(kMeanings, exception.msg, &UsualMistake::said);
  if (known != kMeanings.end()) return {place, std::string{known->meant}};
  return {place, "not valid YAML: " + exception.msg};
}

std::optional<SourcePosition> dashes_between(const Source& source, SourcePosition first,
                                             SourcePosition second) {
  std::string_view rest = source.content();
  for (int line = 1; line <= second.line; ++line) {
    if (line > first.line && rest.starts_with("---")) return SourcePosition{line, 1};
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  }
  return std::nullopt;
}

}  // namespace weir::policy
