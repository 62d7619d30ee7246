#pragma once

#include <chrono>
#include <memory>
#include <unordered_map>
#include <vector>

#include "gateway/backend.h"
#include "net/byte_channel.h"

namespace weir::gateway {

class UpstreamPool;

// A connection to a server: in use by one request, or idle in the pool.
class UpstreamConnection final : public net::DeferredDelete, private net::ChannelOwner {
 public:
  UpstreamConnection(net::LoopContext& loop, std::shared_ptr<Backend> backend,
                     UpstreamServer& server, net::ChannelOwner& owner);
  ~UpstreamConnection() override {
    server_.in_flight.fetch_sub(in_use_, std::memory_order_relaxed);
  }

  net::ByteChannel& channel() { return channel_; }
  UpstreamServer& server() const { return server_; }
  // True if it has served a request before: the server may have closed it in the meantime.
  bool reused() const { return reused_; }

 private:
  friend class UpstreamPool;
  // net::ChannelOwner while idle. An idle connection that receives anything is closed, not reused.
  void on_input(std::string_view) override { channel_.close(); }
  void on_sent() override {}
  void on_eof() override { channel_.close(); }
  void on_error(std::string_view) override { channel_.close(); }
  void on_out_of_memory() noexcept override { channel_.close(); }
  bool is_reusable();
  void start_use(net::ChannelOwner& owner);
  void make_idle();

  const std::shared_ptr<Backend> backend_;
  UpstreamServer& server_;
  net::ByteChannel channel_;
  bool reused_ = false;
  int in_use_ = 1;
  std::chrono::steady_clock::time_point idle_since_{};
};

// Idle upstream connections of one thread, by server. For that thread.
class UpstreamPool {
 public:
  explicit UpstreamPool(net::LoopContext& loop) : loop_(loop) {}
  ~UpstreamPool();

  // Returns an idle connection, or opens a new one: `owner` is told when that is established.
  // `fresh`: a new one in any case. Null if the process is out of file descriptors.
  std::unique_ptr<UpstreamConnection> acquire(const std::shared_ptr<Backend>& backend,
                                              UpstreamServer& server, bool fresh,
                                              net::ChannelOwner& owner);
  // Puts a connection back whose response is complete.
  void release(std::unique_ptr<UpstreamConnection> connection);
  // Closes a connection; it is destroyed at the end of the loop's iteration.
  void close(std::unique_ptr<UpstreamConnection> connection);
  // To be called periodically: closes connections that were idle for too long.
  void close_expired();

 private:
  net::LoopContext& loop_;
  std::unordered_map<const UpstreamServer*, std::vector<std::unique_ptr<UpstreamConnection>>> idle_;
};

}  // namespace weir::gateway
