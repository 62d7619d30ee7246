// Keys and parts of requests, and invalid requests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/key.h"
#include "world.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Request with_parts(std::string_view policy, const Parts& parts) {
  return {.policy = policy, .parts = parts};
}

Request with_key(std::string_view policy, std::string_view key) {
  return {.policy = policy, .key = key};
}

// ---- Parts

TEST(KeyParts, AreCountedByTheLimitsThatNameThem) {
  World world{"seckill: { limits: [ { by: user, limit: 1/5s }, { by: sku, limit: 3/h } ] }"};
  const auto tries = [&](std::string_view user, std::string_view sku) {
    return world.engine.take(with_parts("seckill", {{"user", user}, {"sku", sku}}));
  };
  EXPECT_TRUE(tries("alice", "9"));
  EXPECT_EQ(tries("alice", "8").limited_by, "0");
  EXPECT_TRUE(tries("bob", "9"));
  EXPECT_TRUE(tries("carol", "9"));
  EXPECT_EQ(tries("dave", "9").limited_by, "1");
  EXPECT_TRUE(tries("dave", "8"));  // the refusal charged nothing
}

// A request without a user still counts for its product.
TEST(MissingParts, SkipOnlyTheLimitsThatCountByThem) {
  World world{
      "seckill: { limits: [ { by: user, limit: 1/5s, name: user }, { by: sku, limit: 2/h, name: "
      "product }, { limit: 1/h, name: all } ] }"};
  Request request = with_parts("seckill", {{"user", ""}, {"sku", "9"}});
  EXPECT_EQ(world.engine.take(request).fault, Fault::parts) << "unless it is asked for";
  request.skip_missing = true;
  EXPECT_TRUE(world.engine.take(request));
  EXPECT_TRUE(world.engine.take(request));
  const Verdict refused = world.engine.take(request);
  EXPECT_FALSE(refused);
  EXPECT_EQ(refused.limited_by, "product");
  EXPECT_EQ(refused.refusing, 1u) << "by its position among those that were asked";
  request.parts = Parts{{"sku", "8"}};
  EXPECT_TRUE(world.engine.take(request)) << "a part that is not given is missing as well";
  // Limits whose parts are present are not affected.
  request.parts = Parts{{"user", "alice"}, {"sku", "7"}};
  EXPECT_TRUE(world.engine.take(request));
  EXPECT_EQ(world.engine.take(request).limited_by, "all");
}

TEST(MissingParts, MaySkipAllLimits) {
  World world{"p: { limits: [ { by: user, limit: 1/h }, 1/h ] }, c: { limits: [ 1 concurrent ] }"};
  Request request{.policy = "p", .skip_missing = true};
  for (int i = 0; i < 3; ++i) {
    const Verdict verdict = world.engine.take(request);
    EXPECT_TRUE(verdict);
    EXPECT_EQ(verdict.limited_by, "") << "no limit was asked";
  }
  request.policy = "c";
  EXPECT_TRUE(world.engine.enter(request, "a"));
  EXPECT_TRUE(world.engine.enter(request, "b"));
}

// A part that is too long is an error, and not a missing part.
TEST(MissingParts, DoNotIncludeMalformedParts) {
  World world{"p: { limits: [ { by: user, limit: 1/h } ] }"};
  const std::string longest(policy::kMaxKeyLength + 1, 'x');
  Request request{.policy = "p", .parts = Parts{{"user", longest}}, .skip_missing = true};
  EXPECT_EQ(world.engine.take(request).fault, Fault::parts);
  request.parts = Parts{{"user", "a"}, {"user", "b"}};
  EXPECT_EQ(world.engine.take(request).fault, Fault::parts);
}

TEST(KeyParts, MayComeInAnyOrder) {
  World world{"api: { limits: [ 2/h, { by: [ user, sku ], limit: 2/h } ] }"};
  EXPECT_TRUE(world.engine.take(with_parts("api", {{"user", "alice"}, {"sku", "9"}})));
  EXPECT_THAT(world.all_left(with_parts("api", {{"sku", "9"}, {"user", "alice"}})),
              ElementsAre(1, 1));
}

TEST(KeyParts, CountOnlyInTheWholeKeyIfNoLimitNamesThem) {
  World world{"api: { limits: [ 5/h, { by: user, limit: 5/h } ] }"};
  EXPECT_TRUE(world.engine.take(with_parts("api", {{"user", "alice"}, {"path", "/a"}})));
  EXPECT_THAT(world.all_left(with_parts("api", {{"user", "alice"}, {"path", "/b"}})),
              ElementsAre(5, 4));
  EXPECT_THAT(world.all_left(with_parts("api", {{"user", "alice"}})), ElementsAre(5, 4));
}

// "a" and "bc" differ from "ab" and "c", and a value differs from a name.
TEST(KeyParts, AreEncodedWithoutAmbiguity) {
  World world{"api: { limits: [ 2/h ] }, ab: { limits: [ { by: [ a, b ], limit: 2/h } ] }"};
  EXPECT_TRUE(world.engine.take(with_parts("api", {{"a", "bc"}})));
  for (const Parts& other : {Parts{{"ab", "c"}}, Parts{{"bc", "a"}}, Parts{{"a", "b"}, {"c", "c"}}})
    EXPECT_THAT(world.all_left(with_parts("api", other)), ElementsAre(2));
  EXPECT_TRUE(world.engine.take(with_parts("ab", {{"a", "x"}, {"b", "yz"}})));
  EXPECT_THAT(world.all_left(with_parts("ab", {{"a", "xy"}, {"b", "z"}})), ElementsAre(2));
  EXPECT_THAT(world.all_left(with_parts("ab", {{"a", "yz"}, {"b", "x"}})), ElementsAre(2));
}

// ---- Keys

// A key may contain the bytes that encode parts.
TEST(EngineKeys, DifferFromPartsWithTheSameBytes) {
  World world{"api: { limits: [ 2/h ] }"};
  const Parts parts{{"user", "alice"}};
  std::string encoded;
  ASSERT_TRUE(policy::key_of({.key = {}, .parts = parts.all()}, {}, encoded));
  EXPECT_TRUE(world.engine.take(with_parts("api", parts)));
  EXPECT_EQ(world.left("api", encoded), 2);
  EXPECT_EQ(world.left("api", "alice"), 2);
  EXPECT_TRUE(world.take("api", "alice"));
  EXPECT_THAT(world.all_left(with_parts("api", parts)), ElementsAre(1));
}

TEST(EngineKeys, MayContainAnyBytes) {
  World world{"api: { limits: [ 1/h ] }"};
  using namespace std::string_view_literals;
  for (const std::string_view key : {"a"sv, "a\0"sv, "a\0b"sv, "a\0c"sv, "\0"sv, "\0\0"sv, "\xff"sv,
                                     "\xff\xfe"sv, " "sv, "\r\n"sv, "{}"sv}) {
    EXPECT_EQ(world.admits("api", key, 3), 1) << key;
  }
}

// All bytes of a key are significant.
TEST(EngineKeys, MayBeLong) {
  World world{"api: { limits: [ 1/h, { by: p, limit: 1/h } ] }, whole: { limits: [ 1/h ] }"};
  const std::string longest(4096, 'x');
  for (const std::size_t change : {0u, 1u, 255u, 2048u, 4095u}) {
    std::string key = longest;
    key[change] = 'y';
    EXPECT_EQ(world.admits("whole", key, 3), 1);
    EXPECT_TRUE(world.engine.take(with_parts("api", {{"p", key}})));
    EXPECT_FALSE(world.engine.take(with_parts("api", {{"p", key}})));
  }
}

// ---- Invalid requests

// Every operation reports the same error, and changes nothing.
void expect_error(World& world, const Request& request, std::string_view text) {
  Receipt receipt;
  std::vector<Verdict> answers;
  answers.push_back(world.engine.take(request, receipt));
  answers.push_back(world.engine.take(request));
  answers.push_back(world.engine.peek(request));
  answers.push_back(world.engine.settle(request));
  answers.push_back(world.engine.settle(request, receipt));
  answers.push_back(world.engine.enter(request, "holder"));
  answers.emplace_back();
  world.engine.take_all({&request, 1}, {&answers.back(), 1});
  for (const Verdict& answer : answers) {
    EXPECT_EQ(answer.error, text);
    EXPECT_FALSE(answer);
    EXPECT_EQ(answer.decision.outcome, Outcome::impossible);
    EXPECT_EQ(answer.decision.retry_after, kNever);
    EXPECT_EQ(answer.limited_by, "");
    EXPECT_FALSE(answer.degraded);
  }
  EXPECT_FALSE(world.engine.leave(request, "holder"));
  const auto reset = world.engine.reset(request);
  ASSERT_TRUE(reset);
  EXPECT_EQ(reset->message, text);
  const auto explained = world.engine.explain(request);
  ASSERT_FALSE(explained);
  EXPECT_EQ(explained.error().message, text);
  EXPECT_EQ(world.engine.memory().live, 0u);
}

TEST(EngineError, NamesTheMissingPolicy) {
  World world{"login: { limits: [ 5/min ] }, search: { limits: [ 5/min ] }"};
  expect_error(world, with_key("logni", "k"),
               "there is no policy \"logni\" (did you mean \"login\"?)");
  expect_error(world, with_key("checkout", "k"), "there is no policy \"checkout\"");
  expect_error(world, with_key("", "k"), "there is no policy \"\"");
  expect_error(world, with_key("Login", "k"),
               "there is no policy \"Login\" (did you mean \"login\"?)");
}

TEST(EngineError, ReportsAMissingKey) {
  World world{"api: { limits: [ 5/min, 5/h ] }"};
  expect_error(world, with_key("api", ""), "the key is empty");
}

TEST(EngineError, ReportsATooLongKey) {
  World world{"api: { limits: [ 5/min ] }, user: { limits: [ 5/h, { by: user, limit: 5/min } ] }"};
  const std::string too_long(4097, 'x');
  expect_error(world, with_key("api", too_long),
               "the key has 4097 bytes, at most 4096 are allowed");
  expect_error(world, with_parts("api", {{"user", too_long}}),
               "the part \"user\" has 4097 bytes, at most 4096 are allowed");
  expect_error(world, with_parts("user", {{"user", too_long}}),
               "the part \"user\" has 4097 bytes, at most 4096 are allowed");
  const std::string longest(4096, 'x');
  EXPECT_TRUE(world.take("api", longest));
  EXPECT_TRUE(world.engine.take(with_parts("user", {{"user", longest}})));
}

// Clients choose the length of part names.
TEST(EngineError, ReportsATooLongPartName) {
  World world{"api: { limits: [ 5/min ] }"};
  const std::string too_long(4097, 'x');
  expect_error(world, with_parts("api", {{too_long, "alice"}}),
               "the name of a part has 4097 bytes, at most 4096 are allowed");
  EXPECT_TRUE(world.engine.take(with_parts("api", {{std::string(4096, 'x'), "alice"}})));
}

// The limit that does not count by the part is not charged either.
TEST(EngineError, NamesTheMissingPart) {
  World world{"api: { limits: [ 5/min, { by: [ user, sku ], limit: 5/min } ] }"};
  expect_error(world, with_key("api", "alice"),
               "the part \"sku\" is missing: this is counted by sku and user");
  expect_error(world, with_parts("api", {{"sku", "9"}}),
               "the part \"user\" is missing: this is counted by sku and user");
  expect_error(world, with_parts("api", {{"sku", "9"}, {"user", ""}}),
               "the part \"user\" is empty");
  expect_error(world, with_parts("api", {{"sku", "9"}, {"USER", "alice"}}),
               "the part \"user\" is missing: this is counted by sku and user");
}

// Counting either of the two would let clients bypass a limit.
TEST(EngineError, NamesTheDuplicatePart) {
  World world{"whole: { limits: [ 5/min ] }, user: { limits: [ { by: user, limit: 5/min } ] }"};
  const Parts twice{{"user", "alice"}, {"sku", "9"}, {"user", "bob"}};
  expect_error(world, with_parts("whole", twice), "the part \"user\" is given twice");
  expect_error(world, with_parts("user", twice), "the part \"user\" is given twice");
}

TEST(EngineError, ReportsTooManyParts) {
  World world{"api: { limits: [ 5/min ] }, user: { limits: [ { by: p0, limit: 5/min } ] }"};
  std::vector<std::string> names;
  for (int i = 0; i < 17; ++i) names.push_back("p" + std::to_string(i));
  Parts parts;
  for (int i = 0; i < 16; ++i)
    parts.add({.name = names[static_cast<std::size_t>(i)], .value = "v"});
  EXPECT_TRUE(world.engine.take(with_parts("api", parts)));
  EXPECT_TRUE(world.engine.take(with_parts("user", parts)));
  ASSERT_FALSE(world.engine.reset(with_parts("api", parts)));
  ASSERT_FALSE(world.engine.reset(with_parts("user", parts)));
  world.clock.advance(std::chrono::hours{1});
  parts.add({.name = names[16], .value = "v"});
  expect_error(world, with_parts("api", parts), "a key has at most 16 parts");
  expect_error(world, with_parts("user", parts), "a key has at most 16 parts");
}

}  // namespace
}  // namespace weir
