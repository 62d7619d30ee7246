#pragma once

#include <memory>
#include <string>

#include "net/protocol.h"
#include "server/h2_api_session.h"
#include "server/response_queue.h"
#include "server/server_context.h"
#include "server/take_batch.h"
#include "wire/http1.h"

namespace weir::server {

// A connection of the HTTP listener: the API and the pages, over HTTP/1.1. Pipelined takes are
// decided together. http_routes.h has the routes. A connection that starts with the preface of
// HTTP/2 becomes an H2ApiSession. Used by the thread that made it.
class HttpSession : public net::Protocol {
 public:
  HttpSession(ServerContext& context, const net::Peer& peer);

  std::size_t on_input(std::string_view input, std::string& out) override;
  void use_waker(net::Waker& waker) override {
    waker_ = &waker;
    responses_.use_waker(waker);
  }
  bool waits() const override { return responses_.has_pending(); }
  bool in_message() const override {
    return h2_ ? h2_->in_message() : responses_.has_pending() || parser_.in_message();
  }
  bool ends() const override { return h2_ ? h2_->ends() : ends_ && !responses_.has_pending(); }
  bool on_tick() override { return h2_ && h2_->on_tick(); }
  void on_timeout(std::string& out) override;
  void on_shutdown() override;
  void on_close(std::string& out) override;
  std::size_t memory() const override;
  void on_shed(std::string& out) override;

  static constexpr std::size_t kMaxInput = 64 << 10;
  static constexpr std::string_view kOverloaded =
      "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
      "Connection: close\r\n\r\n";
  static constexpr std::string_view kTlsOnly =
      "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 46\r\n"
      "Connection: close\r\n\r\nThis port speaks TLS only: ask it by https://\n";

 private:
  std::size_t read_requests(std::string_view input, RequestTimer& timer, std::string& out);
  void answer(const wire::HttpRequest& request, bool last, std::string& out);
  void answer_without_body(std::string& out);
  void fail(int status, std::string_view reason, std::string& out);
  bool starts_http2(std::string_view input) const;

  ServerContext& context_;
  const net::Peer peer_;
  TakeBatch& takes_;
  wire::HttpParser parser_;
  bool ends_ = false;
  bool shutting_down_ = false;
  bool is_first_request_ = true;
  ResponseQueue responses_;
  net::Waker* waker_ = nullptr;
  std::unique_ptr<H2ApiSession> h2_;  // none: the connection is HTTP/1
};

}  // namespace weir::server
