#include "policy/limit_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/suggest.h"
#include "core/plan.h"
#include "policy/limit_text.h"
#include "policy/units.h"
#include "policy/values.h"
#include "weir/parts.h"

namespace weir::policy {

namespace {

using WordField = std::optional<Word> LimitWords::*;

// A field of a limit's map that corresponds to a word of the text form.
struct WordName {
  std::string_view name;
  WordField field;
  std::string_view variant;  // word allowed instead of `true`; empty: the field needs a value
};

constexpr std::array<WordName, 12> kWordFields{{
    {"burst", &LimitWords::burst, ""},
    {"window", &LimitWords::window, "from first"},
    {"sliding", &LimitWords::sliding, "exact"},
    {"queue", &LimitWords::queue, ""},
    {"delay", &LimitWords::delay, ""},
    {"nodelay", &LimitWords::nodelay, "true"},
    {"smooth", &LimitWords::smooth, "true"},
    {"warmup", &LimitWords::warmup, ""},
    {"in", &LimitWords::zone, ""},
    {"from_day", &LimitWords::from_day, ""},
    {"lease", &LimitWords::lease, ""},
    {"like", &LimitWords::like, ""},
}};

constexpr std::array<std::string_view, 20> kFields{
    "limit", "rate",    "concurrent", "burst",  "window", "sliding",  "queue",
    "delay", "nodelay", "smooth",     "warmup", "in",     "from_day", "lease",
    "like",  "name",    "by",         "cost",   "scope",  "shadow"};

constexpr std::array<std::string_view, 4> kScopes{"node", "fleet", "leased", "split"};

std::optional<Word> word_of(const YamlNode& node, std::string_view name, Problems& problems) {
  if (node.is_scalar()) return Word{node.text, node.text_place()};
  problems.push_back(
      {node.place, fmt::format("\"{}\" wants a value, not {}", name, node.describe())});
  return std::nullopt;
}

// Reads a field such as `window: true` or `window: from first`. `false` means the same as no field.
std::optional<Word> flag_of(const YamlNode& node, const WordName& flag, Problems& problems) {
  if (node.is_scalar() && node.text == "false") return std::nullopt;
  if (node.is_scalar() && node.text == "true") return Word{std::string{flag.name}, node.place};
  if (node.is_scalar() && node.text == flag.variant) return Word{node.text, node.place};
  problems.push_back({node.place, fmt::format("\"{}\" is true{}, not {}", flag.name,
                                              flag.variant == "true"
                                                  ? std::string{" or false"}
                                                  : fmt::format(", false or \"{}\"", flag.variant),
                                              node.describe())});
  return std::nullopt;
}

// Reads the base of a map's limit: `limit:`, `rate:` or `concurrent:`.
std::optional<LimitWords> read_base(const YamlNode& map, Problems& problems) {
  const YamlNode* limit = map.find("limit");
  const YamlNode* rate = map.find("rate");
  const YamlNode* concurrent = map.find("concurrent");
  const int given = (limit != nullptr) + (rate != nullptr) + (concurrent != nullptr);
  if (given != 1) {
    problems.push_back({map.place, given == 0 ? "a limit is missing: write limit: 100/s"
                                              : "one of limit, rate and concurrent is enough"});
    return std::nullopt;
  }
  const YamlNode& node = limit ? *limit : rate ? *rate : *concurrent;
  const auto word = word_of(node, limit ? "limit" : rate ? "rate" : "concurrent", problems);
  if (!word) return std::nullopt;
  if (concurrent != nullptr) {
    return LimitWords{
        .place = word->place, .amount = word, .concurrent = Word{"concurrent", word->place}};
  }
  auto words = limit ? split_limit(word->text, word->place) : split_rate(word->text, word->place);
  if (words) return *words;
  problems.push_back(words.error());
  return std::nullopt;
}

std::optional<LimitWords> read_words(const YamlNode& map, Problems& problems) {
  auto words = read_base(map, problems);
  for (const WordName& known : kWordFields) {
    const YamlNode* node = map.find(known.name);
    if (node == nullptr) continue;
    const auto word = known.variant.empty() ? word_of(*node, known.name, problems)
                                            : flag_of(*node, known, problems);
    if (!words || !word) continue;
    auto& place = (*words).*known.field;
    if (place) {
      problems.push_back({node->place, fmt::format("\"{}\" is given twice", known.name)});
    }
    place = word;
  }
  return words;
}

std::vector<std::string> read_by(const YamlNode& node, Problems& problems) {
  std::vector<std::string> parts;
  const auto add = [&](const YamlNode& part) {
    if (part.is_scalar() && !part.text.empty()) {
      parts.push_back(part.text);
    } else {
      problems.push_back({part.place, fmt::format("\"by\" is the name of a part of the key, or a "
                                                  "list of names, not {}",
                                                  part.describe())});
    }
  };
  if (node.is_list()) {
    for (const auto& item : node.items) add(*item);
  } else {
    add(node);
  }
  // Keys are encoded in the order of part names, whatever the order in the file.
  std::ranges::sort(parts);
  if (std::ranges::adjacent_find(parts) != parts.end()) {
    problems.push_back({node.place, "\"by\" names a part twice"});
  }
  if (parts.size() > Parts::kMax) {
    problems.push_back({node.place, fmt::format("\"by\" names {} parts, at most {} are allowed",
                                                parts.size(), Parts::kMax)});
  }
  return parts;
}

Cost read_cost(const YamlNode& node, Problems& problems) {
  if (node.is_scalar() && node.text == "permits") return {};
  if (!node.is_scalar()) {
    problems.push_back({node.place, "\"cost\" is a number or \"permits\""});
    return {};
  }
  const auto count = parse_count({node.text, node.text_place()}, "\"cost\"");
  if (!count) {
    constexpr std::array<std::string_view, 1> word{"permits"};
    problems.push_back(
        {count.error().place, count.error().message + did_you_mean(node.text, word)});
    return {};
  }
  return {.permits = false, .fixed = *count};
}

Scope read_scope(const YamlNode& node, Problems& problems) {
  const auto found = std::ranges::find(kScopes, node.text);
  if (!node.is_scalar() || found == kScopes.end()) {
    problems.push_back(
        {node.place, fmt::format("a scope is node, fleet, leased or split, not {}{}",
                                 node.describe(), did_you_mean(node.text, kScopes))});
    return Scope::standard;
  }
  return static_cast<Scope>(found - kScopes.begin() + 1);
}

void read_application(const YamlNode& map, Limit& limit, Problems& problems) {
  if (const YamlNode* name = map.find("name")) {
    if (const auto word = word_of(*name, "name", problems)) limit.name = word->text;
  }
  if (const YamlNode* by = map.find("by")) limit.by = read_by(*by, problems);
  if (const YamlNode* cost = map.find("cost")) limit.cost = read_cost(*cost, problems);
  if (const YamlNode* scope = map.find("scope")) limit.scope = read_scope(*scope, problems);
  if (const YamlNode* shadow = map.find("shadow"))
    limit.shadow = read_bool(*shadow, "shadow", problems);
}

std::optional<Limit> with_rule(const Result<core::Limit, Problem>& rule, Problems& problems) {
  if (rule) return Limit{.limit = *rule, .name = {}, .by = {}, .cost = {}};
  problems.push_back(rule.error());
  return std::nullopt;
}

}  // namespace

std::optional<Limit> read_limit(const YamlNode& node, Problems& problems) {
  if (node.is_scalar()) return with_rule(parse_limit(node.text, node.text_place()), problems);
  if (!node.is_map()) {
    problems.push_back({node.place, fmt::format("a limit is a text like 100/s or a map, not {}",
                                                node.describe())});
    return std::nullopt;
  }
  const std::size_t before = problems.size();
  check_fields(node, kFields, "a limit", problems);
  const auto words = read_words(node, problems);
  auto limit = words ? with_rule(build_limit(*words), problems) : std::nullopt;
  Limit applied = limit.value_or(Limit{});
  read_application(node, applied, problems);
  if (!limit || problems.size() > before) return std::nullopt;
  return applied;
}

std::vector<Limit> read_limits(const YamlNode& node, Problems& problems) {
  std::vector<Limit> limits;
  // Refused before reading: a short text can alias the same long list thousands of times.
  if (node.items.size() > core::kMaxLimits) {
    problems.push_back({node.place, fmt::format("{} limits in one decision are too many (at most "
                                                "{})",
                                                node.items.size(), core::kMaxLimits)});
    return limits;
  }
  const auto add = [&](const YamlNode& item) {
    if (auto limit = read_limit(item, problems)) limits.push_back(*std::move(limit));
  };
  if (node.is_list()) {
    for (const auto& item : node.items) add(*item);
  } else {
    add(node);
  }
  if (node.is_list() && node.items.empty()) {
    problems.push_back({node.place, "at least one limit is needed: write one like 100/s"});
  }
  return limits;
}

std::string_view to_text(Scope scope) {
  const auto position = static_cast<std::size_t>(scope);
  return position == 0 ? std::string_view{} : kScopes[position - 1];
}

}  // namespace weir::policy
