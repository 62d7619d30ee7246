#include "server/envoy_messages.h"

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <random>

#include "support/envoy_by_library.h"
#include "wire/grpc.h"

namespace weir::server {
namespace {

using test_support::told;
using test_support::told_by_library;
using test_support::written_by_library;
using namespace std::chrono_literals;
using namespace std::string_literals;
namespace pb = ::envoy::service::ratelimit::v3;

std::optional<std::string> told_by_us(std::string_view message) {
  const envoy::RateLimitRequest* const call = EnvoyMessages::of_this_thread().read(message);
  return call != nullptr ? std::optional(told(*call)) : std::nullopt;
}

// A message with every field set.
std::string rich_message() {
  pb::RateLimitRequest request;
  request.set_domain("näh");
  request.set_hits_addend(300);
  for (int i = 0; i < 3; ++i) {
    auto& descriptor = *request.add_descriptors();
    for (int k = 0; k <= i; ++k) {
      auto& entry = *descriptor.add_entries();
      entry.set_key("key" + std::to_string(k));
      entry.set_value(std::string(static_cast<std::size_t>(k) * 100, 'v') + "日本");
    }
    if (i == 0) continue;
    descriptor.mutable_limit()->set_requests_per_unit(UINT32_MAX);
    descriptor.mutable_limit()->set_unit(::envoy::type::v3::HOUR);
    descriptor.mutable_hits_addend()->set_value(i == 1 ? 0 : UINT64_MAX);
    descriptor.set_is_negative_hits(i == 2);
  }
  return request.SerializeAsString();
}

std::string payload_of(const envoy::RateLimitResponse& answer) {
  std::string out;
  EnvoyMessages::append(out, answer);
  const wire::GrpcMessage framed = wire::read_grpc_message(out, 1 << 20);
  EXPECT_EQ(framed.status, wire::GrpcMessage::Status::whole);
  EXPECT_EQ(framed.size, out.size());
  return std::string(framed.message);
}

TEST(EnvoyMessages, AgreesWithTheLibraryOnAValidMessage) {
  EXPECT_EQ(told_by_us(""), told_by_library(""));
  const std::string message = rich_message();
  ASSERT_TRUE(told_by_library(message).has_value());
  EXPECT_EQ(told_by_us(message), told_by_library(message));
}

// A truncated message must not be decoded as a shorter one.
TEST(EnvoyMessages, AgreesWithTheLibraryOnTruncatedMessages) {
  const std::string message = rich_message();
  for (std::size_t size = 0; size < message.size(); ++size) {
    const std::string_view part = std::string_view(message).substr(0, size);
    EXPECT_EQ(told_by_us(part), told_by_library(part)) << size;
  }
}

// Repeated and unknown fields, other wire types, groups, and varints that are longer than needed or
// too long.
TEST(EnvoyMessages, AgreesWithTheLibraryOnUnusualEncodings) {
  const std::string entry =
      "\x0a\x06\x0a\x01"
      "a"
      "\x12\x01"
      "b";
  const std::string odd[] = {
      "\x0a\x01"
      "a"
      "\x0a\x01"
      "b",
      "\x12" + std::string(1, char(entry.size())) + entry + "\x18\x01\x18\x02",
      "\x12\x0a\x12\x04\x08\x05\x10\x02\x12\x02\x08\x07",
      "\x12\x08\x1a\x02\x08\x05\x1a\x02\x10\x02",
      "\x12\x02\x1a\x00"s,
      "\x12\x02\x12\x00"s,
      "\x08\x01",
      "\x1a\x01"
      "a",
      "\x18\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
      "\x18\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
      "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
      "\x9a\x80\x80\x80\x00"s,
      "\x98\x80\x80\x80\x70\x01",
      "\x98\x80\x80\x80\x80\x00\x01"s,
      "\x0a\x81\x80\x80\x80\x00"
      "a"s,
      "\x0a\x81\x80\x80\x80\x80\x00"
      "a"s,
      "\x00"s,
      "\x02\x01"
      "a",
      "\x0e",
      "\x0f",
      "\x0c",
      "\x0b\x0c",
      "\x0b\x14",
      "\x0b\x18\x01\x0c",
      "\x0b\x13\x14\x0c",
      "\x0b\x13\x0c\x14",
      "\x0b",
      "\x1d\x01\x02\x03\x04",
      "\x1d\x01\x02\x03",
      "\x19"
      "12345678",
      "\x19"
      "1234567",
      "\x0a\x02\xc3\xa4",
      "\x0a\x01\xc3",
      "\x0a\x03\xed\xa0\x80",
      "\x0a\x02\xc0\x80",
      "\x12\x04\x20\x80\x80\x00"s,
      "\x12\x09\x12\x07\x10\xff\xff\xff\xff\xff\x01",
  };
  for (const std::string& message : odd) {
    EXPECT_EQ(told_by_us(message), told_by_library(message)) << ::testing::PrintToString(message);
  }
  for (const std::size_t depth : {1, 99, 100, 101, 200}) {
    const std::string groups = std::string(depth, '\x0b') + std::string(depth, '\x0c');
    EXPECT_EQ(told_by_us(groups), told_by_library(groups)) << depth;
    const std::string inside = "\x12" +
                               std::string(1, static_cast<char>((groups.size() & 0x7f) | 0x80)) +
                               static_cast<char>(groups.size() >> 7) + groups;
    EXPECT_EQ(told_by_us(inside), told_by_library(inside)) << depth;
  }
}

TEST(EnvoyMessages, AgreesWithTheLibraryOnDamagedMessages) {
  const std::string message = rich_message();
  std::mt19937 random(1);
  const auto below = [&](std::size_t most) { return static_cast<std::size_t>(random() % most); };
  int decoded = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = message;
    for (std::size_t k = 0; k <= below(3); ++k) {
      damaged[below(damaged.size())] = static_cast<char>(below(256));
      if (below(4) == 0) damaged.erase(below(damaged.size()), below(4));
    }
    const auto expected = told_by_library(damaged);
    decoded += expected.has_value() ? 1 : 0;
    ASSERT_EQ(told_by_us(damaged), expected) << ::testing::PrintToString(damaged);
  }
  EXPECT_GT(decoded, 1000);
}

TEST(EnvoyMessages, EncodesAnswersAsTheLibraryDoes) {
  envoy::RateLimitResponse answer{.overall = envoy::Code::over_limit, .statuses = {}};
  EXPECT_EQ(payload_of(answer), written_by_library(answer));
  answer.statuses.push_back({});
  answer.statuses.push_back({.code = envoy::Code::over_limit,
                             .limit = envoy::CurrentLimit{},
                             .remaining = 0,
                             .until_reset = 0ns});
  answer.statuses.push_back({.code = envoy::Code::ok,
                             .limit = envoy::CurrentLimit{.requests_per_unit = UINT32_MAX,
                                                          .unit = envoy::Unit::week,
                                                          .name = "a limit"},
                             .remaining = UINT32_MAX,
                             .until_reset = 86'400s + 5ns});
  EXPECT_EQ(payload_of(answer), written_by_library(answer));
  // Lengths of one, two and three bytes.
  for (const std::size_t size : {100, 110, 115, 120, 127, 128, 200, 16'370, 16'384, 20'000}) {
    answer.statuses.back().limit->name.assign(size, 'n');
    answer.response_headers.push_back({std::string(size, 'k'), "v"});
    ASSERT_EQ(payload_of(answer), written_by_library(answer)) << size;
  }
}

#ifndef __SANITIZE_THREAD__  // Debian's library was not compiled for maps to be laid out as there.
TEST(EnvoyMessages, WritesDynamicMetadata) {
  const envoy::RateLimitResponse answer{.overall = envoy::Code::ok,
                                        .statuses = {{.remaining = 7}},
                                        .metadata = R"({"a":{"b":[1,"x"]}})"};
  EXPECT_TRUE(pb::RateLimitResponse().ParseFromString(payload_of(answer)));
  EXPECT_EQ(EnvoyMessages::to_json(answer),
            R"({"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":7}],)"
            R"("dynamicMetadata":{"a":{"b":[1,"x"]}}})");
}
#endif

// An empty descriptor has two bytes: a message of a megabyte could have half a million of them.
TEST(EnvoyMessages, StopsDecodingAboveTheMaximumOfDescriptors) {
  EnvoyMessages messages;
  pb::RateLimitRequest request;
  request.set_domain("d");
  for (int i = 0; i < 500'000; ++i) request.add_descriptors();
  const envoy::RateLimitRequest* const call = messages.read(request.SerializeAsString());
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->descriptors.size(), envoy::kMaxDescriptors + 1);
}

TEST(EnvoyMessages, ReadsJson) {
  const envoy::RateLimitRequest* const call = EnvoyMessages::of_this_thread().read_json(
      R"({"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],"hitsAddend":"3"}]})");
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(told(*call), "1:d hits 0\n1:k1:v hits 3");
}

// ---- JSON

TEST(EnvoyMessages, AcceptsEitherNameOfAJsonField) {
  EnvoyMessages messages;
  for (const char* text : {R"({"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],
                               "hitsAddend":"2"}],"hitsAddend":3})",
                           R"({"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],
                               "hits_addend":2}],"hits_addend":3})"}) {
    const envoy::RateLimitRequest* const call = messages.read_json(text);
    ASSERT_NE(call, nullptr);
    EXPECT_EQ(call->domain, "d");
    EXPECT_EQ(call->hits, 3u);
    ASSERT_EQ(call->descriptors.size(), 1u);
    EXPECT_EQ(call->descriptors[0].entries[0].key, "k");
    EXPECT_EQ(call->descriptors[0].hits, 2u);
  }
  for (const char* text : {"", "{", "[]", R"({"domain":1})", R"({"other":1})", "null x"}) {
    EXPECT_EQ(messages.read_json(text), nullptr) << text;
  }
}

// The library alone would accept much of this.
TEST(EnvoyMessages, RefusesInvalidJson) {
  EnvoyMessages messages;
  const auto with = [](std::string_view descriptors) {
    return R"({"domain":"d","descriptors":)" + std::string{descriptors} + "}";
  };
  for (const std::string& good :
       {with(R"([{"entries":[{"key":"k","value":"v"}]}])"), with("[]"), with("null"),
        with(R"([{"entries":null,"limit":{"unit":"DAY"},"hitsAddend":null}])") + " \n",
        with(R"([{"entries":[{"key":"k","value":"a\nb\u00e9"}]}])")}) {
    EXPECT_NE(messages.read_json(good), nullptr) << good;
  }
  const std::string deep(500, '[');
  for (const std::string& bad : {
           R"({domain:"d"})"s,
           R"({'domain':'d'})"s,
           R"({"domain":"d",})"s,
           R"({"domain":"d"}x)"s,
           R"({"domain":"d"}{})"s,
           R"(/**/{"domain":"d"})"s,
           "\"d\""s,
           "null"s,
           "[{}]"s,
           "{\"domain\":\"a\nb\"}"s,
           R"({"domain":"\x41"})"s,
           R"({"domain":"\ud800"})"s,
           "{\"domain\":\"\xff\"}"s,
           R"({"domain":["d"]})"s,
           R"({"domain":"d","hitsAddend":01})"s,
           R"({"domain":"d","domain":"e"})"s,
           R"({"domain":"d","hitsAddend":1,"hits_addend":1})"s,
           with("[null]"),
           with("[[]]"),
           with(R"(["x"])"),
           with("[{},]"),
           with(R"({"entries":[{"key":"k"}]})"),
           with(R"([{"entries":{"key":"k"}}])"),
           with(R"([{"entries":[{"key":"k","key":"l"}]}])"),
           with(R"([{"limit":[]}])"),
           with(R"([{"hitsAddend":{"value":2}}])"),
           with(deep + std::string(500, ']')),
           with(deep),
       }) {
    EXPECT_EQ(messages.read_json(bad), nullptr) << bad;
  }
}

TEST(EnvoyMessages, WritesJson) {
  EXPECT_EQ(EnvoyMessages::to_json({.overall = envoy::Code::ok, .statuses = {}}),
            R"({"overallCode":"OK"})");
  EXPECT_EQ(
      EnvoyMessages::to_json(
          {.overall = envoy::Code::over_limit,
           .statuses = {{.code = envoy::Code::over_limit,
                         .limit = envoy::CurrentLimit{1, envoy::Unit::minute, ""},
                         .until_reset = std::chrono::seconds{5}}}}),
      R"({"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":1,"unit":"MINUTE"},"durationUntilReset":"5s"}]})");
}

}  // namespace
}  // namespace weir::server
