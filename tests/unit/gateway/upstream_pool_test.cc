#include "gateway/upstream_pool.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "net/file_descriptor.h"

namespace weir::gateway {
namespace {

// A listening socket that the test controls.
class TestServer {
 public:
  TestServer() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_.fd(), any, size), 0);
    EXPECT_EQ(listen(socket_.fd(), 8), 0);
    EXPECT_EQ(getsockname(socket_.fd(), any, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  std::uint16_t port() const { return port_; }
  net::FileDescriptor accept() const {
    return net::FileDescriptor(::accept(socket_.fd(), nullptr, nullptr));
  }

 private:
  net::FileDescriptor socket_;
  std::uint16_t port_ = 0;
};

class TestOwner final : public net::ChannelOwner {
 public:
  void on_input(std::string_view) override {}
  void on_sent() override {}
  void on_eof() override {}
  void on_error(std::string_view) override {}
  void on_out_of_memory() noexcept override {}
};

class UpstreamPoolTest : public testing::Test {
 protected:
  UpstreamPoolTest() {
    ServiceConfig service;
    service.servers.push_back({.host = "127.0.0.1", .port = listener_.port(), .text = "a"});
    backend_ = *Backend::open(service, metrics_);
  }

  std::unique_ptr<UpstreamConnection> get() {
    return pool_.acquire(backend_, backend_->servers()[0], false, owner_);
  }

  TestServer listener_;
  GatewayMetrics metrics_;
  net::Poller poller_;
  net::MemoryBudget budget_{1 << 20, 1};
  net::LoopMemory memory_{budget_};
  net::LoopContext loop_{.poller = poller_, .memory = memory_};
  TestOwner owner_;
  std::shared_ptr<Backend> backend_;
  UpstreamPool pool_{loop_};
};

TEST_F(UpstreamPoolTest, ReusesAnIdleConnection) {
  pool_.release(get());
  const net::FileDescriptor server = listener_.accept();
  const auto again = get();
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->reused());
}

// Unsolicited bytes must not become the response to the next request. (The loop would notice them
// as well, if it ran before the connection is reused.)
TEST_F(UpstreamPoolTest, DropsConnectionsWithUnsolicitedInput) {
  pool_.release(get());
  const net::FileDescriptor server = listener_.accept();
  ASSERT_EQ(send(server.fd(), "HTTP/1.1 200 OK", 15, MSG_NOSIGNAL), 15);
  const auto other = get();
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->reused());
}

TEST_F(UpstreamPoolTest, DropsConnectionsThatTheServerHasClosed) {
  pool_.release(get());
  listener_.accept().close();
  const auto other = get();
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->reused());
}

}  // namespace
}  // namespace weir::gateway
