#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "store/redis/way.h"

namespace weir::store::redis {

// Servers whose bytes, and whose time, are in the test's hand.
class FakeServers {
 public:
  static constexpr std::string_view kHello = "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n";

  class FakePeer final : public Peer {
   public:
    FakePeer(FakeServers& servers, const Place& place, Guide& guide, Nanos now)
        : servers_(servers),
          port_(place.port),
          machine_(options_of(servers, place), servers.counts, {}, now, &guide) {
      servers_.peers_[port_] = this;
    }
    ~FakePeer() override {
      machine_.end();
      servers_.peers_.erase(port_);
    }
    Machine& machine() override { return machine_; }
    void turn() override {}

   private:
    static MachineOptions options_of(const FakeServers& servers, const Place& place) {
      MachineOptions options = servers.options;
      options.server = place.host + ":" + std::to_string(place.port);
      return options;
    }

    FakeServers& servers_;
    const std::uint16_t port_;
    Machine machine_;
  };

  MakePeer maker() {
    return [this](const Place& place, Guide& guide, Nanos at) {
      return std::make_unique<FakePeer>(*this, place, guide, at);
    };
  }

  bool has(std::uint16_t port) const { return peers_.contains(port); }
  Machine& at(std::uint16_t port) { return peers_.at(port)->machine(); }

  // What is said to it.
  std::string said(std::uint16_t port) {
    std::string text{at(port).unsent()};
    at(port).on_sent(text.size());
    return text;
  }
  void hears(std::uint16_t port, std::string_view bytes) { at(port).on_bytes(bytes, now); }
  void be_ready(std::uint16_t port) {
    at(port).on_connected(now);
    said(port);
    hears(port, kHello);
    EXPECT_TRUE(at(port).is_ready());
  }
  void refuse(std::uint16_t port) { at(port).on_disconnected("Connection refused", now); }

  MachineOptions options{};
  LinkCounts counts{};
  Nanos now = std::chrono::hours{1};

 private:
  std::map<std::uint16_t, FakePeer*> peers_;
};

}  // namespace weir::store::redis
