#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "wire/http1_head.h"

namespace weir::wire {

// Reads the heads of a server's answers for somebody who passes them on; the bodies are for
// HttpBody. As strict as HttpParser: what could be understood in two ways is an error, since the
// client behind may understand it in the other.
// Not thread-safe.
class HttpAnswerParser {
 public:
  enum class Status { need_more, complete, error };
  struct ParseResult {
    Status status = Status::need_more;
    std::size_t consumed = 0;
    std::string_view reason{};  // what is wrong, for people
  };

  explicit HttpAnswerParser(const HttpLimits& limits)
      : limits_(limits), head_(HttpHead::MessageType::response, limits) {}
  // (Answers point into it.)
  HttpAnswerParser(const HttpAnswerParser&) = delete;
  HttpAnswerParser& operator=(const HttpAnswerParser&) = delete;

  // `input` is what has arrived and was not consumed yet. `to_head`: the request was HEAD.
  ParseResult parse(std::string_view input, bool to_head);
  // Forgets the answer, to read the one behind it.
  void next();

  // Of the answer that is complete:
  int status() const { return head_.parsed().status; }
  std::string_view reason() const { return head_.parsed().reason.in(kept_.data()); }
  HttpFields fields() const { return {head_.slices(), kept_.data()}; }
  const HttpFraming& framing() const { return framing_; }
  // Whether the connection can be used again behind it.
  bool keep_alive() const { return head_.keep_alive() && !framing_.until_end; }
  // Whether it says how long its body would be, also if it has none (to HEAD, 304).
  bool declares_length() const { return head_.parsed().length_count > 0; }
  std::string_view length_text() const { return head_.parsed().length.in(kept_.data()); }

 private:
  HttpLimits limits_;
  HttpHead head_;
  HttpFraming framing_;
  std::string kept_;
};

}  // namespace weir::wire
