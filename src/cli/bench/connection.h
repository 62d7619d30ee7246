#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/load.h"
#include "cli/bench/message.h"
#include "net/descriptor.h"
#include "net/listen.h"

namespace weir::cli::bench {

// A connection to the daemon, what has been sent on it and what is not answered yet. Never waits.
class Connection {
 public:
  Connection(const Plan& plan, const Messages& messages, Load& load);

  // Starts to connect; whether that works shows later. Where there is a password, it goes first.
  // Returns why not, or 0.
  int open(const net::Address& address, Nanos now);
  void close();

  int fd() const { return socket_.fd(); }
  bool is_open() const { return socket_.is_open(); }
  bool has_room() const { return is_open() && !closing_ && in_flight_.size() < pipeline_; }
  bool idle() const { return in_flight_.empty(); }
  bool wants_to_write() const { return written_ < out_.size(); }
  // Whether anything was answered since it was opened.
  bool was_answered() const { return answered_; }
  Nanos oldest_sent() const { return in_flight_.front().sent; }
  const std::deque<Request>& in_flight() const { return in_flight_; }

  void add(const Request& request);

  // What went wrong with the connection; `kind` is empty if nothing did.
  struct Trouble {
    std::string_view kind{};
    std::string text{};
    explicit operator bool() const { return !kind.empty(); }
  };
  // Sends as much as the system takes.
  Trouble write();
  // Receives what there is, and tells the load what was answered.
  Trouble read(Nanos now);
  // Whether the daemon has ended it in an orderly way, behind an answer.
  bool ended() const { return closing_ && in_flight_.empty(); }

 private:
  Trouble read_answers(Nanos now);
  Trouble failure(int error) const;

  const std::size_t pipeline_;
  const Messages& messages_;
  Load& load_;
  AnswerReader reader_;
  net::Descriptor socket_;
  std::string out_;
  std::size_t written_ = 0;
  std::vector<char> in_;
  std::size_t in_size_ = 0;
  std::deque<Request> in_flight_;
  bool closing_ = false;
  bool answered_ = false;
};

}  // namespace weir::cli::bench
