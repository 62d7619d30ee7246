#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "store/redis/router.h"

namespace weir::store::redis {

// Servers without sockets: the test provides their bytes and the time.
class FakeServers {
 public:
  static constexpr std::string_view kHello = "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n";

  class FakeConnection final : public ServerConnection {
   public:
    FakeConnection(FakeServers& servers, const HostPort& server, RedirectHandler& handler,
                   Nanos now)
        : servers_(servers),
          port_(server.port),
          fsm_(options_of(servers, server), servers.counts, {}, now, &handler) {
      servers_.connections_[port_] = this;
    }
    ~FakeConnection() override {
      fsm_.end();
      servers_.connections_.erase(port_);
    }
    ConnectionFsm& fsm() override { return fsm_; }
    void pump() override {}

   private:
    static ConnectionOptions options_of(const FakeServers& servers, const HostPort& server) {
      ConnectionOptions options = servers.options;
      options.server = server.host + ":" + std::to_string(server.port);
      return options;
    }

    FakeServers& servers_;
    const std::uint16_t port_;
    ConnectionFsm fsm_;
  };

  MakeServerConnection maker() {
    return [this](const HostPort& server, RedirectHandler& handler, Nanos at) {
      return std::make_unique<FakeConnection>(*this, server, handler, at);
    };
  }

  bool has(std::uint16_t port) const { return connections_.contains(port); }
  ConnectionFsm& at(std::uint16_t port) { return connections_.at(port)->fsm(); }

  // Takes the bytes that were sent to the server.
  std::string sent(std::uint16_t port) {
    std::string text{at(port).unsent()};
    at(port).on_sent(text.size());
    return text;
  }
  void receive(std::uint16_t port, std::string_view bytes) { at(port).on_bytes(bytes, now); }
  void make_ready(std::uint16_t port) {
    at(port).on_connected(now);
    sent(port);
    receive(port, kHello);
    EXPECT_TRUE(at(port).is_ready());
  }
  void refuse(std::uint16_t port) { at(port).on_disconnected("Connection refused", now); }

  ConnectionOptions options{};
  LinkCounts counts{};
  Nanos now = std::chrono::hours{1};

 private:
  std::map<std::uint16_t, FakeConnection*> connections_;
};

}  // namespace weir::store::redis
