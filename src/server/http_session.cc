#include "server/http_session.h"

#include "server/http_routes.h"

namespace weir::server {

using wire::HttpConnection;
using wire::HttpParser;

namespace {

// Of what a connection of HTTP/2 begins with.
constexpr std::size_t kFirstLine = 16;

}  // namespace

HttpSession::HttpSession(Service& service, const net::Peer& peer)
    : service_(service), peer_(peer), takes_(HttpTakes::of_this_thread()) {}

std::size_t HttpSession::on_input(std::string_view input, std::string& out) {
  if (h2_) [[unlikely]]
    return h2_->on_input(input, out);
  Timed timed(service_.metrics, DoorName::http);
  const HttpTakes::Guard guard(takes_);
  const std::size_t used = read_requests(input, timed, out);
  takes_.decide(service_, out);
  answers_.flush(out);
  return used;
}

std::size_t HttpSession::read_requests(std::string_view input, Timed& timed, std::string& out) {
  std::size_t used = 0;
  while (out.size() < kEnough && !ends_) {
    answers_.flush(out);
    if (answers_.owed()) return used;
    const HttpParser::Step step = parser_.parse(input.substr(used));
    used += step.consumed;
    switch (step.status) {
      case HttpParser::Status::need_more:
        return used;
      case HttpParser::Status::head:
        if (!needs_body(service_, parser_.request(), peer_)) {
          timed.count_one();
          answer_without_body(out);
        } else if (parser_.framing().wants_continue) {
          takes_.decide(service_, out);
          out += wire::kContinue;
        }
        break;
      case HttpParser::Status::complete:
        timed.count_one();
        fresh_ = false;
        answer(parser_.request(), used == input.size(), out);
        parser_.next();
        // (Of takes that follow each other none looks at the clock.)
        if (takes_.empty() && used < input.size() && timed.is_long()) return used;
        break;
      case HttpParser::Status::error:
        if (begins_http2(input)) {
          h2_ = std::make_unique<HttpStreams>(service_, peer_);
          if (waker_ != nullptr) h2_->use_waker(*waker_);
          if (shutting_down_) h2_->on_shutdown();
          return h2_->on_input(input, out);
        }
        fail(step.error_status, step.reason, out);
        break;
    }
  }
  return used;
}

// HTTP/1.0 clients who want to stay have to be told that they may. Who shuts down still answers
// what has come behind it.
void HttpSession::answer(const wire::HttpRequest& request, bool last, std::string& out) {
  ends_ = ends_ || !request.keep_alive || (shutting_down_ && last);
  const HttpConnection connection = ends_                   ? HttpConnection::close
                                    : request.version == 10 ? HttpConnection::keep_alive
                                                            : HttpConnection::unsaid;
  HttpCall call(service_, request, peer_, last, takes_, answers_, connection, out);
  route(call);
}

// The rest of the request is not read, so nothing can come behind it.
void HttpSession::answer_without_body(std::string& out) {
  ends_ = true;
  answer(parser_.request(), true, out);
}

// What follows cannot be told from the rest of what was wrong.
void HttpSession::fail(int status, std::string_view reason, std::string& out) {
  ends_ = true;
  takes_.decide(service_, out);
  HttpAnswer(out, HttpConnection::close).problem(status, reason);
}

// As a request of HTTP/1 that makes no sense.
bool HttpSession::begins_http2(std::string_view input) const {
  return fresh_ && input.starts_with(wire::H2Machine::kPreface.substr(0, kFirstLine));
}

void HttpSession::on_shutdown() {
  shutting_down_ = true;
  if (h2_) h2_->on_shutdown();
}

void HttpSession::on_end(std::string& out) {
  if (h2_) h2_->on_end(out);
}

std::size_t HttpSession::memory() const {
  return parser_.memory() + answers_.memory() + (h2_ ? h2_->memory() : 0);
}

// (Answers that are owed come first, so it cannot be told while there are some.)
void HttpSession::on_shed(std::string& out) {
  if (h2_) return h2_->on_shed(out);
  if (!answers_.owed()) out += kTooMany;
}

void HttpSession::on_timeout(std::string& out) {
  if (h2_) return h2_->on_timeout(out);
  fail(408, "the request was not finished in time", out);
}

}  // namespace weir::server
