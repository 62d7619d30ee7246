#include "policy/overrides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/policy_file.h"

namespace weir::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Looks up subjects among patterns: returns the pattern as written, or "none".
class Patterns {
 public:
  explicit Patterns(std::vector<std::string> written) : written_(std::move(written)) {
    std::vector<Override> overrides;
    for (const std::string& pattern : written_) overrides.push_back({Pattern::of(pattern), {}});
    index_ = PatternIndex(overrides);
  }

  std::string key(std::string_view key) const {
    return shown(index_.find({.key = key, .parts = {}}));
  }
  std::string parts(const Parts& parts) const {
    return shown(index_.find({.key = {}, .parts = parts.all()}));
  }
  std::string covering(std::string_view pattern) const {
    return shown(index_.covering(Pattern::of(pattern)));
  }

 private:
  std::string shown(std::optional<std::size_t> position) const {
    return position ? written_[*position] : "none";
  }

  std::vector<std::string> written_;
  PatternIndex index_;
};

TEST(Patterns, MatchAKeyExactlyOrByItsStart) {
  const Patterns patterns({"alice", "team-*", "bob"});
  EXPECT_EQ(patterns.key("alice"), "alice");
  EXPECT_EQ(patterns.key("bob"), "bob");
  EXPECT_EQ(patterns.key("alic"), "none");
  EXPECT_EQ(patterns.key("alice2"), "none");
  EXPECT_EQ(patterns.key("team-7"), "team-*");
  EXPECT_EQ(patterns.key("team-"), "team-*");
  EXPECT_EQ(patterns.key("team"), "none");
  EXPECT_EQ(patterns.key(""), "none");
}

TEST(Patterns, PreferTheExactAndThenTheLongest) {
  const Patterns patterns({"a*", "ab*", "abc", "abcd*", "*", "abe*", "b*"});
  EXPECT_EQ(patterns.key("abc"), "abc");
  EXPECT_EQ(patterns.key("abcd"), "abcd*");
  EXPECT_EQ(patterns.key("abcde"), "abcd*");
  EXPECT_EQ(patterns.key("abcx"), "ab*");
  EXPECT_EQ(patterns.key("abd"), "ab*");  // sorts after abcd
  EXPECT_EQ(patterns.key("abex"), "abe*");
  EXPECT_EQ(patterns.key("abf"), "ab*");
  EXPECT_EQ(patterns.key("az"), "a*");
  EXPECT_EQ(patterns.key("ba"), "b*");
  EXPECT_EQ(patterns.key("c"), "*");
  EXPECT_EQ(patterns.key("A"), "*");
}

// The order of patterns does not matter for keys.
TEST(Patterns, FindTheSameInAnyOrder) {
  const Patterns patterns({"b*", "abe*", "*", "abcd*", "abc", "ab*", "a*"});
  EXPECT_EQ(patterns.key("abd"), "ab*");
  EXPECT_EQ(patterns.key("abc"), "abc");
  EXPECT_EQ(patterns.key("zzz"), "*");
}

// Keys are bytes, including those above 127.
TEST(Patterns, MatchAnyBytes) {
  const Patterns patterns({"\xff\xfe*", "\xff", "ü*"});
  EXPECT_EQ(patterns.key("\xff\xfe\xfd"), "\xff\xfe*");
  EXPECT_EQ(patterns.key("\xff"), "\xff");
  EXPECT_EQ(patterns.key("übung"), "ü*");
  EXPECT_EQ(patterns.key("u"), "none");
}

TEST(Patterns, MatchPartsByNameAndValue) {
  const Patterns patterns({"user=alice", "user=a*", "sku=9", "user", "alice", "sku=*"});
  EXPECT_EQ(patterns.parts({{"user", "alice"}}), "user=alice");
  EXPECT_EQ(patterns.parts({{"user", "anna"}}), "user=a*");
  EXPECT_EQ(patterns.parts({{"user", "bob"}}), "none");
  EXPECT_EQ(patterns.parts({{"user", "bob"}, {"sku", "9"}}), "sku=9");
  EXPECT_EQ(patterns.parts({{"user", "bob"}, {"sku", "8"}}), "sku=*");
  EXPECT_EQ(patterns.parts({{"name", "alice"}}), "none");
  // A whole key that looks like a part is still a whole key.
  EXPECT_EQ(patterns.key("user=alice"), "user=alice");
  EXPECT_EQ(patterns.key("user=anna"), "user=a*");
  EXPECT_EQ(patterns.key("alice"), "alice");
}

// A value may contain '=': the first one ends the name.
TEST(Patterns, EndANameAtTheFirstEqualsSign) {
  const Patterns patterns({"query=a=b", "query=a=*"});
  EXPECT_EQ(patterns.parts({{"query", "a=b"}}), "query=a=b");
  EXPECT_EQ(patterns.parts({{"query", "a=c"}}), "query=a=*");
  EXPECT_EQ(patterns.parts({{"query=a", "b"}}), "none");
}

TEST(Patterns, PreferAmongPartsTheExactTheLongestTheFirst) {
  const Patterns patterns({"*", "b=x", "a=x", "b=lon*", "a=long*", "a=*", "b=*"});
  EXPECT_EQ(patterns.parts({{"a", "x"}, {"b", "x"}}), "b=x");
  EXPECT_EQ(patterns.parts({{"a", "longer"}, {"b", "longer"}}), "a=long*");
  EXPECT_EQ(patterns.parts({{"a", "longer"}, {"b", "x"}}), "b=x");
  EXPECT_EQ(patterns.parts({{"b", "y"}, {"a", "y"}}), "a=*");
  EXPECT_EQ(patterns.parts({{"c", "x"}}), "*");
}

TEST(Patterns, FindTheOneThatCoversAnother) {
  const Patterns patterns({"a*", "abc*", "abx", "*"});
  EXPECT_EQ(patterns.covering("abx"), "abx");
  EXPECT_EQ(patterns.covering("aby"), "a*");
  EXPECT_EQ(patterns.covering("ab*"), "a*");
  EXPECT_EQ(patterns.covering("abc*"), "abc*");
  EXPECT_EQ(patterns.covering("abx*"), "a*");
  EXPECT_EQ(patterns.covering("b*"), "*");
  EXPECT_EQ(patterns.covering("*"), "*");
}

TEST(Patterns, AreFoundAmongThousands) {
  std::vector<std::string> written;
  for (int i = 0; i < 3000; ++i) written.push_back("key" + std::to_string(i));
  std::string nested;
  for (int i = 0; i < 500; ++i) written.push_back((nested += 'x') + "*");
  const Patterns patterns(written);
  for (int i = 0; i < 3000; i += 7) {
    const std::string key = "key" + std::to_string(i);
    EXPECT_EQ(patterns.key(key), key);
  }
  EXPECT_EQ(patterns.key(std::string(400, 'x') + "y"), std::string(400, 'x') + "*");
  EXPECT_EQ(patterns.key(std::string(4096, 'x')), std::string(500, 'x') + "*");
}

// ---- As they are written

std::vector<std::string> wrong(const std::string& overrides) {
  Problems problems;
  read_policies({"weir.yaml", "policies:\n  p:\n    limits: [ 5/s ]\n    overrides: " + overrides},
                problems);
  std::vector<std::string> all;
  for (const Problem& problem : problems) {
    all.push_back(std::to_string(problem.place.line) + ":" + std::to_string(problem.place.column) +
                  ": " + problem.message);
  }
  return all;
}

TEST(Overrides, AreALimitAListOrAMap) {
  Problems problems;
  const PolicySet set = read_policies({"weir.yaml", R"(
policies:
  p:
    limits: [ 5/s ]
    shadow: true
    overrides:
      alice: 50/s
      "team-*": [ 500/s, 100000/day ]
      user=bob: { limits: [ 7/s ] }
      carol: { limit: 8/s, name: carols, shadow: false }
)"},
                                      problems);
  EXPECT_TRUE(problems.empty());
  const auto& overrides = set.at("p").overrides;
  ASSERT_EQ(overrides.size(), 4u);
  EXPECT_EQ(overrides[0].pattern.text, "alice");
  EXPECT_FALSE(overrides[0].pattern.prefix);
  EXPECT_EQ(overrides[1].pattern.text, "team-");
  EXPECT_TRUE(overrides[1].pattern.prefix);
  EXPECT_EQ(overrides[1].limits.size(), 2u);
  EXPECT_EQ(overrides[2].limits.size(), 1u);
  EXPECT_EQ(overrides[3].limits[0].name, "carols");
  // `shadow: true` of the policy applies to overrides, too.
  for (const Override& own : overrides) EXPECT_TRUE(own.limits[0].shadow);
}

TEST(Overrides, ReportInvalidEntries) {
  EXPECT_THAT(wrong("{}"), IsEmpty());
  EXPECT_THAT(wrong("[ a ]"), ElementsAre("4:16: \"overrides\" is a map from keys, or their start "
                                          "and a star, to limits, not a list"));
  EXPECT_THAT(wrong("{ a: 5/sec }"), ElementsAre(HasSubstr("4:23: unknown unit \"sec\"")));
  EXPECT_THAT(wrong("{ a: }"),
              ElementsAre(HasSubstr("a limit is a text like 100/s or a map, not nothing")));
  EXPECT_THAT(wrong("{ a: [] }"), ElementsAre(HasSubstr("at least one limit is needed")));
  EXPECT_THAT(wrong("{ a: 1/s, a: 2/s }"),
              ElementsAre("4:26: \"a\" is given twice, first on line 4"));
  EXPECT_THAT(wrong("{ a*b: 1/s }"), ElementsAre("4:18: a star must be at the end: write \"a*\""));
  EXPECT_THAT(wrong("{ \"\": 1/s }"), ElementsAre(HasSubstr("a key has at least one byte")));
  EXPECT_THAT(wrong("{ ? " + std::string(4097, 'k') + " : 1/s }"),
              ElementsAre(HasSubstr("a key of 4097 bytes is too long (at most 4096)")));
  EXPECT_THAT(wrong("{ a: { limits: [ 1/s ], shadow: true } }"),
              ElementsAre("4:40: an override has no field \"shadow\""));
  EXPECT_THAT(wrong("{ a: [ { limit: 1/s, name: x }, { limit: 2/s, name: x } ] }"),
              ElementsAre(HasSubstr("two limits have the name \"x\"")));
  std::string many = "{ a: [ 1/s";
  for (int i = 0; i < 16; ++i) many += ", 1/s";
  EXPECT_THAT(wrong(many + " ] }"), ElementsAre(HasSubstr("17 limits in one decision")));
}

}  // namespace
}  // namespace weir::policy
