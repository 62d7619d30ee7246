#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/poller.h"
#include "net/resolver.h"
#include "net/sockets.h"
#include "net/tls_context.h"
#include "store/redis/redis_call.h"
#include "store/redis/stream.h"

namespace weir::store::redis {

// The address of a server.
struct ServerAddress {
  std::string host{};  // a name or an IP address, without brackets
  std::uint16_t port = 6379;
  std::string path{};         // of a unix socket, instead of host and port
  net::TlsContext tls{};      // null: without TLS
  std::string shown() const;  // as a URL for messages, without credentials
};

// A non-blocking stream connection to one server, over TCP, TLS or a unix socket. It can connect
// again and again. Host names are resolved on a thread of their own, see Resolver. The addresses of
// a name are tried in turn; the next attempt starts after the address that failed last. Not
// thread-safe: it belongs to the poller's thread.
class Transport final : private net::EventHandler {
 public:
  // Receives events, from within the poller's wait or from within `connect`.
  class Owner {
   public:
    virtual void on_connected() = 0;
    virtual void on_bytes(std::string_view bytes) = 0;
    virtual void on_writable() = 0;  // after `send` took only a part
    // The connection ended or could not be made. Not called for `close`.
    virtual void on_disconnected(CallFailure failure, std::string_view why) = 0;

   protected:
    ~Owner() = default;
  };

  // All arguments outlive it.
  Transport(net::Poller& poller, const ServerAddress& address, Owner& owner);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Starts an attempt; the result is an event of the owner.
  void connect();
  void close();
  bool is_idle() const { return phase_ == TransportPhase::idle; }
  bool is_open() const { return phase_ == TransportPhase::open; }

  // Returns the number of bytes taken: fewer than all if the socket's buffer is full, 0 if the
  // connection fails.
  std::size_t send(std::string_view bytes);

 private:
  enum class TransportPhase { idle, looking_up, connecting, shaking_hands, open };

  void on_ready() override;
  void on_out_of_memory() noexcept override;
  void on_looked_up();
  void try_addresses(std::vector<net::SocketAddress> addresses);
  void try_next();
  bool begin(const net::SocketAddress& address);
  void on_connect_done();
  void on_stream_connected();
  void shake_hands();
  void read();
  void fail(std::string why);
  void wait_for(net::Interest interest);

  net::Poller& poller_;
  const ServerAddress& address_;
  Owner& owner_;
  net::Resolver resolver_;
  TransportPhase phase_ = TransportPhase::idle;
  Stream stream_;
  net::Interest interest_ = net::Interest::none;
  bool has_unsent_ = false;

  std::vector<net::SocketAddress> addresses_;
  std::size_t first_ = 0;  // index of the address that an attempt starts with
  std::size_t tried_ = 0;  // number of addresses that this attempt has tried
  std::string why_;        // why the last of them failed
  std::vector<char> read_buffer_ = std::vector<char>(64 << 10);
};

}  // namespace weir::store::redis
