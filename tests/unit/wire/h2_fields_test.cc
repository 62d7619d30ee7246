#include "wire/h2_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::wire {
namespace {

std::vector<std::string> fields_of(std::string lines) {
  std::vector<H2Field> fields;
  append_fields(fields, lines);
  std::vector<std::string> texts;
  for (const H2Field& field : fields) {
    texts.push_back(std::string(field.name) + "=" + std::string(field.value));
  }
  return texts;
}

TEST(H2Fields, AreMadeOfLinesWithLowerCaseNames) {
  EXPECT_THAT(fields_of("Content-Type: Text/Plain\r\nX-A:b\r\nX-Empty: \r\nX-Colon: a:b\r\n"),
              testing::ElementsAre("content-type=Text/Plain", "x-a=b", "x-empty=", "x-colon=a:b"));
  EXPECT_THAT(fields_of(""), testing::IsEmpty());
}

TEST(H2Fields, AreAppendedToExistingOnes) {
  std::vector<H2Field> fields{{":status", "200"}};
  std::string lines = "A: b\r\n";
  append_fields(fields, lines);
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[1].name, "a");
  EXPECT_FALSE(fields[1].lasting);
}

}  // namespace
}  // namespace weir::wire
