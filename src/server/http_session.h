#pragma once

#include <string>

#include "net/protocol.h"
#include "server/http_takes.h"
#include "server/service.h"
#include "wire/http1.h"

namespace weir::server {

// A connection that speaks HTTP/1.1: the API, and pages for people. Takes that come together are
// decided together. What a request means is in http_routes.h. Used by the thread that made it.
class HttpSession : public net::Protocol {
 public:
  HttpSession(Service& service, const net::Peer& peer);

  std::size_t on_input(std::string_view input, std::string& out) override;
  bool in_message() const override { return parser_.in_message(); }
  bool ends() const override { return ends_; }
  void on_timeout(std::string& out) override;
  void on_shutdown() override { shutting_down_ = true; }

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
  void fail(int status, std::string_view reason, std::string& out);

  Service& service_;
  const net::Peer peer_;
  HttpTakes& takes_;
  wire::HttpParser parser_;
  bool ends_ = false;
  bool shutting_down_ = false;
};

}  // namespace weir::server
