#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <vector>

#include "net/protocol.h"

namespace weir::net {

class Connection;

// The connections of one loop, and its clock: whole seconds, which is exact enough for patience.
struct Connections {
  std::vector<Connection*> open;
  int second = 0;
};

// A socket and what it speaks. Reads, lets the protocol answer, writes, and only then reads on: a
// peer that does not take its answers is not asked for more questions.
// Lives as long as something is under way on its socket. Used by the thread of its loop only.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  Connection(Socket socket, const Door& door, const Peer& peer, Connections& others);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  // Called once a second: ends it if the peer has been too slow.
  void check_patience();
  // Answers what has arrived, then ends.
  void shut_down();
  void close();

 private:
  enum class State { reading, writing, draining, closed };

  void serve();
  bool flush();
  void read();
  void read_on();
  void on_read(const boost::system::error_code& error, std::size_t count);
  void wait_until_writable();
  void end();
  void start_reading();
  bool make_room();
  std::string_view input() const { return {buffer_.data() + first_, last_ - first_}; }
  void use_up(std::size_t count);
  void give_back_memory();

  Socket socket_;
  const Door& door_;
  Connections& others_;
  std::size_t place_;  // among the others
  std::unique_ptr<Protocol> protocol_;
  State state_ = State::reading;
  bool read_under_way_ = false;

  // Bytes that have come and are not used up: [first_, last_) of the buffer.
  std::vector<char> buffer_;
  std::size_t first_ = 0;
  std::size_t last_ = 0;
  std::string out_;
  std::size_t sent_ = 0;

  int since_ = 0;  // the second in which it began to wait for what it waits for
  bool in_message_ = false;
  bool shutting_down_ = false;
};

}  // namespace weir::net
