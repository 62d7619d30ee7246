#include "server/http_session.h"

#include "server/http_routes.h"

namespace weir::server {

using wire::HttpConnection;
using wire::HttpParser;

HttpSession::HttpSession(Service& service, const net::Peer& peer)
    : service_(service), peer_(peer), takes_(HttpTakes::of_this_thread()) {}

std::size_t HttpSession::on_input(std::string_view input, std::string& out) {
  Timed timed(service_.metrics, DoorName::http);
  const std::size_t used = read_requests(input, timed, out);
  takes_.decide(service_, out);
  return used;
}

std::size_t HttpSession::read_requests(std::string_view input, Timed& timed, std::string& out) {
  std::size_t used = 0;
  while (out.size() < kEnough && !ends_) {
    const HttpParser::Step step = parser_.parse(input.substr(used));
    used += step.consumed;
    switch (step.status) {
      case HttpParser::Status::need_more:
        return used;
      case HttpParser::Status::wants_continue:
        takes_.decide(service_, out);
        out += wire::kContinue;
        break;
      case HttpParser::Status::complete:
        timed.count_one();
        answer(parser_.request(), used == input.size(), out);
        parser_.next();
        break;
      case HttpParser::Status::error:
        fail(step.error_status, step.reason, out);
        break;
    }
  }
  return used;
}

// HTTP/1.0 clients who want to stay have to be told that they may. Who shuts down still answers
// what has come behind it.
void HttpSession::answer(const wire::HttpRequest& request, bool last, std::string& out) {
  ends_ = !request.keep_alive || (shutting_down_ && last);
  const HttpConnection connection = ends_                   ? HttpConnection::close
                                    : request.version == 10 ? HttpConnection::keep_alive
                                                            : HttpConnection::unsaid;
  HttpCall call(service_, request, peer_, last, takes_, connection, out);
  route(call);
}

// What follows cannot be told from the rest of what was wrong.
void HttpSession::fail(int status, std::string_view reason, std::string& out) {
  ends_ = true;
  takes_.decide(service_, out);
  HttpAnswer(out, HttpConnection::close).problem(status, reason);
}

void HttpSession::on_timeout(std::string& out) {
  fail(408, "the request was not finished in time", out);
}

}  // namespace weir::server
