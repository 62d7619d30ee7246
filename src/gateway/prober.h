#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gateway/backend.h"
#include "net/channel.h"
#include "net/ground.h"
#include "wire/http1_answer.h"

namespace weir::gateway {

// Asks one server now and then whether it does well.
class Prober final : public net::Mortal, private net::ChannelOwner {
 public:
  Prober(net::Ground& ground, std::shared_ptr<Backend> backend, Server& server);

  const Server& server() const { return server_; }

 private:
  // A connection, for as long as something may be in the middle of it.
  struct Call final : net::Mortal {
    Call(net::Ground& ground, Server& server, const net::TlsContext& tls, net::ChannelOwner& owner)
        : channel(ground, server.address(), tls, server.upstream().host, owner) {}
    net::Channel channel;
  };

  void ask();
  void end(bool good);
  void on_connected() override;
  void on_input(std::string_view input) override;
  void on_sent() override {}
  void on_end() override { end(false); }
  void on_broken(std::string_view) override { end(false); }
  void on_out_of_memory() noexcept override { end(false); }

  net::Ground& ground_;
  const std::shared_ptr<Backend> backend_;
  Server& server_;
  const Health::Active active_;
  std::unique_ptr<Call> call_;
  wire::HttpAnswerParser answer_{wire::HttpLimits{}};
  std::string kept_;
  net::Timer timer_;
};

}  // namespace weir::gateway
