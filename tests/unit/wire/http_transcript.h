#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#include "wire/http1.h"

namespace weir::wire {

// Parses a connection's input to a text, for comparing the results of the same bytes cut
// differently.
class HttpTranscript {
 public:
  explicit HttpTranscript(HttpLimits limits = {}) : parser_(limits) {}

  void receive(std::string_view piece) {
    waiting_.append(piece);
    while (!failed_ && parse_once()) {
    }
  }

  // A line for each request, and one for the final state.
  std::string text() const {
    if (failed_) return text_;
    return text_ + (parser_.in_message() ? "in a message" : "between messages");
  }
  int continues() const { return continues_; }

 private:
  // True if parsing can continue.
  bool parse_once() {
    // A temporary copy: a sanitizer finds views that outlive it.
    const std::string input = waiting_;
    const HttpParser::ParseResult step = parser_.parse(input);
    if (step.consumed > input.size()) std::abort();
    waiting_.erase(0, step.consumed);
    switch (step.status) {
      case HttpParser::Status::need_more:
        return false;
      case HttpParser::Status::head:
        if (parser_.framing().wants_continue) ++continues_;
        return !waiting_.empty();
      case HttpParser::Status::complete:
        write_down(parser_.request());
        parser_.next();
        return !waiting_.empty();
      case HttpParser::Status::error:
        break;
    }
    if (step.reason.empty()) std::abort();
    text_ += std::to_string(step.error_status);
    failed_ = true;
    return false;
  }

  void write_down(const HttpRequest& request) {
    for (const std::string_view text :
         {request.method, request.path, request.query, request.host}) {
      text_.append(text).append(" ");
    }
    text_ += std::to_string(request.version);
    text_ += request.keep_alive ? " stays" : " goes";
    for (std::size_t i = 0; i < request.fields.size(); ++i) {
      const HttpField field = request.fields[i];
      text_.append(" ").append(field.name).append("=").append(field.value);
    }
    text_.append(" {").append(request.body).append("}\n");
  }

  HttpParser parser_;
  std::string waiting_;
  std::string text_;
  int continues_ = 0;
  bool failed_ = false;
};

inline std::string transcript_at_once(std::string_view input, HttpLimits limits = {}) {
  HttpTranscript transcript(limits);
  transcript.receive(input);
  return transcript.text();
}

inline std::string transcript_in_two(std::string_view input, std::size_t cut,
                                     HttpLimits limits = {}) {
  HttpTranscript transcript(limits);
  transcript.receive(input.substr(0, cut));
  transcript.receive(input.substr(cut));
  return transcript.text();
}

inline std::string transcript_by_pieces(std::string_view input, std::size_t size,
                                        HttpLimits limits = {}) {
  HttpTranscript transcript(limits);
  for (; !input.empty(); input.remove_prefix(std::min(size, input.size()))) {
    transcript.receive(input.substr(0, size));
  }
  return transcript.text();
}

}  // namespace weir::wire
