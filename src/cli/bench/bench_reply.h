#pragma once

#include <string_view>

#include "cli/bench/bench_plan.h"
#include "wire/http1_reply.h"
#include "wire/resp_reply.h"

namespace weir::cli::bench {

enum class ReplyKind : std::uint8_t { allowed, refused, error };

// The daemon's reply to a request. Borrows its texts from the input of the reader, or from the
// reader itself: valid until the next read.
struct BenchReply {
  ReplyKind kind = ReplyKind::allowed;
  std::string_view error_kind{};  // "ERR", "status 404": errors are counted by it
  std::string_view text{};        // of an error, for the report
};

// Parses the replies of the RESP listener or of the HTTP listener.
class BenchReplyReader {
 public:
  explicit BenchReplyReader(const BenchPlan& plan)
      : protocol_(plan.target.protocol), is_cell_(plan.policy.empty()) {}

  enum class ReadStatus { need_more, reply, broken };

  // Parses the reply at the start of `input`, to a request with this verb.
  ReadStatus read(std::string_view input, RequestVerb verb);

  const BenchReply& answer() const { return answer_; }
  std::size_t consumed() const { return consumed_; }
  // True if the daemon closes the connection after this reply.
  bool closes() const { return closes_; }
  // The reason of the last ReadStatus::broken.
  std::string_view error() const { return error_; }

 private:
  ReadStatus read_resp(std::string_view input, RequestVerb verb);
  ReadStatus read_http(std::string_view input, RequestVerb verb);
  ReadStatus broken(std::string_view error);

  WireProtocol protocol_;
  bool is_cell_;
  wire::RespReplyParser resp_;
  wire::HttpReplyParser http_;
  BenchReply answer_{};
  std::size_t consumed_ = 0;
  bool closes_ = false;
  std::string_view error_{};
  std::string status_;  // "status 404"
};

}  // namespace weir::cli::bench
