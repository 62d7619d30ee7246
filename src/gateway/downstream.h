#pragma once

#include <string_view>

#include "gateway/ip_address.h"

namespace weir::gateway {

// The head of a response, independent of the HTTP version. Borrows its strings.
struct ResponseHead {
  int status = 200;
  std::string_view reason{};  // empty: the standard reason phrase of the status
  std::string_view fields{};  // lines with their CRLF; without hop-by-hop fields and Content-Length
  std::string_view length{};  // Content-Length, also for HEAD and 304; empty: not sent
  bool has_body = false;      // a body follows; its end is marked in band if `length` is empty
  bool keep_alive = true;     // the connection is reusable
  std::string_view upgrade{};  // the protocol that the connection switches to (101)
};

// The client of one exchange, independent of the HTTP version: implemented by Http1Connection and
// Http2Downstream. For the thread of its loop.
class Downstream {
 public:
  virtual const IpAddress& peer() const = 0;
  virtual bool has_tls() const = 0;

  // ---- The response

  // 100 Continue: the client may send the body.
  virtual void send_continue() = 0;
  // Another interim response (103), if the client's protocol has them.
  virtual void send_interim(const ResponseHead& head) = 0;
  virtual void send_head(const ResponseHead& head) = 0;
  virtual void send_body(std::string_view body) = 0;
  // The body is complete. `trailers`: lines with their CRLF.
  virtual void send_end(std::string_view trailers) = 0;
  // Sends what was written, as far as the client takes it.
  virtual void flush() = 0;

  // ---- Flow control

  // False under backpressure; Exchange::on_client_sent is called when that has changed.
  virtual bool has_room() = 0;
  virtual bool has_unsent() const = 0;
  // True if the rest of an answered request has to be read because the next request follows on the
  // same byte stream (HTTP/1).
  virtual bool must_drain_request() const = 0;

  // ---- Progress of the exchange

  // The exchange has made progress: it may want more of the request body, or none for now.
  virtual void on_progress() = 0;
  // The exchange is over. `keeps`: the connection is reusable.
  virtual void on_exchange_end(bool keep_alive) = 0;
  // Ends the response abnormally, so that the client can tell that it is truncated.
  virtual void abort() = 0;
  // Closes the connection at once: memory is exhausted.
  virtual void drop() noexcept = 0;

 protected:
  ~Downstream() = default;
};

}  // namespace weir::gateway
