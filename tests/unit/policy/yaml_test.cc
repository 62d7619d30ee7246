#include "policy/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::policy {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Node> parsed(const std::string& text) {
  const auto root = parse_yaml({"test.yaml", text});
  EXPECT_TRUE(root) << root.error().message;
  return root ? *root : std::make_shared<const Node>();
}

std::string wrong(const std::string& text) {
  const auto root = parse_yaml({"test.yaml", text});
  if (root) return "nothing";
  const auto& [place, message] = root.error();
  return std::to_string(place.line) + ":" + std::to_string(place.column) + ": " + message;
}

TEST(Yaml, KnowsWhereThingsStand) {
  const auto root = parsed("a: 1\nb:\n  - x\n  - \"y\"\n");
  ASSERT_TRUE(root->is_map());
  const Node& list = *root->find("b");
  EXPECT_EQ(list.items[0]->place.line, 3);
  EXPECT_EQ(list.items[0]->place.column, 5);
  EXPECT_EQ(list.items[1]->text_place().column, 6);
  EXPECT_EQ(root->fields[1].place.line, 2);
}

TEST(Yaml, TakesNothingForNull) {
  const auto root = parsed("a:\nb: ~\nc: null\nd: \"null\"\n");
  EXPECT_TRUE(root->find("a")->is_null());
  EXPECT_TRUE(root->find("b")->is_null());
  EXPECT_TRUE(root->find("c")->is_null());
  EXPECT_TRUE(root->find("d")->is_scalar());
  EXPECT_EQ(root->find("e"), nullptr);
}

TEST(Yaml, FollowsAliasesAndMerges) {
  const auto root = parsed(
      "x-base: &base { a: 1, b: 2 }\n"
      "one: *base\n"
      "two: { <<: *base, b: 3 }\n"
      "three: { <<: [ *base, { c: 4 } ] }\n");
  EXPECT_EQ(root->find("one")->find("a")->text, "1");
  EXPECT_EQ(root->find("two")->find("a")->text, "1");
  EXPECT_EQ(root->find("two")->find("b")->text, "3");
  EXPECT_EQ(root->find("three")->find("c")->text, "4");
}

// Nine levels of nine aliases would be 387 million nodes if they were copied.
TEST(Yaml, SharesWhatAliasesName) {
  std::string bomb = "a0: &a0 x\n";
  for (int i = 1; i <= 20; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 8; ++j) bomb += below + ",";
    bomb += below + "]\n";
  }
  EXPECT_EQ(parsed(bomb)->fields.size(), 21u);
}

TEST(Yaml, RefusesWhatItCannotMean) {
  EXPECT_THAT(wrong("a: [1, 2"), HasSubstr("not valid YAML"));
  EXPECT_THAT(wrong("a: 1\na: 2\n"), HasSubstr("2:1: \"a\" is given twice"));
  EXPECT_THAT(wrong("[a, b]: 1\n"), HasSubstr("plain text"));
  EXPECT_THAT(wrong("--- a\n--- b\n"), HasSubstr("one document"));
  EXPECT_THAT(wrong("a: *unknown\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(wrong("a: &a [ *a ]\n"), HasSubstr("inside what it names"));
}

TEST(Yaml, RefusesNestingThatWouldOverflowTheStack) {
  EXPECT_NE(wrong(std::string(100'000, '[')), "nothing");
  EXPECT_NE(wrong(std::string(100'000, '{')), "nothing");
}

TEST(Yaml, ReadsAnEmptyDocumentAsNothing) { EXPECT_TRUE(parsed("")->is_null()); }

TEST(CheckFields, SuggestsWhatWasMeant) {
  const auto root = parsed("limts: 1\nx-mine: 2\nlimits: 3\n");
  const std::array<std::string_view, 2> known{"limits", "shadow"};
  Problems problems;
  check_fields(*root, known, "a policy", problems);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].message, "a policy has no field \"limts\" (did you mean \"limits\"?)");
}

}  // namespace
}  // namespace weir::policy
