#include "store/redis/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::store::redis {
namespace {

using testing::HasSubstr;

TEST(ErrorMeaningTest, DependsOnTheFirstWordOnly) {
  EXPECT_EQ(meaning_of("NOSCRIPT No matching script").what, ErrorClass::send_source);
  EXPECT_EQ(meaning_of("NOSCRIPT").what, ErrorClass::send_source);
  EXPECT_EQ(meaning_of("ERR NOSCRIPT").what, ErrorClass::misconfigured);
  EXPECT_EQ(meaning_of("NOSCRIPTS").what, ErrorClass::misconfigured);
}

TEST(ErrorMeaningTest, TemporaryOutagesAreUnavailable) {
  for (const char* word : {"LOADING", "BUSY", "MASTERDOWN", "READONLY", "OOM", "MISCONF",
                           "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "UNKILLABLE", "UNBLOCKED"}) {
    EXPECT_EQ(meaning_of(std::string(word) + " and why").what, ErrorClass::unavailable) << word;
  }
}

TEST(ErrorMeaningTest, UnknownErrorsAreMisconfigurations) {
  for (const char* text : {"NOAUTH x", "WRONGPASS x", "DENIED x", "NOPERM x", "WRONGTYPE x",
                           "CROSSSLOT x", "EXECABORT x", "NOPROTO x", "WEIRFORMAT 7",
                           "ERR user_script:3: oh", "SOMETHING new", "lower case", ""}) {
    EXPECT_EQ(meaning_of(text).what, ErrorClass::misconfigured) << text;
  }
}

TEST(ErrorMeaningTest, RedirectionsAreElsewhere) {
  EXPECT_EQ(meaning_of("MOVED 3999 127.0.0.1:6381").what, ErrorClass::elsewhere);
  EXPECT_EQ(meaning_of("ASK 3999 127.0.0.1:6381").what, ErrorClass::elsewhere);
}

TEST(ErrorMeaningTest, RequestsANewConnectionAfterReadonlyAndNoauth) {
  EXPECT_TRUE(meaning_of("READONLY x").reconnect);
  EXPECT_TRUE(meaning_of("NOAUTH x").reconnect);
  EXPECT_FALSE(meaning_of("LOADING x").reconnect);
  EXPECT_FALSE(meaning_of("ERR x").reconnect);
}

TEST(ErrorMeaningTest, HasAdviceForTheOperator) {
  EXPECT_THAT(with_advice("MOVED 1 a:1"), HasSubstr("MOVED 1 a:1: this server is a node"));
  EXPECT_EQ(with_advice("ERR no idea"), "ERR no idea");
  EXPECT_EQ(with_advice(""), "an error without a text");
}

}  // namespace
}  // namespace weir::store::redis
