#include "store/redis/digits.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

namespace weir::store::redis {
namespace {

// The number that was parsed and its length; 0: no number.
struct Read {
  std::uint64_t number = 0;
  std::size_t length = 0;
};
Read read(std::string_view text) {
  Read read;
  const char* const end = read_digits(text.data(), text.data() + text.size(), read.number);
  if (end != nullptr) read.length = static_cast<std::size_t>(end - text.data());
  return read;
}

TEST(ReadDigits, StopsAtTheFirstByteThatIsNotADigit) {
  EXPECT_EQ(read("7 8").number, 7u);
  EXPECT_EQ(read("7 8").length, 1u);
  EXPECT_EQ(read("00042x").number, 42u);
  EXPECT_EQ(read("12345678").number, 12'345'678u);
  EXPECT_EQ(read("1767225600 2000000000").number, 1'767'225'600u);
  EXPECT_EQ(read("1767225600 2000000000").length, 10u);
}

TEST(ReadDigits, ReturnsNullWithoutADigit) {
  for (const std::string_view text : {"", " 1", "-1", "+1", "x1234567", "/1234567", ":1234567"}) {
    EXPECT_EQ(read(text).length, 0u) << text;
  }
}

// Every length, followed by bytes that are next to the digits in ASCII.
TEST(ReadDigits, ParsesNumbersOfUpTo19Digits) {
  std::mt19937_64 random(1);
  for (std::size_t length = 1; length <= 19; ++length) {
    for (int i = 0; i < 1000; ++i) {
      std::string text;
      for (std::size_t k = 0; k < length; ++k) text += static_cast<char>('0' + random() % 10);
      const std::uint64_t expected = std::stoull(text);
      for (const char behind : {'\0', ' ', '/', ':', '\n', '\xb0', '\xff', 'A'}) {
        const Read found = read(text + behind + "12345678");
        ASSERT_EQ(found.number, expected) << text;
        ASSERT_EQ(found.length, length) << text;
      }
      ASSERT_EQ(read(text).number, expected);
    }
  }
}

TEST(ReadDigits, RejectsMoreThan19Digits) {
  EXPECT_EQ(read("9999999999999999999").number, 9'999'999'999'999'999'999u);
  EXPECT_EQ(read("10000000000000000000").length, 0u);
  EXPECT_EQ(read("00000000000000000001").length, 0u);
  EXPECT_EQ(read(std::string(1000, '9')).length, 0u);
}

}  // namespace
}  // namespace weir::store::redis
