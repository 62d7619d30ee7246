#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "net/protocol.h"
#include "server/server_context.h"
#include "wire/h2.h"

namespace weir::server {

// The common part of HTTP/2 connections. Responses to the requests of one turn are written
// together; a request that waits for the store does not delay the other streams.
// Used by the thread that made it.
class H2Session : public net::Protocol, protected wire::H2Handler {
  // Shared with the handles of streams, which may outlive the session.
  struct BackReference {
    explicit BackReference(H2Session* its_session) : session(its_session) {}
    H2Session* session;  // null: the session has ended
  };

 public:
  ~H2Session() override { self_->session = nullptr; }

  std::size_t on_input(std::string_view input, std::string& out) override;
  void use_waker(net::Waker& waker) override { waker_ = &waker; }
  bool in_message() const override;
  bool ends() const override { return ends_ || machine_.is_over(); }
  bool on_tick() override;
  void on_timeout(std::string& out) override;
  void on_shutdown() override;
  void on_close(std::string& out) override;
  std::size_t memory() const override { return machine_.memory(); }
  void on_shed(std::string& out) override;

  // The machine consumes all input, so the connection never keeps any for it.
  static constexpr std::size_t kMaxInput = 64 << 10;

  // A request that is answered later. Its stream or its session may have ended by then.
  class StreamHandle {
   public:
    StreamHandle(H2Session& session, const wire::H2Stream& stream)
        : session_(session.self_), id_(stream.id()) {}

    // Calls `write(stream, machine)` unless the stream has ended. Once.
    void respond(const auto& write) const {
      H2Session* const session = session_->session;
      if (session == nullptr) return;
      wire::H2Stream* const stream = session->machine_.find(id_);
      if (stream == nullptr) return session->machine_.forget_orphan();
      write(*stream, session->machine_);
      session->wake_if_deferred();
    }

    // False if the session has ended.
    bool is_past(std::chrono::steady_clock::time_point time) const {
      return session_->session != nullptr && session_->session->is_past(time);
    }

   private:
    std::shared_ptr<BackReference> session_;
    std::int32_t id_;
  };

 protected:
  H2Session(ServerContext& context, ListenerKind listener, const wire::H2Limits& limits = {});

  bool takes_parts(const wire::H2Stream&) override { return false; }
  void on_gone(wire::H2Stream& stream) override;
  // Called at shutdown, before the GOAWAY.
  virtual void on_drain() {}
  // The response to a client that does not speak HTTP/2.
  virtual void refuse_other_protocol(std::string& out);
  void count_request() {
    if (timer_ != nullptr) timer_->count_one();
  }
  // The arrival time of the input that is being handled.
  std::chrono::steady_clock::time_point received() const { return received_; }

  ServerContext& context_;
  wire::Http2Server machine_;

 private:
  using Clock = std::chrono::steady_clock;

  void wake_if_deferred();
  bool is_past(Clock::time_point time) const;

  const ListenerKind listener_;
  const std::shared_ptr<BackReference> self_;
  net::Waker* waker_ = nullptr;
  RequestTimer* timer_ = nullptr;  // within on_input
  Clock::time_point received_{};
  Clock::time_point draining_since_{};
  bool ends_ = false;
};

}  // namespace weir::server
