#include "gateway/link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "net/descriptor.h"

namespace weir::gateway {
namespace {

// A server that a test says everything for.
class Listener {
 public:
  Listener() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
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
  net::Descriptor accept() const {
    return net::Descriptor(::accept(socket_.fd(), nullptr, nullptr));
  }

 private:
  net::Descriptor socket_;
  std::uint16_t port_ = 0;
};

class User final : public net::ChannelOwner {
 public:
  void on_input(std::string_view) override {}
  void on_sent() override {}
  void on_end() override {}
  void on_broken(std::string_view) override {}
  void on_out_of_memory() noexcept override {}
};

class LinksTest : public testing::Test {
 protected:
  LinksTest() {
    Service service;
    service.servers.push_back({.host = "127.0.0.1", .port = listener_.port(), .text = "a"});
    backend_ = *Backend::open(service, counts_);
  }

  std::unique_ptr<UpstreamLink> get() {
    return links_.get(backend_, backend_->servers()[0], false, user_);
  }

  Listener listener_;
  Counts counts_;
  net::Poller poller_;
  net::MemoryBudget budget_{1 << 20, 1};
  net::LoopMemory memory_{budget_};
  net::Ground ground_{.poller = poller_, .memory = memory_};
  User user_;
  std::shared_ptr<Backend> backend_;
  Links links_{ground_};
};

TEST_F(LinksTest, UseAConnectionAgain) {
  links_.keep(get());
  const net::Descriptor server = listener_.accept();
  const auto again = get();
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->reused());
}

// Nobody has asked for what has come: it must not be the answer to somebody else. (The loop would
// notice as well, if it had looked before the next one came.)
TEST_F(LinksTest, ButNotOneOnWhichSomethingWasSaidUnasked) {
  links_.keep(get());
  const net::Descriptor server = listener_.accept();
  ASSERT_EQ(send(server.fd(), "HTTP/1.1 200 OK", 15, MSG_NOSIGNAL), 15);
  const auto other = get();
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->reused());
}

TEST_F(LinksTest, NorOneThatTheServerHasEnded) {
  links_.keep(get());
  listener_.accept().close();
  const auto other = get();
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->reused());
}

}  // namespace
}  // namespace weir::gateway
