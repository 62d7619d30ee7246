#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gateway/backend.h"
#include "net/byte_channel.h"
#include "net/loop_context.h"
#include "wire/http1_answer.h"

namespace weir::gateway {

// The active health check of one server. For the thread of its loop.
class HealthChecker final : public net::DeferredDelete, private net::ChannelOwner {
 public:
  HealthChecker(net::LoopContext& loop, std::shared_ptr<Backend> backend, UpstreamServer& server);

  const UpstreamServer& server() const { return server_; }

 private:
  // A connection whose destruction can be deferred while it is in use.
  struct ProbeConnection final : net::DeferredDelete {
    ProbeConnection(net::LoopContext& loop, UpstreamServer& server, const net::TlsContext& tls,
                    net::ChannelOwner& owner)
        : channel(loop, server.address(), tls, server.upstream().host, owner) {}
    net::ByteChannel channel;
  };

  void start_check();
  void finish_check(bool good);
  void on_connected() override;
  void on_input(std::string_view input) override;
  void on_sent() override {}
  void on_eof() override { finish_check(false); }
  void on_error(std::string_view) override { finish_check(false); }
  void on_out_of_memory() noexcept override { finish_check(false); }

  net::LoopContext& loop_;
  const std::shared_ptr<Backend> backend_;
  UpstreamServer& server_;
  const HealthCheckConfig::Active config_;
  std::unique_ptr<ProbeConnection> connection_;
  wire::HttpAnswerParser parser_{wire::HttpLimits{}};
  std::string input_;
  net::Timer timer_;
};

}  // namespace weir::gateway
