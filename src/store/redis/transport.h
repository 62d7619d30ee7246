#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/listen.h"
#include "net/poller.h"
#include "net/tls_context.h"
#include "store/redis/call.h"
#include "store/redis/lookup.h"
#include "store/redis/stream.h"

namespace weir::store::redis {

// Where a server is.
struct ServerAddress {
  std::string host{};  // a name or an address, without brackets
  std::uint16_t port = 6379;
  std::string path{};         // of a unix socket, instead of the above
  net::TlsContext tls{};      // null: without TLS
  std::string shown() const;  // for people
};

// A connection that is made, carries bytes and ends, as often as wanted. Never waits: names are
// looked up by a thread that lives only for that, see lookup.h. A name's addresses are tried in
// turn; who was tried last and did not answer is not tried first again.
// For one thread.
class Transport final : private net::Watcher {
 public:
  // Who is told what happens, while the poller waits or from within `connect`.
  class Owner {
   public:
    virtual void on_connected() = 0;
    virtual void on_bytes(std::string_view bytes) = 0;
    virtual void on_writable() = 0;  // after `send` has left something
    // No more comes. Not told of `close`.
    virtual void on_disconnected(Failure failure, std::string_view why) = 0;

   protected:
    ~Owner() = default;
  };

  // All outlive it.
  Transport(net::Poller& poller, const ServerAddress& address, Owner& owner);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Begins to.
  void connect();
  void close();
  bool is_idle() const { return state_ == State::idle; }
  bool is_open() const { return state_ == State::open; }

  // How much of it was taken: all, or what fits, or nothing if the connection fails.
  std::size_t send(std::string_view bytes);

 private:
  enum class State { idle, looking_up, connecting, shaking_hands, open };

  void on_ready() override;
  void on_out_of_memory() noexcept override;
  void on_looked_up();
  void try_addresses(std::vector<net::Address> addresses);
  void try_next();
  bool begin(const net::Address& address);
  void on_connect_done();
  void on_stream_connected();
  void shake_hands();
  void read();
  void fail(std::string why);
  void wait_for(net::Interest interest);

  net::Poller& poller_;
  const ServerAddress& address_;
  Owner& owner_;
  Lookup lookup_;
  State state_ = State::idle;
  Stream stream_;
  net::Interest interest_ = net::Interest::none;
  bool has_unsent_ = false;

  std::vector<net::Address> addresses_;
  std::size_t first_ = 0;  // the address that an attempt starts with
  std::size_t tried_ = 0;  // how many this attempt has tried
  std::string why_;        // the last one has failed
  std::vector<char> room_ = std::vector<char>(64 << 10);
};

}  // namespace weir::store::redis
