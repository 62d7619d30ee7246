#include "envoy/read_rules.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "policy/limit_text.h"
#include "support/folder.h"
#include "world.h"

namespace weir::envoy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The problems of a file as LINE:COLUMN: MESSAGE.
std::vector<std::string> problems_of(std::string_view yaml, const ReadOptions& options = {}) {
  const ReadRulesResult loaded =
      read_rules({{.name = "x.yaml", .text = std::string{yaml}}}, options);
  std::vector<std::string> all;
  for (const policy::Problem& problem : loaded.files.at(0).problems) {
    all.push_back(std::to_string(problem.place.line) + ":" + std::to_string(problem.place.column) +
                  ": " + problem.message);
  }
  EXPECT_EQ(loaded.rules == nullptr, !all.empty());
  return all;
}

std::string with_limit(std::string_view limit, std::string_view more = {}) {
  return "domain: d\ndescriptors:\n  - key: k\n" + std::string{more} + "    rate_limit: { " +
         std::string{limit} + " }\n";
}

const DescriptorRule& only_rule(const std::shared_ptr<const RuleSet>& all) {
  return *all->domains.begin()->second.root.children.at(0)->rule;
}

TEST(ReadRules, ReportsProblemsInEnvoyproxysWordsWithPositions) {
  EXPECT_THAT(problems_of("descriptors: []"),
              ElementsAre("1:1: config file cannot have empty domain"));
  EXPECT_THAT(problems_of(""), ElementsAre(HasSubstr("config file cannot have empty domain")));
  EXPECT_THAT(problems_of("domain: ''\n"),
              ElementsAre("1:9: config file cannot have empty domain"));
  EXPECT_THAT(problems_of("domain: d\ndescriptors:\n  - value: x\n"),
              ElementsAre("3:5: descriptor has empty key"));
  EXPECT_THAT(problems_of("domain: d\ndescriptors:\n  - { key: k, value: v }\n  - { key: k, value: "
                          "v }\n"),
              ElementsAre("4:5: duplicate descriptor composite key 'd.k_v' (the first is at "
                          "x.yaml:3:5)"));
  EXPECT_THAT(problems_of(with_limit("unit: foo, requests_per_unit: 1")),
              ElementsAre("4:25: invalid rate limit unit 'foo'"));
  EXPECT_THAT(problems_of(with_limit("requests_per_unit: 1")),
              ElementsAre("4:17: invalid rate limit unit ''"));
  EXPECT_THAT(problems_of(with_limit("unit: Minutes, requests_per_unit: 1")),
              ElementsAre("4:25: invalid rate limit unit 'Minutes' (did you mean \"minute\"?)"));
  EXPECT_THAT(problems_of(with_limit("unlimited: true, unit: day")),
              ElementsAre("4:42: should not specify rate limit unit when unlimited"));
  EXPECT_THAT(problems_of(with_limit("unit: day, replaces: [ { name: '' } ]")),
              ElementsAre("4:42: should not have an empty replaces entry"));
  EXPECT_THAT(problems_of(with_limit("unit: day, name: n, replaces: [ { name: n } ]")),
              ElementsAre("4:51: replaces should not contain name of same descriptor"));
  EXPECT_THAT(
      problems_of("domain: d\ndescriptors:\n  - { key: k, value: v, share_threshold: true }\n"),
      ElementsAre("3:42: share_threshold can only be used with wildcard values (containing '*'), "
                  "but found key 'k_v'"));
  EXPECT_THAT(problems_of("domain: d\nratelimits: 1\n"),
              ElementsAre("2:1: config error, unknown key 'ratelimits'"));
  EXPECT_THAT(problems_of("domain: d\ndescriptors:\n  - { key: k, shadow_mod: true }\n"),
              ElementsAre("3:15: config error, unknown key 'shadow_mod' (did you mean "
                          "\"shadow_mode\"?)"));
  EXPECT_THAT(problems_of("domain: d\n0.25: x\n"),
              ElementsAre("2:1: config error, key is not of type string: 0.25"));
  EXPECT_THAT(problems_of("domain: d\ndescriptors:\n  - a\n  - b\n"),
              ElementsAre("3:5: config error, yaml file contains list of type other than map: a",
                          "4:5: config error, yaml file contains list of type other than map: b"));
  EXPECT_THAT(problems_of("domain: [\n"), ElementsAre(HasSubstr("error loading config file: ")));
  EXPECT_THAT(
      problems_of(with_limit("unit: day, requests_per_unit: many")),
      ElementsAre("4:49: error loading config file: \"requests_per_unit\" is a whole number "
                  "from 0 to 4294967295, not \"many\""));
  EXPECT_THAT(problems_of(with_limit("unit: day, requests_per_unit: 4294967296")),
              ElementsAre(HasSubstr("a whole number from 0 to 4294967295")));
  EXPECT_THAT(problems_of(with_limit("unit: day", "    shadow_mode: perhaps\n")),
              ElementsAre(HasSubstr("\"shadow_mode\" is true or false")));
}

TEST(ReadRules, ReportsAllProblemsInTheOrderOfTheFile) {
  EXPECT_THAT(problems_of("descriptors:\n  - { key: '', rate_limit: { unit: x } }\n  - 3\n"),
              ElementsAre(HasSubstr("empty domain"), HasSubstr("2:12: descriptor has empty key"),
                          HasSubstr("2:36: invalid rate limit unit 'x'"),
                          HasSubstr("3:5: config error, yaml file contains list")));
}

TEST(ReadRules, MarksThePositionWithACaret) {
  const ReadRulesResult loaded = read_rules({{.name = "x.yaml", .text = with_limit("unit: foo")}});
  EXPECT_EQ(loaded.problems(),
            "x.yaml:4:25: invalid rate limit unit 'foo'\n"
            "      rate_limit: { unit: foo }\n"
            "                          ^\n");
}

// Pairs that are equal only when joined are different.
TEST(ReadRules, ComparesDuplicatesByKeyAndValue) {
  EXPECT_THAT(
      problems_of("domain: d\ndescriptors:\n  - { key: a_b, value: c }\n  - { key: a, value: "
                  "b_c }\n  - { key: a_b_c }\n"),
      ElementsAre());
  EXPECT_THAT(problems_of("domain: d\ndescriptors:\n  - { key: a }\n  - { key: a, value: '' }\n"),
              ElementsAre(HasSubstr("duplicate descriptor composite key 'd.a'")));
  EXPECT_THAT(
      problems_of("domain: d\ndescriptors:\n  - { key: a, value: b* }\n  - { key: a, value: "
                  "b* }\n"),
      ElementsAre(HasSubstr("duplicate descriptor composite key 'd.a_b*'")));
}

TEST(ReadRules, AllowsADomainInOneFileUnlessMerged) {
  const auto two = [](const ReadOptions& options, std::string_view second) {
    return read_rules({{.name = "a.yaml", .text = "domain: d\ndescriptors: [ { key: a } ]"},
                       {.name = "b.yaml", .text = std::string{second}}},
                      options);
  };
  EXPECT_EQ(two({}, "domain: d\ndescriptors: [ { key: b } ]").problems(),
            "b.yaml:1:9: duplicate domain 'd' in config file\n  domain: d\n          ^\n");
  const ReadRulesResult merged =
      two({.merge_domains = true}, "domain: d\ndescriptors: [ { key: b } ]");
  ASSERT_NE(merged.rules, nullptr) << merged.problems();
  EXPECT_EQ(merged.rules->domains.at("d").root.children.size(), 2U);
  EXPECT_THAT(two({.merge_domains = true}, "domain: d\ndescriptors: [ { key: a } ]").problems(),
              HasSubstr("duplicate descriptor composite key 'd.a' (the first is at a.yaml:2:16)"));
  EXPECT_NE(two({}, "domain: e").rules, nullptr);
}

TEST(ReadRules, AcceptsEveryUnitInAnyCase) {
  using std::chrono::hours;
  const std::vector<std::tuple<const char*, Unit, Nanos>> units = {
      {"SECOND", Unit::second, std::chrono::seconds{1}},
      {"Minute", Unit::minute, std::chrono::minutes{1}},
      {"hour", Unit::hour, hours{1}},
      {"day", Unit::day, hours{24}},
      {"WeeK", Unit::week, hours{24 * 7}},
      {"month", Unit::month, hours{24 * 30}},
      {"year", Unit::year, hours{24 * 365}}};
  for (const auto& [name, unit, length] : units) {
    const auto all = rules(with_limit("unit: " + std::string{name} + ", requests_per_unit: 7"));
    EXPECT_EQ(only_rule(all).unit, unit);
    const auto& window = std::get<core::Window>(only_rule(all).limit);
    EXPECT_EQ(window.period, length);
    EXPECT_EQ(window.count, 7);
    EXPECT_FALSE(window.from_first);
  }
}

TEST(ReadRules, AcceptsTheNumbersOfGo) {
  const auto number = [](const std::string& text) {
    return only_rule(rules(with_limit("unit: day, requests_per_unit: " + text))).requests_per_unit;
  };
  EXPECT_EQ(number("0"), 0U);
  EXPECT_EQ(number("1_000"), 1000U);
  EXPECT_EQ(number("0x10"), 16U);
  EXPECT_EQ(number("0XFF_FF"), 65535U);
  EXPECT_EQ(number("0o17"), 15U);
  EXPECT_EQ(number("017"), 15U);
  EXPECT_EQ(number("0b11"), 3U);
  EXPECT_EQ(number("0xffffffff"), 4294967295U);
  EXPECT_EQ(number("+5"), 5U);
  EXPECT_EQ(number("+0x1_0"), 16U);
  for (const std::string wrong :
       {"+", "++5", "+-5", "5+", "0x", "0x100000000", "_1", "-1", "08", "1e3", "1 0", "[]"}) {
    EXPECT_THAT(problems_of(with_limit("unit: day, requests_per_unit: " + wrong)),
                ElementsAre(HasSubstr("a whole number from 0 to 4294967295")));
  }
}

TEST(ReadRules, AcceptsTheBooleansOfGo) {
  const auto with_flag = [](const std::string& word) {
    return with_limit("unit: day, requests_per_unit: 1", "    shadow_mode: " + word + "\n");
  };
  for (const char* yes :
       {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"}) {
    EXPECT_TRUE(only_rule(rules(with_flag(yes))).shadow) << yes;
  }
  for (const char* no :
       {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}) {
    EXPECT_FALSE(only_rule(rules(with_flag(no))).shadow) << no;
  }
  for (const char* neither : {"yEs", "tRUE", "oN", "t", "1", "''"}) {
    EXPECT_THAT(problems_of(with_flag(neither)),
                ElementsAre(HasSubstr("\"shadow_mode\" is true or false, not ")))
        << neither;
  }
}

// A quoted value is a text, and a decimal point makes a number.
TEST(ReadRules, RefusesValuesThatGoDoesNotConvert) {
  EXPECT_THAT(problems_of(with_limit("unit: day, requests_per_unit: \"5\"")),
              ElementsAre(HasSubstr("4:49: error loading config file: \"requests_per_unit\" is a "
                                    "whole number")));
  EXPECT_THAT(
      problems_of(with_limit("unit: day, requests_per_unit: 5", "    shadow_mode: \"true\"\n")),
      ElementsAre(HasSubstr("\"shadow_mode\" is true or false")));
  for (const char* number : {"1.0", "1.10", "1e3", ".5", "-2.5", "99999999999999999999"}) {
    EXPECT_THAT(problems_of("domain: d\ndescriptors:\n  - { key: k, value: " + std::string{number} +
                            " }\n"),
                ElementsAre(HasSubstr("3:22: error checking config: ")))
        << number;
  }
  for (const char* text :
       {"1", "-1", "'1.0'", "1.2.3", "1e", "e3", "10.0.0.1", "v1.0", "1-2", "+"}) {
    EXPECT_THAT(
        problems_of("domain: d\ndescriptors:\n  - { key: k, value: " + std::string{text} + " }\n"),
        ElementsAre())
        << text;
  }
}

// Anchors add fields; the order of the file decides.
TEST(ReadRules, MergesAnchorsAsGoDoes) {
  const auto loaded = rules(
      "domain: d\ndescriptors:\n"
      "  - &base { key: a, rate_limit: { unit: day, requests_per_unit: 5, name: n } }\n"
      "  - { <<: *base, key: b, rate_limit: { requests_per_unit: 7 } }\n"
      "  - { rate_limit: { unit: hour, requests_per_unit: 9 }, <<: *base, key: c }\n"
      "---\n");
  const auto& children = loaded->domains.at("d").root.children;
  ASSERT_EQ(children.size(), 3u);
  EXPECT_EQ(children[1]->rule->requests_per_unit, 7u);
  EXPECT_EQ(children[1]->rule->unit, Unit::day);
  EXPECT_EQ(children[1]->rule->name, "n");
  EXPECT_EQ(children[2]->rule->requests_per_unit, 5u);
  EXPECT_EQ(children[2]->rule->unit, Unit::day);
}

TEST(ReadRules, ReadsTheExtensions) {
  const auto sliding =
      rules(with_limit("per: 5m, requests_per_unit: 7, algorithm: sliding_window"));
  EXPECT_EQ(std::get<core::SlidingCounter>(only_rule(sliding).limit).period,
            std::chrono::minutes{5});
  EXPECT_EQ(only_rule(sliding).unit, Unit::unknown);
  const auto bucket = rules(with_limit("unit: second, requests_per_unit: 7, burst: 20"));
  EXPECT_EQ(core::capacity(only_rule(bucket).limit), 20);
  EXPECT_TRUE(std::holds_alternative<core::Bucket>(only_rule(bucket).limit));
  const auto plain =
      rules(with_limit("unit: second, requests_per_unit: 7, algorithm: token_bucket"));
  EXPECT_EQ(core::capacity(only_rule(plain).limit), 7);
  const auto date = rules(with_limit("unit: month, requests_per_unit: 7, calendar: Europe/Berlin"));
  EXPECT_TRUE(std::holds_alternative<core::CalendarWindow>(only_rule(date).limit));
  // A period with the length of a unit is that unit.
  EXPECT_EQ(only_rule(rules(with_limit("per: 60s, requests_per_unit: 7"))).unit, Unit::minute);
}

TEST(ReadRules, ReportsProblemsOfTheExtensions) {
  EXPECT_THAT(problems_of(with_limit("unit: day, algorithm: leaky")),
              ElementsAre(HasSubstr("4:41: \"algorithm\" is fixed_window, sliding_window, "
                                    "token_bucket, not \"leaky\"")));
  EXPECT_THAT(problems_of(with_limit("unit: day, algorithm: fixed_window, burst: 3")),
              ElementsAre(HasSubstr("\"burst\" needs algorithm: token_bucket")));
  EXPECT_THAT(problems_of(with_limit("unit: day, per: 5m")),
              ElementsAre(HasSubstr("\"per\" replaces \"unit\"")));
  EXPECT_THAT(problems_of(with_limit("per: 5 parsecs")),
              ElementsAre(HasSubstr("4:25: unknown unit")));
  EXPECT_THAT(
      problems_of(with_limit("unit: hour, calendar: Europe/Berlin")),
      ElementsAre(HasSubstr("4:41: \"calendar\" needs a fixed_window with unit day, week")));
  EXPECT_THAT(problems_of(with_limit("unit: day, requests_per_unit: 1, calendar: Europe/Berln")),
              ElementsAre(HasSubstr("Europe/Berlin")));
}

// An ignored extension must be valid: it would fail once the rule is corrected.
TEST(ReadRules, ReportsProblemsOfIgnoredExtensions) {
  EXPECT_THAT(problems_of(with_limit("unlimited: true, algorithm: nonsense, burst: -4")),
              ElementsAre(HasSubstr("4:47: \"algorithm\" is fixed_window"),
                          HasSubstr("4:64: error loading config file: \"burst\" is a whole")));
  EXPECT_THAT(problems_of(with_limit("unlimited: true, calendar: Nowhere/City")),
              ElementsAre(HasSubstr("4:46: ")));
  EXPECT_THAT(problems_of(with_limit("unlimited: true, per: 5m")),
              ElementsAre("4:41: should not specify \"per\" when unlimited"));
  for (const std::string_view none : {"requests_per_unit: 0, ", ""}) {
    const auto wrong = [&](std::string_view more) {
      return problems_of(with_limit("unit: day, " + std::string{none} + std::string{more}));
    };
    EXPECT_THAT(wrong("calendar: Nowhere/City"), ElementsAre(HasSubstr("Nowhere/City")));
    EXPECT_THAT(wrong("burst: -4"), ElementsAre(HasSubstr("\"burst\" is a whole number")));
    EXPECT_THAT(wrong("algorithm: token_bucket"), ElementsAre());
    EXPECT_THAT(wrong("burst: 0"), ElementsAre());
    EXPECT_THAT(wrong("algorithm: sliding_window"), ElementsAre());
    EXPECT_THAT(wrong("calendar: Europe/Berlin"), ElementsAre());
  }
}

// A valid ignored extension is no error: files may have defaults for all limits.
TEST(ReadRules, WarnsOfIgnoredExtensions) {
  const ReadRulesResult loaded =
      read_rules({{.name = "x.yaml", .text = with_limit("unlimited: true, burst: 4")}});
  ASSERT_NE(loaded.rules, nullptr) << loaded.problems();
  ASSERT_EQ(loaded.files[0].warnings.size(), 1U);
  EXPECT_EQ(loaded.files[0].warnings[0].message,
            "\"burst\" has no meaning when unlimited: it is ignored");
}

// A map of the configuration with its surroundings, its fields, and the fields that have no meaning
// in it.
struct Example {
  std::string_view before;
  std::vector<std::pair<std::string_view, std::string_view>> fields;
  std::string_view after;

  // With another value of one field; none: without the field.
  std::string with(std::string_view field, std::optional<std::string_view> value) const {
    std::string text{before};
    for (const auto& [name, usual] : fields) {
      const std::string_view said = name == field ? value.value_or("") : usual;
      const bool is_there = name == field ? value.has_value() : !usual.empty();
      if (is_there) text += "\"" + std::string{name} + "\": " + std::string{said} + ", ";
    }
    return text + std::string{after};
  }
};

const std::vector<Example>& examples() {
  constexpr std::string_view limit = "{ domain: d, descriptors: [ { key: k, rate_limit: { ";
  constexpr std::string_view end = "} } ] }";
  static const std::vector<Example> all = {
      {"{ ", {{"domain", "d"}, {"descriptors", "[ { key: k } ]"}}, "}"},
      {"{ domain: d, descriptors: [ { ",
       {{"key", "k"},
        {"value", "v*"},
        {"rate_limit", "{ unit: day }"},
        {"descriptors", "[ { key: l } ]"},
        {"shadow_mode", "true"},
        {"quota_mode", "true"},
        {"detailed_metric", "true"},
        {"value_to_metric", "true"},
        {"share_threshold", "true"},
        {"metadata", "{ a: b }"}},
       "} ] }"},
      {limit,
       {{"unit", "day"},
        {"requests_per_unit", "7"},
        {"unlimited", "false"},
        {"name", "n"},
        {"replaces", "[ { name: m } ]"},
        {"algorithm", "token_bucket"},
        {"burst", "9"},
        {"per", ""},
        {"calendar", ""}},
       end},
      {limit,
       {{"unit", "day"},
        {"requests_per_unit", "7"},
        {"algorithm", "fixed_window"},
        {"burst", ""},
        {"calendar", "Europe/Berlin"}},
       end},
      {limit,
       {{"unit", ""}, {"requests_per_unit", "7"}, {"per", "5m"}, {"algorithm", "sliding_window"}},
       end},
      {limit, {{"unit", ""}, {"requests_per_unit", "10"}, {"per", ""}}, end},
      {limit,
       {{"unlimited", "true"},
        {"unit", ""},
        {"requests_per_unit", ""},
        {"name", "n"},
        {"algorithm", ""},
        {"burst", ""},
        {"per", ""},
        {"calendar", ""}},
       end},
      {"{ domain: d, descriptors: [ { key: k, rate_limit: { unit: day, replaces: [ { ",
       {{"name", "m"}},
       "} ] } } ] }"},
  };
  return all;
}

void tell(std::string& text, const DescriptorNode& node) {
  text += fmt::format("{}={} {}{}{}", node.key, node.value, node.is_wildcard, node.value_to_metric,
                      node.shares_counter);
  if (const auto& rule = node.rule) {
    text += fmt::format(" {} {}{}{}{} {} {} {} {} {}", rule->requests_per_unit, rule->unlimited,
                        rule->shadow, rule->quota, rule->detailed, rule->name,
                        fmt::join(rule->replaces, ","), policy::to_text(rule->limit), rule->tail,
                        rule->metadata);
  }
  text += " {";
  for (const auto& child : node.children) tell(text, *child);
  text += "}\n";
}

// The result of a file: rules, or its problems.
std::string outcome_of(const std::string& yaml) {
  const ReadRulesResult loaded = read_rules({{.name = "x.yaml", .text = yaml}});
  EXPECT_EQ(loaded.rules == nullptr, !loaded.problems().empty()) << yaml;
  std::string text;
  for (const auto* all : {&loaded.files[0].problems, &loaded.files[0].warnings}) {
    for (const policy::Problem& problem : *all) text += problem.message + "\n";
  }
  if (loaded.rules == nullptr) return text;
  for (const auto& [name, domain] : loaded.rules->domains) tell(text += name, domain.root);
  return text;
}

// A field without a value counts as absent.
TEST(ReadRules, TreatsNullAsAbsent) {
  for (const Example& example : examples()) {
    for (const auto& [field, usual] : example.fields) {
      const std::string absent = outcome_of(example.with(field, std::nullopt));
      for (const std::string_view null : {"", "~", "null"}) {
        EXPECT_EQ(outcome_of(example.with(field, null)), absent) << example.with(field, null);
      }
    }
  }
  EXPECT_THAT(problems_of(with_limit("requests_per_unit: 10, per: ")),
              ElementsAre("4:17: invalid rate limit unit ''"));
  EXPECT_EQ(problems_of(with_limit("requests_per_unit: 10, unit: ~, per: 5m")).size(), 0U);
}

// Any value in any field gives either rules or a problem.
TEST(ReadRules, AcceptsOrReportsAnyValueAnywhere) {
  for (const Example& example : examples()) {
    for (const auto& [field, usual] : example.fields) {
      for (const std::string_view value :
           {"''", "[]", "{}", "[ ~ ]", "{ ~: ~ }", "0", "7", "-1", "1.5", "true", "x", "'*'"}) {
        (void)outcome_of(example.with(field, value));
      }
    }
  }
}

// Files of envoyproxy/ratelimit work as they are: a misplaced field is a warning, not an error.
TEST(ReadRules, WarnsOfMisplacedFields) {
  const ReadRulesResult loaded =
      read_rules({{.name = "x.yaml", .text = with_limit("unit: day, shadow_mode: true")}});
  ASSERT_NE(loaded.rules, nullptr);
  EXPECT_FALSE(only_rule(loaded.rules).shadow);
  ASSERT_EQ(loaded.files[0].warnings.size(), 1U);
  EXPECT_THAT(loaded.files[0].warnings[0].message, HasSubstr("has no meaning in a rate_limit"));
}

TEST(ReadRules, KeepsMetadataAsJson) {
  const auto all = rules(
      with_limit("unit: day", "    metadata: { team: a, level: 3, on: true, list: [ '1', ~ ] }\n"));
  EXPECT_EQ(only_rule(all).metadata, R"({"level":3,"list":["1",null],"on":true,"team":"a"})");
  const auto words = rules(with_limit("unit: day", "    metadata: { a: y, b: 'y', c: Off }\n"));
  EXPECT_EQ(only_rule(words).metadata, R"({"a":true,"b":"y","c":false})");
}

class ReadRulesDirectory : public ::testing::Test {
 protected:
  void write(const std::string& name, std::string_view text) {
    std::ofstream(folder_ / name) << text;
  }

  const support::Folder own_;
  const std::filesystem::path& folder_ = own_.path();
};

TEST_F(ReadRulesDirectory, ReadsEveryYamlFile) {
  write("b.yml", "domain: b");
  write("a.yaml", "domain: a");
  write("README.md", "no rules");
  write(".hidden.yaml", "domain: [");
  const ReadRulesResult loaded = read_rules(folder_.string());
  ASSERT_NE(loaded.rules, nullptr) << loaded.problems();
  EXPECT_EQ(loaded.rules->domains.size(), 2U);
  EXPECT_EQ(loaded.files[0].source.name, (folder_ / "a.yaml").string());
}

TEST_F(ReadRulesDirectory, WarnsWhenItIsEmpty) {
  const ReadRulesResult empty = read_rules(folder_.string());
  EXPECT_EQ(empty.problems(), "");
  EXPECT_THAT(empty.warning, HasSubstr("has no *.yaml or *.yml file: no domain has rules"));
  ASSERT_NE(empty.rules, nullptr);
  EXPECT_TRUE(empty.rules->domains.empty());
  EXPECT_THAT(read_rules((folder_ / "none.yaml").string()).problems(), HasSubstr("cannot open"));
}

}  // namespace
}  // namespace weir::envoy
