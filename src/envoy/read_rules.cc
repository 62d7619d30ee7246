#include "envoy/read_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/ascii.h"
#include "base/suggest.h"
#include "envoy/units.h"
#include "policy/config.h"
#include "policy/limit_text.h"
#include "policy/yaml.h"
#include "store/memory/fingerprint.h"
#include "store/why_not_shareable.h"

namespace weir::envoy {

using policy::Problems;
using policy::SourcePosition;

namespace {

using YamlNode = policy::YamlNode;

constexpr std::array<std::string_view, 2> kRootFields{"domain", "descriptors"};
constexpr std::array<std::string_view, 10> kDescriptorFields{
    "key",        "value",           "rate_limit",      "descriptors",     "shadow_mode",
    "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata"};
constexpr std::array<std::string_view, 9> kLimitFields{
    "unit", "requests_per_unit", "unlimited", "name", "replaces", "algorithm", "burst",
    "per",  "calendar"};
constexpr std::array<std::string_view, 1> kReplacesFields{"name"};
constexpr std::array<std::string_view, 3> kKindFields{"algorithm", "burst", "calendar"};
constexpr std::array<std::string_view, 3> kAlgorithms{"fixed_window", "sliding_window",
                                                      "token_bucket"};

const NamedUnit* unit_named(std::string_view name) {
  const auto found = std::ranges::find(kUnits, lowered(name), &NamedUnit::name);
  return found == kUnits.end() ? nullptr : &*found;
}

bool is_known_anywhere(std::string_view name) {
  const auto among = [&](std::span<const std::string_view> fields) {
    return std::ranges::find(fields, name) != fields.end();
  };
  return among(kRootFields) || among(kDescriptorFields) || among(kLimitFields);
}

// The value of a field, or null. A field without a value counts as absent, as in Go.
const YamlNode* value_of(const YamlNode& map, std::string_view field) {
  const YamlNode* node = map.find(field);
  return node == nullptr || node->is_null() ? nullptr : node;
}

// A boolean of Go's YAML: one of these words in lower case, upper case or capitalized.
std::optional<bool> boolean(std::string_view text) {
  static constexpr std::array<std::string_view, 11> yes{"y",    "Y",    "yes", "Yes", "YES", "true",
                                                        "True", "TRUE", "on",  "On",  "ON"};
  static constexpr std::array<std::string_view, 11> no{
      "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"};
  if (std::ranges::find(yes, text) != yes.end()) return true;
  if (std::ranges::find(no, text) != no.end()) return false;
  return std::nullopt;
}

// A number of Go's YAML: 1000, +1000, 1_000, 0x3e8, 0o1750 or 01750, 0b1111101000, -0.
std::optional<std::uint32_t> whole_number(std::string_view text) {
  if (text.starts_with('_')) return std::nullopt;
  std::string digits = lowered(text);
  std::erase(digits, '_');
  std::string_view rest = digits;
  const bool is_negative = rest.starts_with('-');
  if (rest.starts_with('+') || is_negative) rest.remove_prefix(1);
  int base = 10;
  for (const auto& [start, of_start] : {std::pair{"0x", 16}, {"0o", 8}, {"0b", 2}, {"0", 8}}) {
    if (rest.size() <= std::string_view(start).size() || !rest.starts_with(start)) continue;
    rest.remove_prefix(std::string_view(start).size());
    base = of_start;
    break;
  }
  std::uint32_t number = 0;
  const char* const end = rest.data() + rest.size();
  const auto [read, error] = std::from_chars(rest.data(), end, number, base);
  if (error != std::errc{} || read != end || (is_negative && number != 0)) return std::nullopt;
  return number;
}

// True if YAML reads the text as a floating-point number, or as an integer of 2^63 or more.
// envoyproxy/ratelimit refuses both.
bool is_float(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') || text.starts_with('+'));
  if (digits.empty() || digits.find_first_not_of("0123456789.eE+-") != std::string_view::npos) {
    return false;
  }
  double number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  const bool is_number = stop == end && digits[0] != '-' && digits[0] != '+';
  constexpr double largest = 18446744073709551616.0;
  const bool is_whole = digits.find_first_of(".eE") == std::string_view::npos;
  return is_number && (!is_whole || error != std::errc{} || number >= largest / 2);
}

// False if YAML reads the key as another type than text.
bool is_text(std::string_view key) {
  if (key.empty() || key == "~" || key == "null" || key == "true" || key == "false") return false;
  double number = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  return error != std::errc{} || end != key.data() + key.size();
}

// A free-form block of the configuration as JSON.
nlohmann::json to_json(const YamlNode& node) {
  using nlohmann::json;
  if (node.is_map()) {
    json object = json::object();
    for (const YamlNode::Field& field : node.fields) object[field.name] = to_json(*field.value);
    return object;
  }
  if (node.is_list()) {
    json list = json::array();
    for (const auto& item : node.items) list.push_back(to_json(*item));
    return list;
  }
  if (node.is_null()) return nullptr;
  if (node.quoted) return node.text;
  if (const auto word = boolean(node.text)) return *word;
  json number = json::parse(node.text, nullptr, false);
  return number.is_number() ? number : json(node.text);
}

// Reads one file into the rules.
class RulesReader {
 public:
  RulesReader(RuleSet& rules, FileReport& report, const ReadOptions& options,
              std::set<std::string>& before)
      : rules_(rules), report_(report), options_(options), earlier_domains_(before) {}

  void read() {
    const auto root = policy::parse_yaml_as_go(report_.source, report_.problems, report_.warnings);
    for (policy::Problem& problem : report_.problems) {
      problem.message = "error loading config file: " + problem.message;
    }
    if (root != nullptr) read_root(*root);
  }

 private:
  void read_root(const YamlNode& root);
  void read_descriptors(const YamlNode& list, DescriptorNode& parent);
  void read_descriptor(const YamlNode& map, DescriptorNode& parent);
  bool is_duplicate(const DescriptorNode& node, const DescriptorNode& parent, SourcePosition place);
  void read_flags(const YamlNode& map, DescriptorNode& node);
  void read_rate_limit(const YamlNode& map, const YamlNode& descriptor, DescriptorNode& node);
  void check_unused(const YamlNode& map);
  void read_replaces(const YamlNode& map, DescriptorRule& rule);
  void read_limit(const YamlNode& map, const NamedUnit* unit, DescriptorRule& rule);
  void build_limit(const YamlNode& map, const NamedUnit* unit, Nanos period, DescriptorRule& rule);
  Nanos read_period(const YamlNode& map, const NamedUnit* unit);

  void check(const YamlNode& map, std::span<const std::string_view> fields, std::string_view what);
  bool is_map(const YamlNode& node, std::string_view what);
  std::string text_of(const YamlNode& map, std::string_view field);
  bool flag_of(const YamlNode& map, std::string_view field);
  std::uint32_t number_of(const YamlNode& map, std::string_view field);

  template <typename... Args>
  void problem(SourcePosition place, fmt::format_string<Args...> format, Args&&... args) {
    report_.problems.push_back({place, fmt::format(format, std::forward<Args>(args)...)});
  }

  RuleSet& rules_;
  FileReport& report_;
  const ReadOptions& options_;
  std::set<std::string>& earlier_domains_;  // domains of the files before
  std::string domain_;
};

// ---- Values

void RulesReader::check(const YamlNode& map, std::span<const std::string_view> fields,
                        std::string_view what) {
  for (const YamlNode::Field& field : map.fields) {
    if (std::ranges::find(fields, field.name) != fields.end()) continue;
    if (!is_text(field.name)) {
      problem(field.place, "config error, key is not of type string: {}", field.name);
    } else if (is_known_anywhere(field.name)) {
      report_.warnings.push_back(
          {field.place,
           fmt::format("\"{}\" has no meaning in {}: it is ignored", field.name, what)});
    } else {
      problem(field.place, "config error, unknown key '{}'{}", field.name,
              did_you_mean(field.name, fields));
    }
  }
}

bool RulesReader::is_map(const YamlNode& node, std::string_view what) {
  if (node.is_map()) return true;
  problem(node.place, "error loading config file: {} is a map, not {}", what, node.describe());
  return false;
}

std::string RulesReader::text_of(const YamlNode& map, std::string_view field) {
  const YamlNode* node = value_of(map, field);
  if (node == nullptr) return {};
  if (!node->is_scalar()) {
    problem(node->place, "error loading config file: \"{}\" is a text, not {}", field,
            node->describe());
    return {};
  }
  if (!node->quoted && is_float(node->text)) {
    problem(node->place, "error checking config: {0} is a number to YAML: write \"{0}\"",
            node->text);
  }
  return node->text;
}

bool RulesReader::flag_of(const YamlNode& map, std::string_view field) {
  const YamlNode* node = value_of(map, field);
  if (node == nullptr) return false;
  const auto word = node->is_scalar() && !node->quoted ? boolean(node->text) : std::nullopt;
  if (!word) {
    problem(node->place, "error loading config file: \"{}\" is true or false, not {}", field,
            node->describe());
  }
  return word.value_or(false);
}

std::uint32_t RulesReader::number_of(const YamlNode& map, std::string_view field) {
  const YamlNode* node = value_of(map, field);
  if (node == nullptr) return 0;
  const auto number = node->quoted ? std::nullopt : whole_number(node->text);
  if (!number) {
    problem(node->place,
            "error loading config file: \"{}\" is a whole number from 0 to 4294967295, not {}",
            field, node->describe());
  }
  return number.value_or(0);
}

// ---- Descriptors

void RulesReader::read_root(const YamlNode& root) {
  if (root.is_null()) return problem(root.place, "config file cannot have empty domain");
  if (!is_map(root, "a file of envoyproxy/ratelimit")) return;
  check(root, kRootFields, "a file");
  domain_ = text_of(root, "domain");
  const YamlNode* named = root.find("domain");
  const SourcePosition place = named != nullptr ? named->place : root.place;
  if (domain_.empty()) problem(place, "config file cannot have empty domain");
  if (earlier_domains_.contains(domain_) && !options_.merge_domains) {
    problem(place, "duplicate domain '{}' in config file", domain_);
    return;
  }
  if (!domain_.empty()) earlier_domains_.insert(domain_);
  Domain& domain = rules_.domains[domain_];
  domain.head = counter_head(domain_);
  if (const YamlNode* list = value_of(root, "descriptors")) read_descriptors(*list, domain.root);
}

void RulesReader::read_descriptors(const YamlNode& list, DescriptorNode& parent) {
  if (!list.is_list()) {
    return problem(list.place, "error loading config file: \"descriptors\" is a list, not {}",
                   list.describe());
  }
  for (const auto& item : list.items) {
    if (item->is_map()) {
      read_descriptor(*item, parent);
    } else {
      problem(item->place, "config error, yaml file contains list of type other than map: {}",
              item->is_scalar() ? item->text : item->describe());
    }
  }
}

// The path to a node, for messages.
std::string name_of(std::string_view domain, const DescriptorNode& node) {
  if (node.key.empty()) return std::string{domain};
  std::string name = node.parent != nullptr ? name_of(domain, *node.parent) : std::string{domain};
  name += '.';
  name += node.key;
  if (!node.value.empty()) name += '_' + node.value;
  return name;
}

bool RulesReader::is_duplicate(const DescriptorNode& node, const DescriptorNode& parent,
                               SourcePosition place) {
  const auto same = [&](const std::unique_ptr<DescriptorNode>& other) {
    return other->key == node.key && other->value == node.value;
  };
  const auto choices = parent.next.find(node.key);
  if (choices == parent.next.end()) return false;
  const DescriptorNode::Choices& some = choices->second;
  const bool is_known = node.value.empty() ? some.any != nullptr : some.values.contains(node.value);
  if (!is_known) return false;
  const auto first = std::ranges::find_if(parent.children, same);
  problem(place, "duplicate descriptor composite key '{}' (the first is at {})",
          name_of(domain_, node), (*first)->place);
  return true;
}

void RulesReader::read_descriptor(const YamlNode& map, DescriptorNode& parent) {
  check(map, kDescriptorFields, "a descriptor");
  auto node = std::make_unique<DescriptorNode>();
  node->key = text_of(map, "key");
  node->value = text_of(map, "value");
  node->parent = &parent;
  node->is_wildcard = node->value.find('*') != std::string::npos;
  node->place = fmt::format("{}:{}:{}", report_.source.name, map.place.line, map.place.column);
  const YamlNode* named = map.find("key");
  if (node->key.empty()) {
    problem(named != nullptr ? named->place : map.place, "descriptor has empty key");
  }
  const bool is_known = !node->key.empty() && is_duplicate(*node, parent, map.place);
  read_flags(map, *node);
  if (const YamlNode* limit = value_of(map, "rate_limit")) read_rate_limit(*limit, map, *node);
  if (const YamlNode* list = value_of(map, "descriptors")) read_descriptors(*list, *node);
  if (node->key.empty() || is_known) return;
  DescriptorNode::Choices& choices = parent.next[node->key];
  if (node->value.empty()) {
    choices.any = node.get();
  } else {
    choices.values.emplace(node->value, node.get());
  }
  if (node->is_wildcard) choices.wildcards.push_back({WildcardPattern(node->value), node.get()});
  parent.children.push_back(std::move(node));
}

void RulesReader::read_flags(const YamlNode& map, DescriptorNode& node) {
  node.value_to_metric = flag_of(map, "value_to_metric");
  node.shares_counter = flag_of(map, "share_threshold");
  if (node.shares_counter && !node.is_wildcard) {
    problem(map.find("share_threshold")->place,
            "share_threshold can only be used with wildcard values (containing '*'), but found key "
            "'{}'",
            node.value.empty() ? node.key : node.key + "_" + node.value);
  }
  node.metric_names_values = node.parent->metric_names_values || node.value_to_metric;
  node.path_shares_counter = node.parent->path_shares_counter || node.shares_counter;
  for (const std::string_view of_limit : {"shadow_mode", "quota_mode", "detailed_metric"}) {
    if (!flag_of(map, of_limit) || value_of(map, "rate_limit") != nullptr) continue;
    report_.warnings.push_back(
        {map.find(of_limit)->place,
         fmt::format("\"{}\" needs a rate_limit in the same descriptor: it is ignored", of_limit)});
  }
}

// ---- Limits

void RulesReader::read_rate_limit(const YamlNode& map, const YamlNode& descriptor,
                                  DescriptorNode& node) {
  if (!is_map(map, "\"rate_limit\"")) return;
  check(map, kLimitFields, "a rate_limit");
  DescriptorRule rule;
  rule.unlimited = flag_of(map, "unlimited");
  rule.name = text_of(map, "name");
  rule.requests_per_unit = number_of(map, "requests_per_unit");
  rule.shadow = flag_of(descriptor, "shadow_mode");
  rule.quota = flag_of(descriptor, "quota_mode");
  rule.detailed = flag_of(descriptor, "detailed_metric");
  rule.path = name_of(domain_, node);
  rule.counted_as = metric_name(rule.path);
  rule.number = rules_.count++;
  read_replaces(map, rule);
  const YamlNode* metadata = value_of(descriptor, "metadata");
  if (metadata != nullptr && is_map(*metadata, "\"metadata\"")) {
    rule.metadata =
        to_json(*metadata).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  const std::string named = text_of(map, "unit");
  const NamedUnit* unit = unit_named(named);
  const YamlNode* written = value_of(map, "unit");
  const SourcePosition place = written != nullptr ? written->place : map.place;
  if (rule.unlimited) {
    if (unit != nullptr) problem(place, "should not specify rate limit unit when unlimited");
    check_unused(map);
  } else if (unit == nullptr && (written != nullptr || value_of(map, "per") == nullptr)) {
    static constexpr auto names = [] {
      std::array<std::string_view, kUnits.size()> all{};
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = kUnits[i].name;
      return all;
    }();
    problem(place, "invalid rate limit unit '{}'{}", named, did_you_mean(lowered(named), names));
  } else {
    read_limit(map, unit, rule);
  }
  node.rule = std::move(rule);
}

// Extensions of weir have no meaning for an unlimited rule, but must be valid.
void RulesReader::check_unused(const YamlNode& map) {
  if (const YamlNode* per = value_of(map, "per")) {
    problem(per->place, "should not specify \"per\" when unlimited");
  }
  DescriptorRule unused{.requests_per_unit = 1};
  const NamedUnit* day = unit_named("day");
  build_limit(map, day, day->length, unused);
  for (const std::string_view field : kKindFields) {
    const YamlNode* written = value_of(map, field);
    if (written == nullptr) continue;
    report_.warnings.push_back(
        {written->place,
         fmt::format("\"{}\" has no meaning when unlimited: it is ignored", field)});
  }
}

void RulesReader::read_replaces(const YamlNode& map, DescriptorRule& rule) {
  const YamlNode* list = value_of(map, "replaces");
  if (list == nullptr) return;
  if (!list->is_list()) {
    return problem(list->place, "error loading config file: \"replaces\" is a list, not {}",
                   list->describe());
  }
  for (const auto& item : list->items) {
    if (!item->is_map()) {
      problem(item->place, "config error, yaml file contains list of type other than map: {}",
              item->is_scalar() ? item->text : item->describe());
      continue;
    }
    check(*item, kReplacesFields, "replaces");
    const std::string name = text_of(*item, "name");
    if (name.empty()) {
      problem(item->place, "should not have an empty replaces entry");
    } else if (name == rule.name) {
      problem(item->place, "replaces should not contain name of same descriptor");
    }
    rule.replaces.push_back(name);
  }
}

Nanos RulesReader::read_period(const YamlNode& map, const NamedUnit* unit) {
  const YamlNode* per = value_of(map, "per");
  if (per == nullptr) return unit->length;
  if (unit != nullptr) {
    problem(per->place, "\"per\" replaces \"unit\": remove one of them");
    return unit->length;
  }
  std::string text = text_of(map, "per");
  // Go writes 5m for weir's 5min.
  if (text.ends_with('m')) text += "in";
  const auto parsed = policy::parse_duration(text, per->text_place());
  if (!parsed) {
    report_.problems.push_back(parsed.error());
  } else if (*parsed < std::chrono::milliseconds{1}) {
    problem(per->place, "\"per\" must be at least 1ms, not {}", per->describe());
  } else {
    return *parsed;
  }
  return std::chrono::seconds{1};
}

void RulesReader::read_limit(const YamlNode& map, const NamedUnit* unit, DescriptorRule& rule) {
  const std::size_t before = report_.problems.size();
  const Nanos period = read_period(map, unit);
  rule.unit = Unit::unknown;
  for (const NamedUnit& each : kUnits) {
    if (each.length == period) rule.unit = each.unit;
  }
  if (report_.problems.size() == before) build_limit(map, unit, period, rule);
  rule.tail = counter_tail(rule.limit);
  rule.identity = store::hash_of(rule.path + rule.tail).low;
}

void RulesReader::build_limit(const YamlNode& map, const NamedUnit* unit, Nanos period,
                              DescriptorRule& rule) {
  const YamlNode* algorithm = value_of(map, "algorithm");
  const YamlNode* burst = value_of(map, "burst");
  const YamlNode* calendar = value_of(map, "calendar");
  // A limit of 0 is the same under every algorithm, and only a window can express it. The other
  // fields are checked as if the limit were 1.
  const bool is_nothing = rule.requests_per_unit == 0;
  const std::uint32_t count = std::max(rule.requests_per_unit, 1U);
  const std::size_t before = report_.problems.size();
  const std::uint32_t given = burst != nullptr ? number_of(map, "burst") : count;
  const std::uint32_t at_once = is_nothing ? std::max(given, 1U) : given;
  const std::string zone = text_of(map, "calendar");
  // A node that is not a text has an empty text, which names no algorithm.
  const std::string name = algorithm != nullptr ? algorithm->text
                           : burst != nullptr   ? "token_bucket"
                                                : "fixed_window";
  if (std::ranges::find(kAlgorithms, name) == kAlgorithms.end()) {
    return problem(algorithm->place, "\"algorithm\" is {}, not {}{}", fmt::join(kAlgorithms, ", "),
                   algorithm->describe(), did_you_mean(name, kAlgorithms));
  }
  if (burst != nullptr && name != "token_bucket") {
    return problem(burst->place, "\"burst\" needs algorithm: token_bucket");
  }
  const bool is_date = unit != nullptr && unit->length >= std::chrono::hours{24};
  if (calendar != nullptr && (name != "fixed_window" || !is_date)) {
    return problem(calendar->place,
                   "\"calendar\" needs a fixed_window with unit day, week, month or year");
  }
  rule.limit = core::Window{.count = rule.requests_per_unit, .period = period};
  if (name == "fixed_window" && calendar == nullptr) return;
  if (report_.problems.size() != before) return;
  const std::string rate = fmt::format("{} per {}ns", count, period.count());
  const std::string text = calendar != nullptr ? fmt::format("{}/{} in {}", count, unit->name, zone)
                           : name == "sliding_window" ? rate + " sliding"
                                                      : fmt::format("{} burst {}", rate, at_once);
  const auto parsed = policy::parse_limit(text);
  const SourcePosition place = calendar != nullptr ? calendar->place
                               : burst != nullptr  ? burst->place
                                                   : map.place;
  if (!parsed) return problem(place, "{}", parsed.error().message);
  if (is_nothing) return;
  rule.limit = *parsed;
  if (options_.sharing != policy::Sharing::fleet) return;
  if (const auto why = store::why_not_shareable(rule.limit)) problem(place, "{}", *why);
}

}  // namespace

std::string ReadRulesResult::problems() const {
  std::string all = error;
  if (!all.empty()) all += '\n';
  for (const FileReport& file : files) {
    for (const policy::Problem& problem : file.problems) all += file.source.render(problem);
  }
  return all;
}

Result<std::vector<std::string>, std::string> files_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& file = entry->path();
    const bool is_yaml = file.extension() == ".yaml" || file.extension() == ".yml";
    // Kubernetes volumes contain internal entries that start with a dot.
    if (is_yaml && !file.filename().string().starts_with('.')) files.push_back(file.string());
  }
  if (error) return fmt::format("cannot read {}: {}", path, error.message());
  std::ranges::sort(files);
  return files;
}

ReadRulesResult read_rules(const std::string& path, const ReadOptions& options) {
  const auto files = files_of(path);
  if (!files) return {.error = files.error()};
  std::vector<policy::Source> sources;
  for (const std::string& file : *files) {
    auto source = policy::Source::read(file);
    if (!source) return {.error = source.error()};
    sources.push_back(*std::move(source));
  }
  ReadRulesResult loaded = read_rules(std::move(sources), options);
  if (loaded.files.empty()) {
    loaded.warning = fmt::format("{} has no *.yaml or *.yml file: no domain has rules", path);
  }
  return loaded;
}

ReadRulesResult read_rules(std::vector<policy::Source> sources, const ReadOptions& options) {
  ReadRulesResult loaded;
  auto rules = std::make_shared<RuleSet>();
  std::set<std::string> domains;
  bool all_valid = true;
  for (policy::Source& source : sources) {
    FileReport& report = loaded.files.emplace_back(FileReport{.source = std::move(source)});
    RulesReader(*rules, report, options, domains).read();
    policy::sort_problems(report.problems);
    policy::sort_problems(report.warnings);
    all_valid = all_valid && report.problems.empty();
  }
  if (all_valid) loaded.rules = std::move(rules);
  return loaded;
}

}  // namespace weir::envoy
