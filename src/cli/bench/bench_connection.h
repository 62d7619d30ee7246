#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/load_generator.h"
#include "cli/bench/message.h"
#include "net/file_descriptor.h"
#include "net/sockets.h"

namespace weir::cli::bench {

// A non-blocking connection to the daemon, with its write buffer and its requests in flight.
class BenchConnection {
 public:
  BenchConnection(const BenchPlan& plan, const Messages& messages, LoadGenerator& load);

  // Starts a non-blocking connect, and queues AUTH if there is a password. Returns an errno, or 0.
  // A connect that fails later is reported by `write` or `read`.
  int open(const net::SocketAddress& address, Nanos now);
  void close();

  int fd() const { return socket_.fd(); }
  bool is_open() const { return socket_.is_open(); }
  bool has_room() const { return is_open() && !closing_ && in_flight_.size() < pipeline_; }
  bool idle() const { return in_flight_.empty(); }
  bool wants_to_write() const { return written_ < out_.size(); }
  // True if a reply has arrived since `open`.
  bool was_answered() const { return answered_; }
  Nanos oldest_sent() const { return in_flight_.front().sent; }
  const std::deque<BenchRequest>& in_flight() const { return in_flight_; }

  void add(const BenchRequest& request);

  // An error of the connection; `kind` is empty if there is none.
  struct ConnectionError {
    std::string_view kind{};
    std::string text{};
    explicit operator bool() const { return !kind.empty(); }
  };
  // Sends as much of the write buffer as the socket accepts.
  ConnectionError write();
  // Receives once, and hands each complete reply to the load generator.
  ConnectionError read(Nanos now);
  // True if the daemon announced the end of the connection in a reply, and none is missing.
  bool ended() const { return closing_ && in_flight_.empty(); }

 private:
  ConnectionError read_answers(Nanos now);
  ConnectionError failure(int error) const;

  const std::size_t pipeline_;
  const Messages& messages_;
  LoadGenerator& load_;
  BenchReplyReader reader_;
  net::FileDescriptor socket_;
  std::string out_;
  std::size_t written_ = 0;
  std::vector<char> in_;
  std::size_t in_size_ = 0;
  std::deque<BenchRequest> in_flight_;
  bool closing_ = false;
  bool answered_ = false;
};

}  // namespace weir::cli::bench
