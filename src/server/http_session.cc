#include "server/http_session.h"

#include "server/http_routes.h"

namespace weir::server {

using wire::HttpConnection;
using wire::HttpParser;

namespace {

// The first line of the HTTP/2 connection preface, "PRI * HTTP/2.0\r\n".
constexpr std::size_t kPrefaceLine = 16;

}  // namespace

HttpSession::HttpSession(ServerContext& context, const net::Peer& peer)
    : context_(context), peer_(peer), takes_(TakeBatch::of_this_thread()) {}

std::size_t HttpSession::on_input(std::string_view input, std::string& out) {
  if (h2_) [[unlikely]]
    return h2_->on_input(input, out);
  RequestTimer timer(context_.metrics, ListenerKind::http);
  const TakeBatch::ClearGuard guard(takes_);
  const std::size_t used = read_requests(input, timer, out);
  takes_.decide(context_, out);
  responses_.flush(out);
  return used;
}

std::size_t HttpSession::read_requests(std::string_view input, RequestTimer& timer,
                                       std::string& out) {
  std::size_t used = 0;
  while (out.size() < kOutputHighWater && !ends_) {
    responses_.flush(out);
    if (responses_.has_pending()) return used;
    const HttpParser::ParseResult step = parser_.parse(input.substr(used));
    used += step.consumed;
    switch (step.status) {
      case HttpParser::Status::need_more:
        return used;
      case HttpParser::Status::head:
        if (!needs_body(context_, parser_.request(), peer_)) {
          timer.count_one();
          answer_without_body(out);
        } else if (parser_.framing().wants_continue) {
          takes_.decide(context_, out);
          out += wire::kContinue;
        }
        break;
      case HttpParser::Status::complete:
        timer.count_one();
        is_first_request_ = false;
        answer(parser_.request(), used == input.size(), out);
        parser_.next();
        // (Pipelined takes do not read the clock.)
        if (takes_.empty() && used < input.size() && timer.has_expired()) return used;
        break;
      case HttpParser::Status::error:
        if (starts_http2(input)) {
          h2_ = std::make_unique<H2ApiSession>(context_, peer_);
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

// HTTP/1.0 keeps a connection open only if the response says so. At shutdown, the last request that
// has arrived closes the connection.
void HttpSession::answer(const wire::HttpRequest& request, bool last, std::string& out) {
  ends_ = ends_ || !request.keep_alive || (shutting_down_ && last);
  const HttpConnection connection = ends_                   ? HttpConnection::close
                                    : request.version == 10 ? HttpConnection::keep_alive
                                                            : HttpConnection::unsaid;
  HttpCall call(context_, request, peer_, last, takes_, responses_, connection, out);
  route(call);
}

// Closes the connection: the body is not read, so no request can follow.
void HttpSession::answer_without_body(std::string& out) {
  ends_ = true;
  answer(parser_.request(), true, out);
}

// Closes the connection: where the next request starts is not known.
void HttpSession::fail(int status, std::string_view reason, std::string& out) {
  ends_ = true;
  takes_.decide(context_, out);
  HttpResponder(out, HttpConnection::close).problem(status, reason);
}

// True for the preface of HTTP/2, which is an error to the parser of HTTP/1.
bool HttpSession::starts_http2(std::string_view input) const {
  return is_first_request_ &&
         input.starts_with(wire::Http2Server::kPreface.substr(0, kPrefaceLine));
}

void HttpSession::on_shutdown() {
  shutting_down_ = true;
  if (h2_) h2_->on_shutdown();
}

void HttpSession::on_close(std::string& out) {
  if (h2_) h2_->on_close(out);
}

std::size_t HttpSession::memory() const {
  return parser_.memory() + responses_.memory() + (h2_ ? h2_->memory() : 0);
}

// Sends nothing while a response is pending: the client would take the error for that response.
void HttpSession::on_shed(std::string& out) {
  if (h2_) return h2_->on_shed(out);
  if (!responses_.has_pending()) out += kOverloaded;
}

void HttpSession::on_timeout(std::string& out) {
  if (h2_) return h2_->on_timeout(out);
  fail(408, "the request was not finished in time", out);
}

}  // namespace weir::server
