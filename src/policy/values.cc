#include "policy/values.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/suggest.h"

namespace weir::policy {

namespace {

// "a, b or c".
std::string listed(std::span<const std::string_view> words) {
  if (words.size() == 1) return std::string{words.front()};
  return fmt::format("{} or {}", fmt::join(words.first(words.size() - 1), ", "), words.back());
}

}  // namespace

bool read_bool(const YamlNode& node, std::string_view what, Problems& problems) {
  const bool is_true = node.is_scalar() && node.text == "true";
  const bool is_false = node.is_scalar() && node.text == "false";
  if (!is_true && !is_false) {
    problems.push_back(
        {node.place, fmt::format("\"{}\" is true or false, not {}", what, node.describe())});
  }
  return is_true;
}

std::size_t read_word(const YamlNode& node, std::string_view what,
                      std::span<const std::string_view> words, Problems& problems) {
  const auto word = std::ranges::find(words, node.text);
  if (node.is_scalar() && word != words.end()) {
    return static_cast<std::size_t>(word - words.begin());
  }
  problems.push_back({node.place, fmt::format("\"{}\" is {}, not {}{}", what, listed(words),
                                              node.describe(), did_you_mean(node.text, words))});
  return 0;
}

std::string read_text(const YamlNode& node, std::string_view what, Problems& problems) {
  if (node.is_scalar() && !node.text.empty()) return node.text;
  problems.push_back(
      {node.place, fmt::format("\"{}\" must be a non-empty text, not {}", what,
                               node.is_scalar() ? "an empty one" : node.describe())});
  return {};
}

bool is_field_name(std::string_view text) {
  constexpr std::string_view letters =
      "!#$%&'*+-.^_`|~0123456789"
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  return !text.empty() && text.size() <= 256 &&
         text.find_first_not_of(letters) == std::string_view::npos;
}

std::string read_header_name(const YamlNode& node, std::string_view what, Problems& problems) {
  if (node.is_scalar() && is_field_name(node.text)) return node.text;
  problems.push_back({node.place, fmt::format("\"{}\" is the name of a header like "
                                              "X-RateLimit-Limit, not {}",
                                              what, node.describe())});
  return {};
}

bool is_map_of(const YamlNode& node, std::string_view what, std::span<const std::string_view> known,
               Problems& problems) {
  if (node.is_map()) {
    check_fields(node, known, fmt::format("\"{}\"", what), problems);
    return true;
  }
  problems.push_back({node.place, fmt::format("\"{}\" is a map with {}, not {}", what,
                                              fmt::join(known, ", "), node.describe())});
  return false;
}

std::vector<const YamlNode*> one_or_more(const YamlNode& node, std::string_view what,
                                         Problems& problems) {
  std::vector<const YamlNode*> texts;
  const auto add = [&](const YamlNode& item) {
    if (item.is_scalar() && !item.text.empty()) {
      texts.push_back(&item);
    } else {
      problems.push_back(
          {item.place,
           fmt::format("\"{}\" must be a non-empty text or a list of such texts, not {}", what,
                       item.is_scalar() ? "an empty one" : item.describe())});
    }
  };
  if (!node.is_list()) {
    add(node);
    return texts;
  }
  for (const auto& item : node.items) add(*item);
  if (node.items.empty()) {
    problems.push_back(
        {node.place, fmt::format("\"{}\" is an empty list: write at least one", what)});
  }
  return texts;
}

}  // namespace weir::policy
