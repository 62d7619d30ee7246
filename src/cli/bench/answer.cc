#include "cli/bench/answer.h"

#include <fmt/format.h>

namespace weir::cli::bench {

namespace {

using Value = wire::RespValue;

Answer decided(bool allowed) {
  return {.kind = allowed ? Answer::Kind::allowed : Answer::Kind::refused};
}

}  // namespace

AnswerReader::Status AnswerReader::broken(std::string_view error) {
  error_ = error;
  return Status::broken;
}

AnswerReader::Status AnswerReader::read(std::string_view input, Verb verb) {
  return door_ == Door::resp ? read_resp(input, verb) : read_http(input, verb);
}

AnswerReader::Status AnswerReader::read_resp(std::string_view input, Verb verb) {
  using Parsed = wire::RespReplyParser::Status;
  const Parsed status = resp_.parse(input);
  if (status == Parsed::need_more) return Status::need_more;
  if (status == Parsed::error) return broken(resp_.error());
  consumed_ = resp_.consumed();
  const auto values = resp_.values();
  const Value& first = values.front();
  if (first.kind == Value::Kind::error) {
    answer_ = {.kind = Answer::Kind::error,
               .error_kind = first.text.substr(0, first.text.find(' ')),
               .text = first.text};
    return Status::answer;
  }
  if (verb == Verb::login) {
    answer_ = decided(true);
    return Status::answer;
  }
  const bool is_decision = first.kind == Value::Kind::array && values.size() > 1 &&
                           values[1].kind == Value::Kind::integer;
  if (!is_decision) return broken("an answer that is no decision");
  // redis-cell says whether it is limited, the others whether it is allowed.
  answer_ = decided((values[1].number != 0) != is_cell_);
  return Status::answer;
}

AnswerReader::Status AnswerReader::read_http(std::string_view input, Verb verb) {
  using Parsed = wire::HttpReplyParser::Status;
  const Parsed status = http_.parse(input);
  if (status == Parsed::need_more) return Status::need_more;
  if (status == Parsed::error) return broken(http_.error());
  consumed_ = http_.consumed();
  closes_ = http_.closes();
  if (http_.code() == 200 || http_.code() == 429) {
    // A peek is 200 whatever it says.
    const bool refused = verb == Verb::peek
                             ? http_.body().find(R"("allowed":false)") != std::string_view::npos
                             : http_.code() == 429;
    answer_ = decided(!refused);
    return Status::answer;
  }
  status_ = fmt::format("status {}", http_.code());
  answer_ = {.kind = Answer::Kind::error, .error_kind = status_, .text = http_.body()};
  return Status::answer;
}

}  // namespace weir::cli::bench
