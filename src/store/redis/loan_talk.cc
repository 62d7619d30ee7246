#include "store/redis/loan_talk.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/saturating.h"
#include "store/fit.h"
#include "store/redis/scripts.h"

namespace weir::store::redis {

namespace {

using core::Bucket;
using core::Quota;
using core::Sliding;
using core::Window;

constexpr int kMostRounds = 4;
constexpr std::string_view kBeside = ":loans";  // the hash beside the state

Permits countable(Permits permits) { return std::clamp<Permits>(permits, 0, kMostCount); }

Call::Next misconfigured(LoanAnswer& answer, std::string_view why) {
  answer.kind = SharedAnswer::Kind::misconfigured;
  answer.error = why;
  return Call::Next::answered;
}

Call::Next strange(LoanAnswer& answer) {
  return misconfigured(answer,
                       "the store's answer is not one that our scripts give: something between it "
                       "and us changes them");
}

bool is_number(const wire::RespValue& value, std::int64_t least, std::int64_t most) {
  return value.kind == wire::RespValue::Kind::integer && value.number >= least &&
         value.number <= most;
}

}  // namespace

// ---- The question

bool LoanTalk::start(const LoanQuestion& question, const Clockwork& known, LoanAnswer& answer) {
  if (auto flaw = unfit_for_loans(*question.limit)) {
    misconfigured(answer, *flaw);
    return false;
  }
  question_ = question;
  round_ = 0;
  if (question.now) {
    test_birth_ = next_test_birth();
    test_time_ = test_time(*question.now, std::holds_alternative<Bucket>(*question.limit));
  }
  found_.clear();
  instead_.clear();
  around_ = question.now ? test_time_ : known.now;
  write_command();
  return true;
}

// (Whoever wants less than would help is lent what helps.)
Permits LoanTalk::least() const { return std::max<Permits>(countable(question_.least), 1); }
Permits LoanTalk::wanted() const {
  const Permits most = countable(question_.wanted);
  return most == 0 ? 0 : std::max(most, least());
}

void LoanTalk::write_command() {
  keys_.clear();
  keys_.text(question_.key).text(question_.key, kBeside);
  arguments_.clear();
  write_clock();
  const char letter = letter_of(*question_.limit);
  arguments_.text(question_.borrower).text({&letter, 1});
  std::array<char, 20> digits;
  const char* const end =
      std::to_chars(digits.data(), digits.data() + digits.size(), question_.number).ptr;
  arguments_.text({digits.data(), static_cast<std::size_t>(end - digits.data())});
  arguments_.number(countable(question_.held)).number(countable(question_.returned));
  arguments_.number(countable(sat_sub(0, question_.held))).number(least()).number(wanted());
  for (const Nanos span : {question_.term, question_.spent_ago}) {
    arguments_.number(micros(Instant{std::clamp(span, Nanos{0}, kLongestTerm)}));
  }
  write_limit();
}

void LoanTalk::write_clock() {
  scratch_.clear();
  if (question_.now) append_test_time(scratch_, test_time_, test_birth_);
  arguments_.text(scratch_);
}

// What its `account_of` reads.
void LoanTalk::write_limit() {
  if (const auto* bucket = std::get_if<Bucket>(question_.limit)) {
    arguments_.number(bucket->known_rise);
    scratch_.clear();
    append_form(scratch_, *bucket);
    arguments_.text(scratch_).number(micros(core::present_since(question_.history)));
    arguments_.number(bucket->pace.parts);
    arguments_.number(static_cast<std::int64_t>(bucket->pace.price));
    arguments_.number(static_cast<std::int64_t>(bucket->depth));
    arguments_.text(found_).text(instead_);
  } else if (const auto* window = std::get_if<Window>(question_.limit)) {
    arguments_.number(micros(Instant{window->period})).number(window->from_first ? 1 : 0);
    arguments_.number(window->count);
  } else if (const auto* quota = std::get_if<Quota>(question_.limit)) {
    for (const auto end : periods_around(*quota->calendar, around_)) arguments_.number(end);
    arguments_.number(quota->count);
  } else if (const auto* sliding = std::get_if<Sliding>(question_.limit)) {
    arguments_.number(micros(Instant{sliding->period})).number(sliding->count);
  }
}

void LoanTalk::append_command(std::string& out, bool with_source) const {
  append_eval(out, lend_script(question_.limit->index()), with_source, keys_, arguments_);
}

// ---- The answer

Call::Next LoanTalk::on_reply(std::span<const wire::RespValue> reply, LoanAnswer& answer) {
  using Kind = wire::RespValue::Kind;
  constexpr std::size_t head = 5;  // the list, what came of it, the time, the text
  constexpr std::int64_t million = 1'000'000;
  constexpr std::int64_t latest = ns(kLatest) / 1'000'000'000;
  answer = {};
  if (reply.empty()) return strange(answer);
  if (reply[0].kind == Kind::error) return misconfigured(answer, reply[0].text);
  if (reply[0].kind != Kind::array || reply.size() < head || !is_number(reply[1], 1, 2) ||
      !is_number(reply[2], 0, latest) || !is_number(reply[3], 0, million - 1)) {
    return strange(answer);
  }
  answer.now = question_.now ? test_time_ : at_micro(reply[2].number * million + reply[3].number);
  if (reply[1].number == 2) return learn(reply[4], answer);

  Remembered remembered{};
  const bool present = reply[4].kind != Kind::null;
  if (present && !read_text(*question_.limit, reply[4].text, remembered)) return strange(answer);
  if (!read_numbers(reply.subspan(head), answer)) return strange(answer);
  describe(remembered.state, reply.back().number, answer);
  answer.kind = SharedAnswer::Kind::decided;
  return Call::Next::answered;
}

// What was lent and kept, until when, what is outstanding, and when to come back. (An answer that
// is given again is that of a question that may have been another.)
bool LoanTalk::read_numbers(std::span<const wire::RespValue> numbers, LoanAnswer& answer) const {
  if (numbers.size() != 5) return false;
  for (const wire::RespValue& number : numbers) {
    if (!is_number(number, 0, std::int64_t{1} << 60)) return false;
  }
  answer.lent = numbers[0].number;
  answer.kept = numbers[1].number;
  answer.lasts = until(answer.now, at_micro(std::min(numbers[2].number, micros(kLatest))));
  answer.outstanding = numbers[3].number;
  return true;
}

void LoanTalk::describe(const core::State& state, std::int64_t retry_after,
                        LoanAnswer& answer) const {
  const bool refused = answer.lent == 0 && wanted() > 0;
  std::visit(
      [&](const auto& l) {
        using L = std::decay_t<decltype(l)>;
        if constexpr (core::kHasState<L>) {
          answer.remaining = remaining(l, state, answer.now);
          answer.reset_after = until(answer.now, rest_at(l, state, answer.now));
          if (!refused) return;
          const Nanos alone = decide(l, state, answer.now, {.cost = least()}).retry_after;
          // Loans let a bucket wait longer, and its script knows them.
          answer.retry_after = alone == core::kNever ? alone : std::max(alone, Nanos{retry_after});
        }
      },
      *question_.limit);
}

// ---- Again

Call::Next LoanTalk::learn(const wire::RespValue& text, LoanAnswer& answer) {
  if (++round_ >= kMostRounds) {
    answer.kind = SharedAnswer::Kind::unavailable;
    answer.error = "others changed the key between each two of our questions; nothing was lent";
    return Call::Next::answered;
  }
  Remembered was{};
  const bool present = text.kind != wire::RespValue::Kind::null;
  if (present && !read_text(*question_.limit, text.text, was)) return strange(answer);
  around_ = std::max(answer.now, core::instant_of(was.state.when));
  const auto* bucket = std::get_if<Bucket>(question_.limit);
  if (bucket != nullptr && present) {
    found_ = text.text;
    instead_.clear();
    const core::State next =
        carried(*bucket, {was.state, was.pace, was.written}, answer.now, question_.history);
    append_text(instead_, *question_.limit, {next, was.birth, answer.now});
  }
  write_command();
  return Call::Next::again;
}

}  // namespace weir::store::redis
