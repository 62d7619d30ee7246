#include "cli/bench/bench_reply.h"

#include <fmt/format.h>

namespace weir::cli::bench {

namespace {

using Value = wire::RespValue;

BenchReply decided(bool allowed) {
  return {.kind = allowed ? ReplyKind::allowed : ReplyKind::refused};
}

}  // namespace

BenchReplyReader::ReadStatus BenchReplyReader::broken(std::string_view error) {
  error_ = error;
  return ReadStatus::broken;
}

BenchReplyReader::ReadStatus BenchReplyReader::read(std::string_view input, RequestVerb verb) {
  return protocol_ == WireProtocol::resp ? read_resp(input, verb) : read_http(input, verb);
}

BenchReplyReader::ReadStatus BenchReplyReader::read_resp(std::string_view input, RequestVerb verb) {
  using Parsed = wire::RespReplyParser::Status;
  const Parsed status = resp_.parse(input);
  if (status == Parsed::need_more) return ReadStatus::need_more;
  if (status == Parsed::error) return broken(resp_.error());
  consumed_ = resp_.consumed();
  const auto values = resp_.values();
  const Value& first = values.front();
  if (first.kind == Value::Kind::error) {
    answer_ = {.kind = ReplyKind::error,
               .error_kind = first.text.substr(0, first.text.find(' ')),
               .text = first.text};
    return ReadStatus::reply;
  }
  if (verb == RequestVerb::login) {
    answer_ = decided(true);
    return ReadStatus::reply;
  }
  const bool is_decision = first.kind == Value::Kind::array && values.size() > 1 &&
                           values[1].kind == Value::Kind::integer;
  if (!is_decision) return broken("the reply is not a decision");
  // The first integer of CL.THROTTLE is 1 for a refused call, that of WEIR.* is 1 for an allowed
  // one.
  answer_ = decided((values[1].number != 0) != is_cell_);
  return ReadStatus::reply;
}

BenchReplyReader::ReadStatus BenchReplyReader::read_http(std::string_view input, RequestVerb verb) {
  using Parsed = wire::HttpReplyParser::Status;
  const Parsed status = http_.parse(input);
  if (status == Parsed::need_more) return ReadStatus::need_more;
  if (status == Parsed::error) return broken(http_.error());
  consumed_ = http_.consumed();
  closes_ = http_.closes();
  if (http_.code() == 200 || http_.code() == 429) {
    // The status of a peek is 200 also for a refusal.
    const bool refused = verb == RequestVerb::peek
                             ? http_.body().find(R"("allowed":false)") != std::string_view::npos
                             : http_.code() == 429;
    answer_ = decided(!refused);
    return ReadStatus::reply;
  }
  status_ = fmt::format("status {}", http_.code());
  answer_ = {.kind = ReplyKind::error, .error_kind = status_, .text = http_.body()};
  return ReadStatus::reply;
}

}  // namespace weir::cli::bench
