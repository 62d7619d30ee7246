#include "policy/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> all_wrong(const std::string& text) {
  Problems problems;
  (void)parse_yaml({"test.yaml", text}, problems);
  std::vector<std::string> lines;
  for (const auto& [place, message] : problems) {
    lines.push_back(std::to_string(place.line) + ":" + std::to_string(place.column) + ": " +
                    message);
  }
  return lines;
}

std::string wrong(const std::string& text) {
  const auto all = all_wrong(text);
  return all.empty() ? "nothing" : all.front();
}

std::shared_ptr<const YamlNode> parsed(const std::string& text) {
  Problems problems;
  auto root = parse_yaml({"test.yaml", text}, problems);
  EXPECT_TRUE(problems.empty()) << problems[0].message;
  return root != nullptr ? root : std::make_shared<const YamlNode>();
}

std::string place_of(const YamlNode& node) {
  return std::to_string(node.place.line) + ":" + std::to_string(node.place.column);
}

std::string repeated(int times, const std::string& text) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// ---- The tree

TEST(Yaml, KnowsThePositionsOfNodes) {
  const auto root = parsed("a: 1\nb:\n  - x\n  - \"y\"\n");
  ASSERT_TRUE(root->is_map());
  const YamlNode& list = *root->find("b");
  EXPECT_EQ(list.items[0]->place.line, 3);
  EXPECT_EQ(list.items[0]->place.column, 5);
  EXPECT_EQ(list.items[1]->text_place().column, 6);
  EXPECT_EQ(root->fields[1].place.line, 2);
}

TEST(Yaml, ReadsAnEmptyValueAsNull) {
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

TEST(Yaml, MergesTheFieldsThatAMapDoesNotHave) {
  const auto root = parsed("x-a: &a { a: 1, b: 2 }\nb: { c: 3, <<: *a, a: 4 }\n");
  const YamlNode& merged = *root->find("b");
  ASSERT_EQ(merged.fields.size(), 3u);
  EXPECT_EQ(merged.find("a")->text, "4");
  EXPECT_EQ(merged.find("b")->text, "2");
  EXPECT_EQ(merged.find("c")->text, "3");
}

// Go's yaml.v2 unmarshals into structs field by field, in the order of the file.
TEST(Yaml, CanBeReadAsGoDoes) {
  Problems problems, warnings;
  const auto root = parse_yaml_as_go({"test.yaml",
                                      "base: &base { unit: day, limit: { a: 1, b: 2 } }\n"
                                      "other: &other { unit: hour, c: 9 }\n"
                                      "first: { <<: *base, unit: minute, limit: { b: 3 } }\n"
                                      "last: { unit: minute, limit: { b: 3 }, <<: *base }\n"
                                      "both: { <<: [ *base, *other ] }\n"
                                      "last: { unit: week }\n"
                                      "---\nmore: 1\n"},
                                     problems, warnings);
  ASSERT_NE(root, nullptr);
  EXPECT_THAT(problems, testing::IsEmpty());
  const auto text = [&](std::string_view map, std::string_view field) {
    return root->find(map)->find(field)->text;
  };
  const auto limit = [&](std::string_view map, std::string_view field) {
    return root->find(map)->find("limit")->find(field)->text;
  };
  EXPECT_EQ(text("base", "unit"), "day");
  EXPECT_EQ(limit("base", "b"), "2") << "what is merged stays as it is";
  EXPECT_EQ(text("first", "unit"), "minute");
  EXPECT_EQ(limit("first", "a"), "1");
  EXPECT_EQ(limit("first", "b"), "3");
  EXPECT_EQ(text("last", "unit"), "week");
  EXPECT_EQ(limit("last", "a"), "1");
  EXPECT_EQ(limit("last", "b"), "2") << "it stands behind the other";
  EXPECT_EQ(text("both", "unit"), "day");
  EXPECT_EQ(text("both", "c"), "9");
  EXPECT_EQ(root->find("more"), nullptr);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].message, "\"last\" is given twice, first on line 4: the last one counts");
  EXPECT_EQ(warnings[1].message, "only the lines above this \"---\" is used");
}

TEST(Yaml, MergesMapsAlone) {
  EXPECT_EQ(wrong("a: { <<: 5 }"), "1:10: \"<<\" merges a map or a list of maps, not \"5\"");
  EXPECT_EQ(wrong("a: { <<: [ {}, 5 ] }"),
            "1:16: \"<<\" merges a map or a list of maps, not \"5\"");
  EXPECT_EQ(wrong("a: { <<: }"), "1:6: \"<<\" merges a map or a list of maps, not nothing");
}

TEST(Yaml, SharesWhatAliasesName) {
  const auto root = parsed("a: &a [ 1 ]\nb: *a\n");
  EXPECT_EQ(root->find("a"), root->find("b"));
}

TEST(Yaml, ReadsAnEmptyDocumentAsNothing) {
  EXPECT_TRUE(parsed("")->is_null());
  EXPECT_TRUE(parsed("# nothing\n")->is_null());
  EXPECT_TRUE(parsed("---\n...\n")->is_null());
}

TEST(Yaml, RefusesInvalidNamesAndAliases) {
  EXPECT_EQ(wrong("[a, b]: 1\n"), "1:1: a field's name must be a plain text");
  EXPECT_EQ(wrong("a: &a [ *a ]\n"), "1:9: this alias is inside its own anchor");
  EXPECT_EQ(wrong("a: &a { b: *a }\n"), "1:12: this alias is inside its own anchor");
  EXPECT_THAT(wrong("a: \"\\q\"\n"), HasSubstr("not valid YAML: unknown escape character: q"));
}

TEST(Yaml, ReportsAllDuplicateFields) {
  EXPECT_THAT(all_wrong("a: 1\na: 2\nb: { c: 1, c: 2, c: 3 }\n"),
              ElementsAre("2:1: \"a\" is given twice, first on line 1",
                          "3:12: \"c\" is given twice, first on line 3",
                          "3:18: \"c\" is given twice, first on line 3"));
}

// ---- Places

TEST(Yaml, PutsAnEmptyFieldWhereItsNameStands) {
  EXPECT_EQ(place_of(*parsed("a: 1\nb:\n")->find("b")), "2:1");
  EXPECT_EQ(place_of(*parsed("b:   # nothing\n\nc: 1\n")->find("b")), "1:1");
  EXPECT_EQ(place_of(*parsed("a:\n  b:\n  c: 1\n")->find("a")->find("b")), "2:3");
  EXPECT_EQ(place_of(*parsed("{ a: 1, b: , c: 1 }")->find("b")), "1:9");
  EXPECT_EQ(place_of(*parsed("{ a: 1, b }")->find("b")), "1:9");
  EXPECT_EQ(place_of(*parsed("a:\r\nb: 1\r\n")->find("a")), "1:1");
  EXPECT_EQ(place_of(*parsed("a: ~\nb: 1\n")->find("a")), "1:4");
  EXPECT_EQ(place_of(*parsed("{ a: null, b: 1 }")->find("a")), "1:6");
}

TEST(Yaml, PutsAnEmptyItemWhereItsDashStands) {
  const auto root = parsed(
      "a:\n"
      "  - \n"
      "  - 1\n"
      "  -   # nothing\n"
      "  # - a comment\n"
      "\n"
      "  - - \n"
      "    - 2\n"
      "  -\n");
  const auto& items = root->find("a")->items;
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(place_of(*items[0]), "2:3");
  EXPECT_EQ(place_of(*items[2]), "4:3");
  EXPECT_EQ(place_of(*items[3]->items[0]), "7:5");
  EXPECT_EQ(place_of(*items[4]), "9:3");
  EXPECT_EQ(place_of(*parsed("a: &x\n  # none\n  -\n  - 1\n")->find("a")->items[0]), "3:3");
  EXPECT_EQ(place_of(*parsed("a: [ , 1 ]")->find("a")->items[0]), "1:6");
}

TEST(Yaml, PutsATextBehindItsAnchorAndTag) {
  EXPECT_EQ(place_of(*parsed("a: &x  1\n")->find("a")), "1:8");
  EXPECT_EQ(place_of(*parsed("a: !!str &x 1\n")->find("a")), "1:13");
  EXPECT_EQ(parsed("a: &x \"1\"\n")->find("a")->text_place().column, 8);
  EXPECT_EQ(place_of(*parsed("a: &x\n  1\n")->find("a")), "1:4");
}

// After escapes and folded lines, offsets in the value are no columns of the file.
TEST(Yaml, PointsIntoTextsThatAreReadAsTheyAreWritten) {
  const auto third = [](const std::string& text) {
    return parsed(text)->find("a")->text_place().moved(2).column;
  };
  EXPECT_EQ(third("a: 12345"), 6);
  EXPECT_EQ(third("a: '12345'"), 7);
  EXPECT_EQ(third("a: \"\\x312345\""), 4);
  EXPECT_EQ(third("a: 1\n  2345"), 4);
  EXPECT_EQ(third("a: >\n  1\n  2345"), 4);
}

TEST(Yaml, IgnoresAByteOrderMark) {
  EXPECT_EQ(place_of(*parsed("\ufeffa: &x 1\n")->find("a")), "1:7");
}

TEST(Yaml, AcceptsAllKindsOfLineEnds) {
  const auto root = parsed("a: 1\r\nb:\r\n  - x\r\n");
  EXPECT_EQ(root->find("a")->text, "1");
  EXPECT_EQ(place_of(*root->find("b")->items[0]), "3:5");
}

// ---- How much there may be

// Nine levels of nine aliases would expand to 387 million values.
TEST(Yaml, RefusesAliasesThatGrowWithoutEnd) {
  std::string bomb = "a0: &a0 x\n";
  for (int i = 1; i <= 9; ++i) {
    const std::string number = std::to_string(i);
    const std::string below = "*a" + std::to_string(i - 1);
    bomb += "a" + number + ": &a" + number + " [" + repeated(8, below + ",") + below + "]\n";
  }
  EXPECT_THAT(wrong(bomb),
              HasSubstr("7:34: from here on the file has more than 500000 values, those "
                        "that aliases repeat included: write fewer"));
}

TEST(Yaml, RefusesMergesThatGrowWithoutEnd) {
  std::string bomb = "a0: &a0 { k: [" + repeated(100, "1,") + "] }\n";
  for (int i = 1; i <= 60; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " { <<: " + below +
            ", x: " + below + " }\n";
  }
  EXPECT_THAT(wrong(bomb), HasSubstr("more than 500000 values"));
}

// Maps, lists and scalars count as values, names of fields do not. An alias counts all values that
// it repeats.
TEST(Yaml, AcceptsHalfAMillionValues) {
  const auto with = [](int ones) {
    return "x: &x [" + repeated(999, "1,") + "]\na: [" + repeated(498, "*x,") +
           repeated(ones, "1,\n") + "]\n";
  };
  EXPECT_EQ(parsed(with(998))->find("a")->items.size(), 498u + 998u);
  EXPECT_THAT(wrong(with(999)), HasSubstr("1000:1: from here on the file has more than 500000"));
}

TEST(Yaml, FollowsThousandsOfAliases) {
  const auto root = parsed("x: &x { limit: 1/s, name: a }\na: [" + repeated(10'000, "*x,\n") + "]");
  EXPECT_EQ(root->find("a")->items.size(), 10'000u);
}

TEST(Yaml, RefusesNestingThatWouldOverflowTheStack) {
  constexpr int megabyte = 1 << 20;
  for (const std::string open : {"[", "{a: ", "- ", "? ", "{a:\n"}) {
    const std::string deep = repeated(megabyte / static_cast<int>(open.size()), open);
    EXPECT_THAT(wrong(deep), HasSubstr("more than 100 lists and maps inside each other")) << open;
  }
}

TEST(Yaml, RefusesNestingByAliases) {
  std::string deep = "- &a [ 1 ]\n";
  for (int i = 0; i < 50'000; ++i) deep += "- &b [ *a ]\n- &a [ *b ]\n";
  EXPECT_THAT(wrong(deep), HasSubstr("more than " + std::to_string(deep.size()) + " values"));
}

TEST(Yaml, NestsAHundredListsAndMaps) {
  EXPECT_TRUE(parsed(repeated(100, "[") + repeated(100, "]"))->is_list());
  EXPECT_EQ(wrong(repeated(101, "[") + repeated(101, "]")),
            "1:101: more than 100 lists and maps inside each other are too many");
}

TEST(Yaml, RefusesFilesAndLinesThatAreTooLong) {
  EXPECT_EQ(wrong(repeated(1 << 20, "# 3456789abcdef\n") + "\n"),
            "1:1: a file of more than 16 MiB is too long: split it, or make limits in a program");
  EXPECT_EQ(wrong("\n" + std::string((4 << 20) + 1, '#')),
            "2:4194305: a line of more than 4 MiB is too long: break it");
  EXPECT_EQ(wrong("\n" + std::string((4 << 20) - 1, '#') + "\n#"), "nothing");
}

// ---- Invalid characters

TEST(Yaml, RefusesInvalidUtf8) {
  EXPECT_EQ(wrong("a: 1\n# caf\xe9\n"), "2:6: this is not UTF-8: save the file as UTF-8");
  EXPECT_EQ(wrong("\xff\xfe"
                  "a"),
            "1:1: this is not UTF-8: save the file as UTF-8");
  EXPECT_EQ(parsed("grün: 限制\n")->find("grün")->text, "限制");
}

// The parser would treat 0x04 as the end of the file, and NUL as a sign of UTF-16.
TEST(Yaml, RefusesControlCharacters) {
  EXPECT_EQ(wrong(std::string("a: 1\n\0b: 2\n", 11)),
            "2:1: the control character 0x00 is not allowed here: remove it, or save the file as "
            "UTF-8");
  EXPECT_EQ(wrong("a: 1\n\x04\nb: 2\n"),
            "2:1: the control character 0x04 is not allowed here: remove it");
  for (const char c : {'\x01', '\x1b', '\x7f', '\r'}) {
    EXPECT_THAT(wrong(std::string("a: 1") + c + "2\n"), HasSubstr("1:5: the control character"));
  }
  EXPECT_EQ(parsed("a: \"\\x04\"\n")->find("a")->text, "\x04");
}

// ---- Invalid YAML

TEST(Yaml, SaysThatTabsDoNotIndent) {
  const std::string tab = "a tab does not indent in YAML: write blanks";
  EXPECT_EQ(wrong("a:\n\tb:\n\t\tc: 1\n"), "2:1: " + tab);
  EXPECT_EQ(wrong("a:\n  b:\n  \tc: 1\n"), "3:3: " + tab);
  EXPECT_EQ(parsed("a:\t1\t# tabs\n")->find("a")->text, "1");
}

TEST(Yaml, SaysHowToIndent) {
  const std::string odd = "this line is indented unlike any line above, or its colon is missing";
  EXPECT_EQ(wrong("a:\n    b: 1\n   c: 2\n"), "3:4: " + odd);
  EXPECT_EQ(wrong("a: \"b\" c\n"), "1:8: " + odd);
  EXPECT_EQ(wrong("- \"a\"\n  \"b\"\n"),
            "2:3: this line is indented unlike any line above, or its dash is missing");
  EXPECT_EQ(wrong(" a: 1\nb: 2\n"),
            "2:1: this does not belong to the lines above: indent both alike");
}

TEST(Yaml, SaysWhichTextsNeedQuotes) {
  const std::string star = "put a text that starts with * in quotes";
  EXPECT_EQ(wrong("*: 1\n"), "1:1: no anchor above has this name: " + star);
  EXPECT_EQ(wrong("a: *b\n"), "1:4: no anchor above has this name: " + star);
  EXPECT_EQ(wrong("a: * b\n"), "1:5: the name of an anchor is missing: " + star);
  for (const std::string text : {"@a", "`a`", "%a"}) {
    EXPECT_EQ(wrong("a: " + text), "1:4: put a text that starts with this character in quotes");
  }
  EXPECT_THAT(wrong("a: b: c\n"), HasSubstr("1:5: no field can begin here: "));
  EXPECT_THAT(wrong("a:b\nc: d\n"), HasSubstr("write a blank after each colon"));
}

TEST(Yaml, ReportsUnclosedBrackets) {
  EXPECT_EQ(wrong("a: [1, 2\n\n"), "1:4: this is never closed: a ] is missing");
  EXPECT_EQ(wrong("a: {\n b: { c: 1 }\n"), "1:4: this is never closed: a } is missing");
  EXPECT_EQ(wrong("a: { b:{ c: 1 } }"),
            "1:8: a comma or } is missing before this, or a blank behind a colon");
  EXPECT_EQ(wrong("a: [ \"b\" \"c\" ]"), "1:10: a comma or ] is missing before this");
  EXPECT_EQ(wrong("a: [ 1 }"), "1:8: this closes nothing that is open here");
  EXPECT_EQ(wrong("a: {} }"), "1:7: this closes nothing that is open here");
}

TEST(Yaml, ReportsUnclosedQuotes) {
  const std::string open = "this quote is never closed: write another after the text";
  EXPECT_EQ(wrong("a: \"b\nc: 1\n"), "1:4: " + open);
  EXPECT_EQ(wrong("a: 'b\n"), "1:4: " + open);
  EXPECT_EQ(wrong("a: 'it''s\n"), "1:4: " + open);
  EXPECT_EQ(wrong("a: \"b\\\"\n"), "1:4: " + open);
  EXPECT_EQ(wrong("a: { b: \"c }\n"), "1:9: " + open);
  EXPECT_EQ(parsed("a: 'it''s'")->find("a")->text, "it's");
  EXPECT_EQ(parsed("a: ''")->find("a")->text, "");
  EXPECT_EQ(parsed("a: " + std::string(4, '\''))->find("a")->text, "'");
  EXPECT_EQ(parsed("a: \"\\\"\"")->find("a")->text, "\"");
  EXPECT_EQ(parsed("a: |\n  \"b\n")->find("a")->text, "\"b\n");
}

TEST(Yaml, RefusesASecondDocument) {
  EXPECT_EQ(wrong("a: 1\n\n---\nb: 1\n"), "3:1: one file holds one document: remove the \"---\"");
  EXPECT_EQ(parsed("---\na: 1\n---\n# nothing\n")->find("a")->text, "1");
  EXPECT_EQ(parsed("--- { a: 1 }\n...\n")->find("a")->text, "1");
}

// ---- Fields

TEST(CheckFields, RepeatsNoLongNames) {
  Problems problems;
  check_fields(*parsed("? " + std::string(5000, 'k') + "\n: 1\n"), {}, "a policy", problems);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].message, "a policy has no field \"" + std::string(40, 'k') + "…\"");
}

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
