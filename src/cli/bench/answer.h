#pragma once

#include <string_view>

#include "cli/bench/plan.h"
#include "wire/http1_reply.h"
#include "wire/resp_reply.h"

namespace weir::cli::bench {

// What the daemon said to a request. Borrows its texts from the bytes it was read from, or from the
// reader.
struct Answer {
  enum class Kind : std::uint8_t { allowed, refused, error };

  Kind kind = Kind::allowed;
  std::string_view error_kind{};  // "ERR", "status 404": by what errors are counted
  std::string_view text{};        // of an error, for people
};

// Reads the answers of either door.
class AnswerReader {
 public:
  explicit AnswerReader(const Plan& plan)
      : door_(plan.target.door), is_cell_(plan.policy.empty()) {}

  enum class Status { need_more, answer, broken };

  // The next answer at the start of `input`, to a request with this verb.
  Status read(std::string_view input, Verb verb);

  const Answer& answer() const { return answer_; }
  std::size_t consumed() const { return consumed_; }
  // Whether the daemon ends the connection behind this answer.
  bool closes() const { return closes_; }
  // Why it is broken.
  std::string_view error() const { return error_; }

 private:
  Status read_resp(std::string_view input, Verb verb);
  Status read_http(std::string_view input, Verb verb);
  Status broken(std::string_view error);

  Door door_;
  bool is_cell_;
  wire::RespReplyParser resp_;
  wire::HttpReplyParser http_;
  Answer answer_{};
  std::size_t consumed_ = 0;
  bool closes_ = false;
  std::string_view error_{};
  std::string status_;  // "status 404"
};

}  // namespace weir::cli::bench
