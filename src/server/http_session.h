#pragma once

#include <memory>
#include <string>

#include "net/protocol.h"
#include "server/answers.h"
#include "server/h2_http_streams.h"
#include "server/http_takes.h"
#include "server/service.h"
#include "wire/http1.h"

namespace weir::server {

// A connection that speaks HTTP/1.1: the API, and pages for people. Takes that come together are
// decided together. What a request means is in http_routes.h. Whoever begins as HTTP/2 does is
// spoken to in that. Used by the thread that made it.
class HttpSession : public net::Protocol {
 public:
  HttpSession(Service& service, const net::Peer& peer);

  std::size_t on_input(std::string_view input, std::string& out) override;
  void use_waker(net::Waker& waker) override {
    waker_ = &waker;
    answers_.use_waker(waker);
  }
  bool waits() const override { return answers_.owed(); }
  bool in_message() const override {
    return h2_ ? h2_->in_message() : answers_.owed() || parser_.in_message();
  }
  bool ends() const override { return h2_ ? h2_->ends() : ends_ && !answers_.owed(); }
  bool look_around() override { return h2_ && h2_->look_around(); }
  void on_timeout(std::string& out) override;
  void on_shutdown() override;
  void on_end(std::string& out) override;
  std::size_t memory() const override;
  void on_shed(std::string& out) override;

  static constexpr std::size_t kMostInput = 64 << 10;
  static constexpr std::string_view kTooMany =
      "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
      "Connection: close\r\n\r\n";
  static constexpr std::string_view kNotTls =
      "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 46\r\n"
      "Connection: close\r\n\r\nThis port speaks TLS only: ask it by https://\n";

 private:
  std::size_t read_requests(std::string_view input, Timed& timed, std::string& out);
  void answer(const wire::HttpRequest& request, bool last, std::string& out);
  void answer_without_body(std::string& out);
  void fail(int status, std::string_view reason, std::string& out);
  bool begins_http2(std::string_view input) const;

  Service& service_;
  const net::Peer peer_;
  HttpTakes& takes_;
  wire::HttpParser parser_;
  bool ends_ = false;
  bool shutting_down_ = false;
  bool fresh_ = true;  // there was no request yet
  Answers answers_;
  net::Waker* waker_ = nullptr;
  std::unique_ptr<HttpStreams> h2_;  // none: it does not speak HTTP/2
};

}  // namespace weir::server
