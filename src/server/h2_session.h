#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "net/protocol.h"
#include "server/service.h"
#include "wire/h2.h"

namespace weir::server {

// A connection that speaks HTTP/2, whatever its requests are about. What comes together is answered
// together; what has to wait for the store does not keep the others waiting.
// Used by the thread that made it.
class H2Session : public net::Protocol, protected wire::H2Handler {
  // What is left of a session for those who answer later.
  struct Tie {
    explicit Tie(H2Session* its_session) : session(its_session) {}
    H2Session* session;
  };

 public:
  ~H2Session() override { tie_->session = nullptr; }

  std::size_t on_input(std::string_view input, std::string& out) override;
  void use_waker(net::Waker& waker) override { waker_ = &waker; }
  bool in_message() const override;
  bool ends() const override { return ends_ || machine_.is_over(); }
  bool look_around() override;
  void on_timeout(std::string& out) override;
  void on_shutdown() override;
  void on_end(std::string& out) override;
  std::size_t memory() const override { return machine_.memory(); }
  void on_shed(std::string& out) override;

  // The machine sees all bytes at once, so none have to be kept for it.
  static constexpr std::size_t kMostInput = 64 << 10;

  // A request that is answered later, if it is still there.
  class Later {
   public:
    Later(H2Session& session, const wire::H2Stream& stream)
        : tie_(session.tie_), id_(stream.id()) {}

    // Once. `write` is given the stream and the machine, unless the stream has ended.
    void answer(const auto& write) const {
      H2Session* const session = tie_->session;
      if (session == nullptr) return;
      wire::H2Stream* const stream = session->machine_.find(id_);
      if (stream == nullptr) return session->machine_.forget_orphan();
      write(*stream, session->machine_);
      session->wake_if_late();
    }

    // Whether it is that late.
    bool is_past(std::chrono::steady_clock::time_point time) const {
      return tie_->session != nullptr && tie_->session->is_past(time);
    }

   private:
    std::shared_ptr<Tie> tie_;
    std::int32_t id_;
  };

 protected:
  H2Session(Service& service, DoorName door, const wire::H2Limits& limits = {});

  bool takes_parts(const wire::H2Stream&) override { return false; }
  void on_gone(wire::H2Stream& stream) override;
  // Everybody is about to be sent away.
  virtual void on_drain() {}
  // To somebody who speaks something else.
  virtual void refuse_stranger(std::string& out);
  void count_request() {
    if (timed_ != nullptr) timed_->count_one();
  }
  // When what is looked at came: all that comes together comes at the same time.
  std::chrono::steady_clock::time_point received() const { return received_; }

  Service& service_;
  wire::H2Machine machine_;

 private:
  using Clock = std::chrono::steady_clock;

  void wake_if_late();
  bool is_past(Clock::time_point time) const;

  const DoorName door_;
  const std::shared_ptr<Tie> tie_;
  net::Waker* waker_ = nullptr;
  Timed* timed_ = nullptr;  // while input is looked at
  Clock::time_point received_{};
  Clock::time_point draining_since_{};
  bool ends_ = false;
};

}  // namespace weir::server
