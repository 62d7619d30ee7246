#include "cli/bench/message.h"

#include <fmt/format.h>

#include <numeric>

#include "base/int128.h"
#include "policy/limit_text.h"
#include "wire/json_write.h"
#include "wire/resp.h"

namespace weir::cli::bench {

namespace {

// The arguments of CL.THROTTLE.
struct CellNumbers {
  Permits burst = 0;
  Permits count = 0;
  Permits seconds = 0;
};

constexpr std::int64_t kSecond = 1'000'000'000;

// The rate in whole permits per whole seconds: 10 per 100ms is 100 per second; 0.5/s is 5 per 10 s.
Result<CellNumbers, Error> cell_numbers(const core::Limit& limit) {
  const auto* bucket = std::get_if<core::Bucket>(&limit);
  if (bucket == nullptr || bucket->queue) {
    return Error{
        "--limit: over RESP an ad hoc limit must be a token bucket, such as "
        "\"100/s burst 20\"; for other limits use http://… or --policy"};
  }
  const core::Rate& rate = bucket->rate;
  const Int128 nanos = Int128{rate.period.count()} * rate.scale;
  const auto shared =
      static_cast<std::int64_t>(std::gcd(static_cast<std::int64_t>(nanos % kSecond), kSecond));
  const Int128 count = Int128{rate.count} * (kSecond / shared);
  const Int128 seconds = nanos / shared;
  if (count > core::kMaxPermits || seconds > core::kLongestDebt.count()) {
    return Error{"--limit: CL.THROTTLE cannot express this rate; use http://… or --policy"};
  }
  return CellNumbers{.burst = bucket->capacity - 1,
                     .count = static_cast<Permits>(count),
                     .seconds = static_cast<Permits>(seconds)};
}

Result<core::Limit, Error> parsed(const std::string& text) {
  auto limit = policy::parse_limit(text);
  if (!limit) {
    return Error{fmt::format("--limit {}: {}", policy::in_quotes(text), limit.error().message)};
  }
  return *std::move(limit);
}

std::string resp_message(const BenchPlan& plan, RequestVerb verb, const std::string& key) {
  const std::string permits = std::to_string(plan.permits);
  if (plan.policy.empty()) {
    const CellNumbers numbers = *cell_numbers(*parsed(plan.limit));
    return resp_command({"CL.THROTTLE", key, std::to_string(numbers.burst),
                         std::to_string(numbers.count), std::to_string(numbers.seconds), permits});
  }
  switch (verb) {
    case RequestVerb::peek:
      return resp_command({"WEIR.PEEK", plan.policy, key, permits});
    case RequestVerb::settle:
      return resp_command({"WEIR.SETTLE", plan.policy, key, permits});
    default:
      // One permit is the default: most callers omit it, so this measures the common form.
      if (plan.permits == 1) return resp_command({"WEIR.TAKE", plan.policy, key});
      return resp_command({"WEIR.TAKE", plan.policy, key, permits});
  }
}

std::string http_body(const BenchPlan& plan, RequestVerb verb, const std::string& key) {
  std::string body = plan.policy.empty() ? R"({"limit":)" : R"({"policy":)";
  wire::append_json_string(body, plan.policy.empty() ? plan.limit : plan.policy);
  const bool says_permits = plan.permits != 1 || verb == RequestVerb::settle;
  if (says_permits) {
    body +=
        fmt::format(R"(,"{}":{})", verb == RequestVerb::settle ? "delta" : "permits", plan.permits);
  }
  body += R"(,"key":)";
  wire::append_json_string(body, key);
  body += '}';
  return body;
}

std::string http_message(const BenchPlan& plan, RequestVerb verb, const std::string& key) {
  const std::string body = http_body(plan, verb, key);
  const std::string route =
      plan.policy.empty() ? "throttle" : kVerbNames[static_cast<std::size_t>(verb)];
  std::string message =
      fmt::format("POST /v1/{} HTTP/1.1\r\nHost: {}\r\n", route, plan.target.authority());
  if (!plan.password.empty()) {
    message += fmt::format("Authorization: Bearer {}\r\n", plan.password);
  }
  message += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                         body.size(), body);
  return message;
}

}  // namespace

std::string resp_command(std::initializer_list<std::string_view> words) {
  std::string out;
  wire::RespWriter writer(out, 2);
  writer.array(words.size());
  for (const std::string_view word : words) writer.bulk(word);
  return out;
}

Result<core::Limit, Error> ad_hoc_limit(const BenchPlan& plan) {
  auto limit = parsed(plan.limit);
  if (!limit || plan.target.protocol == WireProtocol::http) return limit;
  const auto numbers = cell_numbers(*limit);
  if (!numbers) return numbers.error();
  const auto cell = core::RedisCell::make(numbers->burst, numbers->count, numbers->seconds);
  if (!cell)
    return Error{"--limit: CL.THROTTLE cannot express this limit; use http://… or --policy"};
  return core::Limit{*cell};
}

Messages::Messages(const BenchPlan& plan) {
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    messages_[i] = message(plan, static_cast<RequestVerb>(i));
  }
  if (plan.target.protocol == WireProtocol::resp && !plan.password.empty()) {
    login_ = resp_command({"AUTH", plan.password});
  }
}

// Finds the digits of the key by building the message for a second key that differs only in its
// last digit: the first byte that differs is that digit. Searching for the text of the key could
// find it in the name of the policy.
Messages::Message Messages::message(const BenchPlan& plan, RequestVerb verb) const {
  const bool resp = plan.target.protocol == WireProtocol::resp;
  const auto write = [&](std::uint64_t key) {
    return resp ? resp_message(plan, verb, key_name(plan, key))
                : http_message(plan, verb, key_name(plan, key));
  };
  Message message{.bytes = write(0), .digits_end = 0};
  std::string other_key = key_name(plan, 0);
  other_key.back() = '1';
  const std::string other =
      resp ? resp_message(plan, verb, other_key) : http_message(plan, verb, other_key);
  while (message.bytes[message.digits_end] == other[message.digits_end]) ++message.digits_end;
  ++message.digits_end;
  return message;
}

void Messages::append(std::string& out, RequestVerb verb, std::uint64_t key) const {
  const Message& message = messages_[static_cast<std::size_t>(verb)];
  const std::size_t start = out.size();
  out += message.bytes;
  char* digit = out.data() + start + message.digits_end;
  for (; key > 0; key /= 10) *--digit = static_cast<char>('0' + key % 10);
}

}  // namespace weir::cli::bench
