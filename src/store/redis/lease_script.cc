#include "store/redis/lease_script.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/saturating.h"
#include "store/redis/scripts.h"
#include "store/why_not_shareable.h"

namespace weir::store::redis {

namespace {

using core::Bucket;
using core::CalendarWindow;
using core::SlidingCounter;
using core::Window;

constexpr int kMaxRounds = 4;
constexpr std::string_view kLeasesSuffix = ":loans";  // the hash of leases

Permits countable(Permits permits) { return std::clamp<Permits>(permits, 0, kMaxSharedCount); }

RedisCall::ReplyResult misconfigured(LeaseResponse& response, std::string_view why) {
  response.kind = StoreResponse::Kind::misconfigured;
  response.error = why;
  return RedisCall::ReplyResult::answered;
}

RedisCall::ReplyResult unexpected(LeaseResponse& response) {
  return misconfigured(
      response,
      "the store's reply is not one of weir's scripts: a proxy between weir and the "
      "store may have changed it");
}

bool is_number(const wire::RespValue& value, std::int64_t least, std::int64_t most) {
  return value.kind == wire::RespValue::Kind::integer && value.number >= least &&
         value.number <= most;
}

}  // namespace

// ---- The request

bool LeaseScript::start(const LeaseRequest& request, const ScriptTime& server_time,
                        LeaseResponse& response) {
  if (auto flaw = why_not_leasable(*request.limit)) {
    misconfigured(response, *flaw);
    return false;
  }
  request_ = request;
  round_ = 0;
  if (request.now) {
    test_birth_ = next_test_birth();
    test_time_ = test_time(*request.now, std::holds_alternative<Bucket>(*request.limit));
  }
  expected_text_.clear();
  replacement_.clear();
  calendar_time_ = request.now ? test_time_ : server_time.now;
  write_command();
  return true;
}

// A request for fewer permits than its minimum gets the minimum.
Permits LeaseScript::least() const { return std::max<Permits>(countable(request_.least), 1); }
Permits LeaseScript::wanted() const {
  const Permits most = countable(request_.wanted);
  return most == 0 ? 0 : std::max(most, least());
}

void LeaseScript::write_command() {
  keys_.clear();
  keys_.text(request_.key).text(request_.key, kLeasesSuffix);
  arguments_.clear();
  write_clock();
  const char letter = letter_of(*request_.limit);
  arguments_.text(request_.borrower).text({&letter, 1});
  std::array<char, 20> digits;
  const char* const end =
      std::to_chars(digits.data(), digits.data() + digits.size(), request_.number).ptr;
  arguments_.text({digits.data(), static_cast<std::size_t>(end - digits.data())});
  arguments_.number(countable(request_.held)).number(countable(request_.returned));
  arguments_.number(countable(sat_sub(0, request_.held))).number(least()).number(wanted());
  for (const Nanos span : {request_.term, request_.spent_ago}) {
    arguments_.number(micros(Instant{std::clamp(span, Nanos{0}, kMaxLeaseTerm)}));
  }
  write_limit();
}

void LeaseScript::write_clock() {
  scratch_.clear();
  if (request_.now) append_test_time(scratch_, test_time_, test_birth_);
  arguments_.text(scratch_);
}

// The arguments that the script's `account_of` reads.
void LeaseScript::write_limit() {
  if (const auto* bucket = std::get_if<Bucket>(request_.limit)) {
    arguments_.number(bucket->known_rise);
    scratch_.clear();
    append_price_prefix(scratch_, *bucket);
    arguments_.text(scratch_).number(micros(core::present_since(request_.history)));
    arguments_.number(bucket->interval.parts);
    arguments_.number(static_cast<std::int64_t>(bucket->interval.price));
    arguments_.number(static_cast<std::int64_t>(bucket->depth));
    arguments_.text(expected_text_).text(replacement_);
  } else if (const auto* window = std::get_if<Window>(request_.limit)) {
    arguments_.number(micros(Instant{window->period})).number(window->from_first ? 1 : 0);
    arguments_.number(window->count);
  } else if (const auto* quota = std::get_if<CalendarWindow>(request_.limit)) {
    for (const auto end : periods_around(*quota->calendar, calendar_time_)) arguments_.number(end);
    arguments_.number(quota->count);
  } else if (const auto* sliding = std::get_if<SlidingCounter>(request_.limit)) {
    arguments_.number(micros(Instant{sliding->period})).number(sliding->count);
  }
}

void LeaseScript::append_command(std::string& out, bool with_source) const {
  append_eval(out, lease_script(request_.limit->index()), with_source, keys_, arguments_);
}

// ---- The response

RedisCall::ReplyResult LeaseScript::on_reply(std::span<const wire::RespValue> reply,
                                             LeaseResponse& response) {
  using Kind = wire::RespValue::Kind;
  constexpr std::size_t head = 5;  // the array, the outcome, the time (two values), the text
  constexpr std::int64_t million = 1'000'000;
  constexpr std::int64_t latest = ns(kLatest) / 1'000'000'000;
  response = {};
  if (reply.empty()) return unexpected(response);
  if (reply[0].kind == Kind::error) return misconfigured(response, reply[0].text);
  if (reply[0].kind != Kind::array || reply.size() < head || !is_number(reply[1], 1, 2) ||
      !is_number(reply[2], 0, latest) || !is_number(reply[3], 0, million - 1)) {
    return unexpected(response);
  }
  response.now = request_.now ? test_time_ : at_micro(reply[2].number * million + reply[3].number);
  if (reply[1].number == 2) return prepare_next_round(reply[4], response);

  StoredState remembered{};
  const bool present = reply[4].kind != Kind::null;
  if (present && !read_text(*request_.limit, reply[4].text, remembered))
    return unexpected(response);
  if (!read_numbers(reply.subspan(head), response)) return unexpected(response);
  describe(remembered.state, reply.back().number, response);
  response.kind = StoreResponse::Kind::decided;
  return RedisCall::ReplyResult::answered;
}

// Reads permits leased and kept, the lease's end, permits outstanding, and the retry time. `lent`
// is not checked against the request: a repeated response may be that of an earlier one.
bool LeaseScript::read_numbers(std::span<const wire::RespValue> numbers,
                               LeaseResponse& response) const {
  if (numbers.size() != 5) return false;
  for (const wire::RespValue& number : numbers) {
    if (!is_number(number, 0, std::int64_t{1} << 60)) return false;
  }
  response.lent = numbers[0].number;
  response.kept = numbers[1].number;
  response.lasts = until(response.now, at_micro(std::min(numbers[2].number, micros(kLatest))));
  response.outstanding = numbers[3].number;
  return true;
}

void LeaseScript::describe(const core::State& state, std::int64_t retry_after,
                           LeaseResponse& response) const {
  const bool refused = response.lent == 0 && wanted() > 0;
  std::visit(
      [&](const auto& l) {
        using L = std::decay_t<decltype(l)>;
        if constexpr (core::kHasState<L>) {
          response.remaining = remaining(l, state, response.now);
          response.reset_after = until(response.now, rest_at(l, state, response.now));
          if (!refused) return;
          const Nanos without_leases =
              decide(l, state, response.now, {.cost = least()}).retry_after;
          // Leases can make a bucket wait longer; the script knows them.
          response.retry_after = without_leases == core::kNever
                                     ? without_leases
                                     : std::max(without_leases, Nanos{retry_after});
        }
      },
      *request_.limit);
}

// ---- Again

RedisCall::ReplyResult LeaseScript::prepare_next_round(const wire::RespValue& text,
                                                       LeaseResponse& response) {
  if (++round_ >= kMaxRounds) {
    response.kind = StoreResponse::Kind::unavailable;
    response.error = "other clients changed the key during each attempt; nothing was leased";
    return RedisCall::ReplyResult::answered;
  }
  StoredState stored{};
  const bool present = text.kind != wire::RespValue::Kind::null;
  if (present && !read_text(*request_.limit, text.text, stored)) return unexpected(response);
  calendar_time_ = std::max(response.now, core::instant_of(stored.state.when));
  const auto* bucket = std::get_if<Bucket>(request_.limit);
  if (bucket != nullptr && present) {
    expected_text_ = text.text;
    replacement_.clear();
    const core::State next = state_under_current_limit(
        *bucket, {stored.state, stored.interval, stored.written}, response.now, request_.history);
    append_text(replacement_, *request_.limit, {next, stored.birth, response.now});
  }
  write_command();
  return RedisCall::ReplyResult::again;
}

}  // namespace weir::store::redis
