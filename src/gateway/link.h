#pragma once

#include <chrono>
#include <memory>
#include <unordered_map>
#include <vector>

#include "gateway/backend.h"
#include "net/channel.h"

namespace weir::gateway {

class Links;

// A connection to a server: of a request, or kept for the next.
class UpstreamLink final : public net::Mortal, private net::ChannelOwner {
 public:
  UpstreamLink(net::Ground& ground, std::shared_ptr<Backend> backend, Server& server,
               net::ChannelOwner& user);
  ~UpstreamLink() override { server_.in_flight.fetch_sub(in_use_, std::memory_order_relaxed); }

  net::Channel& channel() { return channel_; }
  Server& server() const { return server_; }
  // Whether it has served a request before this one: the server may have ended it meanwhile.
  bool reused() const { return reused_; }

 private:
  friend class Links;
  // Whoever says something unasked, or ends, is not asked again.
  void on_input(std::string_view) override { channel_.close(); }
  void on_sent() override {}
  void on_end() override { channel_.close(); }
  void on_broken(std::string_view) override { channel_.close(); }
  void on_out_of_memory() noexcept override { channel_.close(); }
  bool is_silent();
  void use(net::ChannelOwner& user);
  void rest();

  const std::shared_ptr<Backend> backend_;
  Server& server_;
  net::Channel channel_;
  bool reused_ = false;
  int in_use_ = 1;
  std::chrono::steady_clock::time_point since_{};
};

// The connections of one thread to all servers that are not in use.
class Links {
 public:
  explicit Links(net::Ground& ground) : ground_(ground) {}
  ~Links();

  // One that was kept, or a new one: `user` hears when that stands. None if the system has no
  // descriptor for it.
  std::unique_ptr<UpstreamLink> get(const std::shared_ptr<Backend>& backend, Server& server,
                                    bool fresh, net::ChannelOwner& user);
  // Keeps one on which all was said, for the next.
  void keep(std::unique_ptr<UpstreamLink> link);
  // Ends one that is of no more use. (It may be in the middle of something.)
  void end(std::unique_ptr<UpstreamLink> link);
  // To be called now and then: those that have waited for too long are ended.
  void sweep();

 private:
  net::Ground& ground_;
  std::unordered_map<const Server*, std::vector<std::unique_ptr<UpstreamLink>>> idle_;
};

}  // namespace weir::gateway
