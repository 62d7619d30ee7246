#pragma once

#include <string_view>

#include "gateway/address.h"

namespace weir::gateway {

// The head of an answer, to be told in whatever the client speaks. Borrows its texts.
struct AnswerHead {
  int status = 200;
  std::string_view reason{};   // empty: what HTTP calls the status
  std::string_view fields{};   // lines with their CRLF; neither those of one hop nor Content-Length
  std::string_view length{};   // of the body, or of what it would be (HEAD, 304); empty: not told
  bool has_body = false;       // one follows; without a length, its end is told behind it
  bool keeps = true;           // the connection is to be used again
  std::string_view upgrade{};  // what is spoken behind it from both sides, if anything (101)
};

// The client's side of one exchange: what the client is told, and how it does. What it speaks is
// known here and to nobody else. For one thread.
class ClientSide {
 public:
  virtual const Address& peer() const = 0;
  virtual bool has_tls() const = 0;

  // ---- What the client is told

  // That the body it holds back is wanted.
  virtual void welcome() = 0;
  // Something before the answer (103), where the client may hear of it.
  virtual void hint(const AnswerHead& head) = 0;
  virtual void start(const AnswerHead& head) = 0;
  virtual void send(std::string_view body) = 0;
  // The body is whole. `trailers`: lines with their CRLF.
  virtual void finish(std::string_view trailers) = 0;
  // What was said goes out, as far as the client takes it.
  virtual void flush() = 0;

  // ---- How it does

  // Whether it should be told more. If not, the exchange hears when that has changed
  // (on_client_sent).
  virtual bool has_room() = 0;
  virtual bool has_unsent() const = 0;
  // Whether what the client still sends of a request that is answered has to be read, since the
  // next one comes behind it.
  virtual bool reads_to_the_end() const = 0;

  // ---- What becomes of the exchange

  // It goes on, and may want more of the request, or none for now.
  virtual void go_on() = 0;
  // It is over; the connection may be used for another one if `keeps`.
  virtual void over(bool keeps) = 0;
  // It ends at once: what was sent is not whole, and the client shall notice.
  virtual void abort() = 0;
  // Ends the connection at once, as there is no memory to do anything else.
  virtual void drop() noexcept = 0;

 protected:
  ~ClientSide() = default;
};

}  // namespace weir::gateway
