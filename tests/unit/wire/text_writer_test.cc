#include "wire/text_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <string>

#include "../allocations.h"
#include "wire/http1_text.h"

namespace weir::wire {
namespace {

TEST(TextWriter, WritesNumbersOfAnySize) {
  std::string out = "x";
  const std::int64_t numbers[] = {0, 9, 10, -1, UINT32_MAX, INT64_C(1) << 32, INT64_MAX, INT64_MIN};
  std::string expected = "x";
  for (const std::int64_t number : numbers) {
    TextWriter(out).number(number).text(" ");
    expected += std::to_string(number) + " ";
  }
  EXPECT_EQ(out, expected);
}

// Each digit at each place, and zeros between others.
TEST(TextWriter, WritesEveryDigit) {
  for (std::int64_t unit = 1; unit <= 1'000'000'000; unit *= 10) {
    for (std::int64_t digit = 1; digit <= 9; ++digit) {
      for (const std::int64_t rest : {-1, 0, 1, 12'034, 99'999'999}) {
        const std::int64_t number = digit * unit + rest;
        std::string out;
        TextWriter(out).text("n", number);
        EXPECT_EQ(out, "n" + std::to_string(number));
      }
    }
  }
}

TEST(TextWriter, WritesEveryNumberOfFourDigits) {
  for (std::int64_t number = 0; number < 10'000; ++number) {
    std::string out;
    TextWriter(out).number(number).text(" ").number(number * 10'000 + number);
    EXPECT_EQ(out, std::to_string(number) + " " + std::to_string(number * 10'001));
  }
}

// The buffer ends within a text, within a number, or between them.
TEST(TextWriter, WritesMoreThanItsBufferHolds) {
  for (std::size_t length = 480; length <= 1030; ++length) {
    const std::string text(length, 't');
    std::string out;
    TextWriter(out).text(text).number(INT64_MIN).text(text, 7).text("end");
    EXPECT_EQ(out, text + "-9223372036854775808" + text + "7end") << length;
  }
}

TEST(TextWriter, AllowsDirectWritesAfterAFlush) {
  std::string out;
  {
    TextWriter writer(out);
    writer.text("a").number(1).flush() += "b";
    writer.text("c");
  }
  EXPECT_EQ(out, "a1bc");
}

// The test of eight bytes at a time agrees with the one of single characters.
TEST(HttpText, FindsControlCharactersWhereverTheyAre) {
  for (std::size_t length = 1; length <= 20; ++length) {
    for (std::size_t place = 0; place < length; ++place) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string text(length, '\x80');
        text[place] = static_cast<char>(byte);
        EXPECT_EQ(has_control(text), is_control(static_cast<char>(byte)))
            << byte << " at " << place << " of " << length;
      }
    }
  }
}

// The destructor writes what is left: it must not end the process.
TEST(TextWriter, ThrowsWhenThereIsNoMemoryForWhatIsLeft) {
  const std::string some(100, 'x');
  std::string out;
  bool failed = false;
  {
    const NoMemory no_memory;
    try {
      TextWriter(out).text(some);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
  }
  EXPECT_TRUE(failed);
}

TEST(TextWriter, ThrowsOnceWhenThereIsNoMemoryForALongText) {
  const std::string some(100, 'x');
  const std::string much(1'000, 'x');
  std::string out;
  bool failed = false;
  {
    const NoMemory no_memory;
    try {
      TextWriter(out).text(some).text(much);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
  }
  EXPECT_TRUE(failed);
  TextWriter(out).text(some).text(much);
  EXPECT_EQ(out, some + much);
}

}  // namespace
}  // namespace weir::wire
