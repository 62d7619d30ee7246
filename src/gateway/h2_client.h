#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "gateway/client_side.h"
#include "gateway/exchange.h"
#include "net/ground.h"
#include "net/timers.h"
#include "wire/h2.h"

namespace weir::gateway {

class H2Session;

// The client of an exchange on one stream of HTTP/2. Used again for another one.
class H2Client final : public wire::H2Guest, public net::Mortal, private ClientSide {
 public:
  explicit H2Client(H2Session& session);

  // A request has come, whose head is whole, or something is wrong with it. Lives until on_gone.
  void begin(wire::H2Stream& stream);
  // More of it has.
  void on_more();
  // There may be room for more of the answer.
  void on_room();
  // The stream has ended, or the connection.
  void on_gone();

 private:
  enum class Wait { nothing, body, sending };

  const Address& peer() const override;
  bool has_tls() const override;
  void welcome() override;
  void hint(const AnswerHead& head) override;
  void start(const AnswerHead& head) override;
  void send(std::string_view body) override;
  void finish(std::string_view trailers) override;
  void flush() override {}
  bool has_room() override;
  bool has_unsent() const override { return stream_->unsent() > 0; }
  bool reads_to_the_end() const override { return false; }
  void go_on() override;
  void over(bool keeps) override;
  void abort() override;
  void drop() noexcept override;

  void refuse();
  void feed();
  void pass_body();
  void arrange();
  void wait_for(Wait what);
  std::uint64_t taken() const { return said_ - stream_->unsent(); }
  void on_time();

  H2Session& session_;
  wire::H2Stream* stream_ = nullptr;  // none: it has ended
  net::Timer timer_;
  Wait wait_ = Wait::nothing;
  std::uint64_t said_ = 0;        // bytes of the answer's body
  std::uint64_t taken_then_ = 0;  // of them, when the timer was set
  bool over_ = false;             // the exchange; the stream may live on
  bool has_body_ = false;         // the answer
  bool waits_ = false;            // for room
  bool passing_ = false;          // some of the body
  Exchange exchange_;
};

}  // namespace weir::gateway
