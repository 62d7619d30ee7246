#include "wire/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace weir::wire {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using std::string_view_literals::operator""sv;

class Json : public testing::Test {
 protected:
  // The only item of a well-formed body.
  const ApiItem& item(std::string_view body, ApiFields fields = api::kTake) {
    const ApiBody read = reader_.read(body, fields);
    EXPECT_EQ(read.error, "") << body;
    EXPECT_FALSE(read.is_batch) << body;
    static const ApiItem none;
    return read.items.size() == 1 ? read.items[0] : none;
  }
  const ApiRequest& request(std::string_view body, ApiFields fields = api::kTake) {
    const ApiItem& read = item(body, fields);
    EXPECT_EQ(read.error, "") << body;
    return read.request;
  }
  std::string wrong_item(std::string_view body, ApiFields fields = api::kTake) {
    const ApiItem& read = item(body, fields);
    return read.error_field + ": " + read.error;
  }
  // The error of a malformed body.
  std::string wrong(std::string_view body) {
    const ApiBody read = reader_.read(body, api::kTake);
    EXPECT_TRUE(read.items.empty()) << body;
    return std::string{read.error};
  }

  JsonReader reader_;
};

TEST_F(Json, ReadsEveryFieldOfATake) {
  const ApiRequest& take = request(
      R"( {"policy": "login", "key":"alice","permits":3,"max_wait_ms":250,"receipt":true} )");
  EXPECT_EQ(take.policy, "login");
  EXPECT_EQ(take.key, "alice");
  EXPECT_EQ(take.permits, 3);
  EXPECT_EQ(take.max_wait_ms, 250);
  EXPECT_EQ(take.max_wait(), Nanos{250'000'000});
  EXPECT_TRUE(take.wants_receipt);
}

TEST_F(Json, LeavesAbsentFieldsUnset) {
  const ApiRequest& take = request(R"({"policy":"login","key":"alice"})");
  EXPECT_FALSE(take.permits);
  EXPECT_FALSE(take.max_wait());
  EXPECT_FALSE(take.wants_receipt);
  EXPECT_TRUE(take.parts.empty());
}

TEST_F(Json, ReadsParts) {
  const ApiRequest& take = request(R"({"parts":{"user":"42","sku":"a b"},"policy":"seckill"})");
  ASSERT_EQ(take.parts.all().size(), 2u);
  EXPECT_EQ(take.parts.all()[0].name, "user");
  EXPECT_EQ(take.parts.all()[0].value, "42");
  EXPECT_EQ(take.parts.all()[1].name, "sku");
  EXPECT_EQ(take.parts.all()[1].value, "a b");
}

TEST_F(Json, ReadsTheFieldsOfEveryOtherRoute) {
  EXPECT_EQ(request(R"({"policy":"p","key":"k","holder":"h"})", api::kPeek).holder, "h");
  const ApiRequest& settle =
      request(R"({"policy":"p","key":"k","delta":-5,"receipt":"r1"})", api::kSettle);
  EXPECT_EQ(settle.delta, -5);
  EXPECT_EQ(settle.receipt, "r1");
  EXPECT_EQ(request(R"({"policy":"p","key":"k"})", api::kReset).policy, "p");
  EXPECT_EQ(request(R"({"policy":"p","key":"k","permits":2})", api::kEnter).permits, 2);
  EXPECT_EQ(request(R"({"policy":"p","key":"k","holder":"h"})", api::kLeave).holder, "h");
  EXPECT_EQ(request(R"({"policy":"p","key":"k","permits":0})", api::kExplain).permits, 0);
  EXPECT_EQ(request(R"({"key":"k","limit":"10/s burst 20"})", api::kThrottle).limit,
            "10/s burst 20");
}

TEST_F(Json, ReadsAnyBytesOfAKey) {
  EXPECT_EQ(request(R"({"policy":"p","key":"\u0000\n\"\\\/\u00e9\ud83d\ude00"})").key,
            "\0\n\"\\/\xc3\xa9\xf0\x9f\x98\x80"sv);
  EXPECT_EQ(request("{\"policy\":\"p\",\"key\":\"\xc3\xa9\"}").key, "\xc3\xa9");
  EXPECT_EQ(request(R"({"policy":"p","k\u0065y":"k"})").key, "k");
}

// The engine decides whether an empty key is valid.
TEST_F(Json, TellsAnEmptyKeyFromAMissingOne) {
  EXPECT_TRUE(has(request(R"({"policy":"p","key":""})").given, ApiField::key));
}

TEST_F(Json, ReadsTheLargestNumbers) {
  EXPECT_EQ(request(R"({"policy":"p","key":"k","permits":9223372036854775807})").permits,
            INT64_MAX);
  EXPECT_EQ(request(R"({"policy":"p","key":"k","delta":-9223372036854775808})", api::kSettle).delta,
            INT64_MIN);
  EXPECT_EQ(request(R"({"policy":"p","key":"k","max_wait_ms":9223372036854775807})").max_wait(),
            kForever);
}

TEST_F(Json, NamesUnknownFields) {
  EXPECT_EQ(wrong_item(R"({"policy":"p","key":"k","permit":1})"),
            "permit: unknown field \"permit\" (did you mean \"permits\"?)");
  EXPECT_EQ(wrong_item(R"({"policy":"p","key":"k","zzzzzzzz":{"a":[1,{}]}})"),
            "zzzzzzzz: unknown field \"zzzzzzzz\"");
  EXPECT_EQ(wrong_item(R"({"policy":"p","key":"k","limit":"10/s"})"),
            "limit: unknown field \"limit\"");
}

// Client input is truncated in errors, but not within a UTF-8 character.
TEST_F(Json, TruncatesLongNamesInErrors) {
  std::string name(63, 'x');
  for (int i = 0; i < 1000; ++i) name += "é";
  EXPECT_EQ(wrong_item("{\"" + name + "\":1}"),
            std::string(63, 'x') + "…: unknown field \"" + std::string(63, 'x') + "…\"");
}

TEST_F(Json, NamesFieldsOfWrongType) {
  const auto wrong_value = [&](std::string_view name, std::string_view value) {
    return wrong_item("{\"policy\":\"p\",\"" + std::string(name) + "\":" + std::string(value) +
                      ",\"max_wait_ms\":1}");
  };
  EXPECT_EQ(wrong_value("permits", "\"1\""),
            "permits: \"permits\" must be a whole number, not a string");
  EXPECT_EQ(wrong_value("permits", "1.5"), "permits: \"permits\" must be a whole number, not 1.5");
  EXPECT_EQ(wrong_value("permits", "1e3"), "permits: \"permits\" must be a whole number, not 1e3");
  EXPECT_EQ(wrong_value("permits", "null"),
            "permits: \"permits\" must be a whole number, not null");
  EXPECT_EQ(wrong_value("key", "1"), "key: \"key\" must be a string, not a number");
  EXPECT_EQ(wrong_value("key", "{\"a\":1}"), "key: \"key\" must be a string, not an object");
  EXPECT_EQ(wrong_value("key", "[[],[1]]"), "key: \"key\" must be a string, not an array");
  EXPECT_EQ(wrong_value("key", "true"), "key: \"key\" must be a string, not true or false");
  EXPECT_EQ(wrong_value("receipt", "\"r\""),
            "receipt: \"receipt\" must be true or false, not a string");
  EXPECT_EQ(wrong_value("parts", "[]"),
            "parts: \"parts\" must be an object of strings, not an array");
  EXPECT_EQ(wrong_value("parts", "{\"user\":42}"),
            "parts: the part \"user\" must be a string, not a number");
  EXPECT_EQ(wrong_item(R"({"policy":"p","key":"k","delta":1,"receipt":true})", api::kSettle),
            "receipt: \"receipt\" must be a string, not true or false");
}

TEST_F(Json, RefusesNumbersOutOfRange) {
  for (const char* number : {"9223372036854775808", "99999999999999999999999"}) {
    EXPECT_EQ(
        wrong_item("{\"policy\":\"p\",\"key\":\"k\",\"permits\":" + std::string(number) + "}"),
        "permits: \"permits\" is out of the range of 64-bit integers");
  }
  EXPECT_EQ(wrong_item(R"({"policy":"p","key":"k","permits":-1})"),
            "permits: \"permits\" must be at least 0");
  EXPECT_EQ(wrong_item(R"({"policy":"p","key":"k","max_wait_ms":-1})"),
            "max_wait_ms: \"max_wait_ms\" must be at least 0");
}

TEST_F(Json, RefusesRepeatedFields) {
  EXPECT_EQ(wrong_item(R"({"policy":"p","key":"a","key":"b"})"), "key: \"key\" is given twice");
  EXPECT_EQ(wrong_item(R"({"policy":"p","key":"a","k\u0065y":"b"})"),
            "key: \"key\" is given twice");
  EXPECT_EQ(wrong_item(R"({"policy":"p","parts":{"a":"1","a":"1"}})"),
            "parts: the part \"a\" is given twice");
  EXPECT_EQ(wrong_item(R"({"policy":"p","key":"a","parts":{"a":"1"}})"),
            "parts: both \"key\" and \"parts\" are given: use one of them");
}

TEST_F(Json, NamesMissingFields) {
  EXPECT_EQ(wrong_item(R"({"key":"k"})"), "policy: \"policy\" is missing");
  EXPECT_EQ(wrong_item(R"({"policy":"p"})"), "key: \"key\" or \"parts\" is missing");
  EXPECT_EQ(wrong_item(R"({"policy":"p","key":"k"})", api::kSettle), "delta: \"delta\" is missing");
  EXPECT_EQ(wrong_item(R"({"policy":"p","key":"k"})", api::kLeave),
            "holder: \"holder\" is missing");
  EXPECT_EQ(wrong_item(R"({"limit":"1/s"})", api::kThrottle), "key: \"key\" is missing");
}

TEST_F(Json, LimitsTheNumberOfParts) {
  const auto with_parts = [](int count) {
    std::string parts;
    for (int i = 0; i < count; ++i) {
      parts += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":\"x\"";
    }
    return "{\"policy\":\"p\",\"parts\":{" + parts + "}}";
  };
  EXPECT_EQ(request(with_parts(16)).parts.all().size(), 16u);
  EXPECT_EQ(wrong_item(with_parts(17)), "parts: a key has at most 16 parts");
}

TEST_F(Json, RefusesMalformedJson) {
  for (const char* body : {R"({)",
                           R"(})",
                           R"([)",
                           R"(])",
                           R"({])",
                           R"([})",
                           R"({"a"})",
                           R"({"a":})",
                           R"({"policy":"p",})",
                           R"({,})",
                           R"([,])",
                           R"([{},])",
                           R"({"policy":"p""key":"k"})",
                           R"({"policy" "p"})",
                           R"({policy:"p"})",
                           R"({'policy':'p'})",
                           R"({"permits":01})",
                           R"({"permits":1x})",
                           R"({"permits":-})",
                           R"({"permits":+1})",
                           R"({"permits":1.})",
                           R"({"receipt":tru})",
                           R"({"receipt":truex})",
                           R"({"policy":"p"} x)",
                           R"({"policy":"p"}})",
                           R"({"policy":"p"}{})",
                           R"([{}]])",
                           R"([] [])",
                           R"([{}{}])",
                           R"({"policy":"\x"})",
                           R"({"policy":"\u12"})",
                           R"({"policy":"\ud800"})",
                           R"({"a":1,)",
                           R"({"policy":"p"],)"}) {
    EXPECT_THAT(wrong(body), StartsWith("the body is not JSON")) << body;
  }
  EXPECT_EQ(wrong(""), "the body is empty");
  EXPECT_EQ(wrong(" \n "), "the body is empty");
  EXPECT_THAT(wrong("{\"policy\":\"p"), HasSubstr("a string is not closed"));
  EXPECT_THAT(wrong("{\"policy\":\"a\nb\"}"), HasSubstr("control character"));
  EXPECT_THAT(wrong("{\"policy\":\"\\ud800\"}"), HasSubstr("malformed escape"));
}

TEST_F(Json, RefusesInvalidUtf8) {
  EXPECT_EQ(wrong("{\"policy\":\"\xff\"}"), "the body is not UTF-8");
  EXPECT_EQ(wrong("{\"policy\":\"\xed\xa0\x80\"}"), "the body is not UTF-8");
}

TEST_F(Json, RefusesScalars) {
  for (const char* body : {"1", "\"a\"", "null", "true", "nonsense"}) {
    EXPECT_EQ(wrong(body), "the body is neither an object nor an array of them") << body;
  }
}

// The reader does not recurse.
TEST_F(Json, SurvivesDeepNesting) {
  std::string deep(100'000, '[');
  EXPECT_FALSE(wrong(deep).empty());
  deep += std::string(100'000, ']');
  const ApiBody read = reader_.read(deep, api::kTake);
  EXPECT_TRUE(!read.error.empty() || !read.items[0].error.empty());
  EXPECT_FALSE(wrong(R"({"a":)" + deep + " ").empty());
}

TEST_F(Json, ReadsABatchWithAnErrorForEachInvalidItem) {
  const ApiBody batch = reader_.read(
      R"([{"policy":"p","key":"a"}, {"policy":"p","keys":[{"x":1}],"key":"b"}, 7,
          {"policy":"p","key":"c","permits":2}])",
      api::kTake);
  EXPECT_EQ(batch.error, "");
  EXPECT_TRUE(batch.is_batch);
  ASSERT_EQ(batch.items.size(), 4u);
  EXPECT_EQ(batch.items[0].error, "");
  EXPECT_EQ(batch.items[0].request.key, "a");
  EXPECT_EQ(batch.items[1].error, "unknown field \"keys\" (did you mean \"key\"?)");
  EXPECT_EQ(batch.items[2].error, "an item of a batch must be an object, not a number");
  EXPECT_EQ(batch.items[3].error, "");
  EXPECT_EQ(batch.items[3].request.key, "c");
  EXPECT_EQ(batch.items[3].request.permits, 2);
}

// An invalid item must not hide that the body is malformed.
TEST_F(Json, RefusesABatchThatIsMalformedInAnInvalidItem) {
  for (const char* item : {"[1 2 @]", R"({"policy":tru})", R"({"x":"\u12"})", R"({"x":01})"}) {
    const std::string body = R"([{"policy":"p","key":"a"},)" + std::string{item} + "]";
    EXPECT_NE(reader_.read(body, api::kTake).error, "") << item;
  }
}

TEST_F(Json, ReadsAnEmptyBatch) {
  const ApiBody batch = reader_.read("[]", api::kTake);
  EXPECT_TRUE(batch.is_batch);
  EXPECT_EQ(batch.error, "");
  EXPECT_TRUE(batch.items.empty());
}

TEST_F(Json, LimitsTheSizeOfABatch) {
  const auto batch = [](std::size_t size) {
    std::string body = "[";
    for (std::size_t i = 0; i < size; ++i) body += i > 0 ? ",{}" : "{}";
    return body + "]";
  };
  EXPECT_EQ(reader_.read(batch(1000), api::kTake).items.size(), 1000u);
  EXPECT_EQ(wrong(batch(1001)), "a batch has at most 1000 items");
}

// The reader reuses its memory.
TEST_F(Json, KeepsNothingOfTheLastBody) {
  EXPECT_NE(item(R"({"policy":"p","parts":{"a":"1"},"permits":2,"x":1})").error, "");
  const ApiRequest& take = request(R"({"policy":"q","key":"k"})");
  EXPECT_TRUE(take.parts.empty());
  EXPECT_FALSE(take.permits);
}

}  // namespace
}  // namespace weir::wire
