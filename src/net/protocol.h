#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace weir::net {

// The other end of a connection.
struct Peer {
  std::string address;
  bool loopback = false;
};

// Lets a protocol schedule output without new input. The connection calls on_input soon after.
class Waker {
 public:
  virtual void wake() = 0;

 protected:
  ~Waker() = default;
};

// The server's side of one connection's protocol, without I/O: bytes in, bytes out. Used by one
// thread.
class Protocol {
 public:
  virtual ~Protocol() = default;

  // Sets the waker. Called once, before anything else; the waker outlives the protocol.
  virtual void use_waker(Waker& /*waker*/) {}

  // True while a response depends on an asynchronous operation. Nothing is read meanwhile. When the
  // operation is done, the protocol calls the waker, and on_input is called again, possibly without
  // input.
  virtual bool waits() const { return false; }

  // Gets all input that is not consumed yet. Consumes what it can, appends responses to `out`, and
  // returns the number of bytes consumed. It stops when `out` has kOutputHighWater bytes, and is
  // called again once those are sent, and after each wake. The input may be empty then. It also
  // stops work that takes longer than kTimeSlice, and continues it after other connections have had
  // their turn.
  virtual std::size_t on_input(std::string_view input, std::string& out) = 0;
  static constexpr std::size_t kOutputHighWater = 64 << 10;
  static constexpr std::chrono::milliseconds kTimeSlice{1};

  // True if the last on_input wrote a response, and not only control data of the protocol (a TLS
  // handshake). Only a response restarts the message timeout.
  virtual bool wrote_response() const { return true; }

  // True if part of a message has been consumed, and the rest has not arrived.
  virtual bool in_message() const = 0;

  // True if the connection is to be closed once all output is sent.
  virtual bool ends() const = 0;

  // Called several times a second while the connection waits for input. Returns true if there is
  // output because time has passed; on_input is called then.
  virtual bool on_tick() { return false; }

  // The message timeout has passed: appends the last response, if any.
  virtual void on_timeout(std::string& out) = 0;

  // Graceful shutdown begins: finishes requests under way, then `ends` returns true.
  virtual void on_shutdown() = 0;

  // The connection is closed now, and all output is sent: appends final bytes, if any (GOAWAY, a
  // TLS alert).
  virtual void on_close(std::string& /*out*/) {}

  // Bytes of buffers that it holds: of incomplete messages, of responses.
  virtual std::size_t memory() const { return 0; }

  // The connection is closed because all connections together hold too much memory: appends a
  // response that says so, if one is allowed at this point.
  virtual void on_shed(std::string& /*out*/) {}
};

class ConnectionHandler;
struct LoopContext;

// Options of a listener and its connections.
struct ListenerOptions {
  // Makes the protocol of a connection.
  std::function<std::unique_ptr<Protocol>(const Peer&)> make_protocol;
  // Used instead of make_protocol, if set: makes the handler of each loop, on the loop's thread. Of
  // the options below, only over_limit_reply applies then.
  std::function<std::unique_ptr<ConnectionHandler>(LoopContext&)> make_handler{};
  std::string
      over_limit_reply;      // bytes sent to a connection beyond the limit, which is then closed
  std::size_t max_input;     // bytes of one message
  int idle_seconds = 0;      // timeout between messages; 0: none
  int message_seconds = 30;  // timeout from the first byte of a message to its last
  int stall_seconds = 30;    // timeout for the peer to read some of the output
};

}  // namespace weir::net
