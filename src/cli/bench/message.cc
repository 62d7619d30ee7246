#include "cli/bench/message.h"

#include <fmt/format.h>

#include <numeric>

#include "base/int128.h"
#include "policy/limit_text.h"
#include "wire/json_write.h"
#include "wire/resp.h"

namespace weir::cli::bench {

namespace {

// The numbers of CL.THROTTLE.
struct CellNumbers {
  Permits burst = 0;
  Permits count = 0;
  Permits seconds = 0;
};

constexpr std::int64_t kSecond = 1'000'000'000;

// A rate in whole permits and whole seconds: 10 per 100ms are 100 per second, 0.5/s 5 per 10 s.
Result<CellNumbers, Error> cell_numbers(const core::Limit& limit) {
  const auto* bucket = std::get_if<core::Bucket>(&limit);
  if (bucket == nullptr || bucket->queue) {
    return Error{
        "--limit: over RESP a limit that comes with the call is a token bucket, as "
        "\"100/s burst 20\"; for others use http://… or a --policy"};
  }
  const core::Rate& rate = bucket->rate;
  const Int128 nanos = Int128{rate.period.count()} * rate.scale;
  const auto shared =
      static_cast<std::int64_t>(std::gcd(static_cast<std::int64_t>(nanos % kSecond), kSecond));
  const Int128 count = Int128{rate.count} * (kSecond / shared);
  const Int128 seconds = nanos / shared;
  if (count > core::kMaxPermits || seconds > core::kLongestDebt.count()) {
    return Error{"--limit: CL.THROTTLE has no numbers for this rate; use http://… or a --policy"};
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

std::string resp_message(const Plan& plan, Verb verb, const std::string& key) {
  const std::string permits = std::to_string(plan.permits);
  if (plan.policy.empty()) {
    const CellNumbers numbers = *cell_numbers(*parsed(plan.limit));
    return resp_command({"CL.THROTTLE", key, std::to_string(numbers.burst),
                         std::to_string(numbers.count), std::to_string(numbers.seconds), permits});
  }
  switch (verb) {
    case Verb::peek:
      return resp_command({"WEIR.PEEK", plan.policy, key, permits});
    case Verb::settle:
      return resp_command({"WEIR.SETTLE", plan.policy, key, permits});
    default:
      // Without permits it is one, as most callers write it.
      if (plan.permits == 1) return resp_command({"WEIR.TAKE", plan.policy, key});
      return resp_command({"WEIR.TAKE", plan.policy, key, permits});
  }
}

std::string http_body(const Plan& plan, Verb verb, const std::string& key) {
  std::string body = plan.policy.empty() ? R"({"limit":)" : R"({"policy":)";
  wire::append_json_string(body, plan.policy.empty() ? plan.limit : plan.policy);
  const bool says_permits = plan.permits != 1 || verb == Verb::settle;
  if (says_permits) {
    body += fmt::format(R"(,"{}":{})", verb == Verb::settle ? "delta" : "permits", plan.permits);
  }
  body += R"(,"key":)";
  wire::append_json_string(body, key);
  body += '}';
  return body;
}

std::string http_message(const Plan& plan, Verb verb, const std::string& key) {
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

Result<core::Limit, Error> own_limit(const Plan& plan) {
  auto limit = parsed(plan.limit);
  if (!limit || plan.target.door == Door::http) return limit;
  const auto numbers = cell_numbers(*limit);
  if (!numbers) return numbers.error();
  const auto cell = core::Cell::make(numbers->burst, numbers->count, numbers->seconds);
  if (!cell) return Error{"--limit: CL.THROTTLE has no such limit; use http://… or a --policy"};
  return core::Limit{*cell};
}

Messages::Messages(const Plan& plan) {
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    messages_[i] = message(plan, static_cast<Verb>(i));
  }
  if (plan.target.door == Door::resp && !plan.password.empty()) {
    login_ = resp_command({"AUTH", plan.password});
  }
}

// Where the digits are shows by writing another key: the last byte that differs ends them. (To look
// for the key instead could find it in the name of the policy.)
Messages::Message Messages::message(const Plan& plan, Verb verb) const {
  const bool resp = plan.target.door == Door::resp;
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

void Messages::append(std::string& out, Verb verb, std::uint64_t key) const {
  const Message& message = messages_[static_cast<std::size_t>(verb)];
  const std::size_t start = out.size();
  out += message.bytes;
  char* digit = out.data() + start + message.digits_end;
  for (; key > 0; key /= 10) *--digit = static_cast<char>('0' + key % 10);
}

}  // namespace weir::cli::bench
