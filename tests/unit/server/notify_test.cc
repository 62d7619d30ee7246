#include "server/notify.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace weir::server {
namespace {

// The socket of a supervisor, at an abstract name that the system chooses.
class Supervisor {
 public:
  Supervisor() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socklen_t size = sizeof(sa_family_t);
    bind(socket_.fd(), reinterpret_cast<sockaddr*>(&address), size);
    size = sizeof address;
    getsockname(socket_.fd(), reinterpret_cast<sockaddr*>(&address), &size);
    const std::size_t length = size - offsetof(sockaddr_un, sun_path);
    name_ = "@" + std::string(address.sun_path + 1, length - 1);
  }

  const std::string& name() const { return name_; }
  std::string receive() {
    std::array<char, 4096> words{};
    const auto size = recv(socket_.fd(), words.data(), words.size(), 0);
    return {words.data(), static_cast<std::size_t>(size)};
  }
  bool has_nothing() {
    char word = 0;
    return recv(socket_.fd(), &word, 1, MSG_DONTWAIT) < 0;
  }

 private:
  net::FileDescriptor socket_{socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  std::string name_;
};

// Clears the variables after each test.
class NotifierTest : public testing::Test {
 protected:
  ~NotifierTest() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
  }
  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

  Supervisor supervisor;
};

TEST_F(NotifierTest, SendsTheMessagesOfSdNotify) {
  Notifier notifier(supervisor.name());
  notifier.ready("serving");
  EXPECT_EQ(supervisor.receive(), "READY=1\nSTATUS=serving");
  notifier.ping_watchdog();
  EXPECT_EQ(supervisor.receive(), "WATCHDOG=1");
  notifier.reloading();
  EXPECT_TRUE(supervisor.receive().starts_with("RELOADING=1\nMONOTONIC_USEC="));
  notifier.stopping();
  EXPECT_TRUE(supervisor.receive().starts_with("STOPPING=1\n"));
}

// The status may contain a file's name, and a line end would start another assignment.
TEST_F(NotifierTest, SendsAStatusAsOneLine) {
  Notifier notifier(supervisor.name());
  notifier.ready("a\nSTOPPING=1");
  EXPECT_EQ(supervisor.receive(), "READY=1\nSTATUS=a STOPPING=1");
}

TEST_F(NotifierTest, SendsNothingWithoutNotifySocket) {
  Notifier notifier = Notifier::from_environment();
  notifier.ready("serving");
  EXPECT_FALSE(notifier.watchdog_interval());
  EXPECT_TRUE(supervisor.has_nothing());
}

TEST_F(NotifierTest, ReadsTheWatchdogIntervalOfThisProcess) {
  set("NOTIFY_SOCKET", supervisor.name());
  set("WATCHDOG_USEC", "2000000");
  EXPECT_EQ(Notifier::from_environment().watchdog_interval(), std::chrono::seconds{2});
  set("WATCHDOG_PID", std::to_string(getpid()));
  EXPECT_EQ(Notifier::from_environment().watchdog_interval(), std::chrono::seconds{2});
  set("WATCHDOG_PID", std::to_string(getppid()));
  EXPECT_FALSE(Notifier::from_environment().watchdog_interval());
}

TEST_F(NotifierTest, IgnoresAnInvalidWatchdogInterval) {
  set("NOTIFY_SOCKET", supervisor.name());
  for (const char* nonsense : {"", "0", "-1", "soon", "10s", "99999999999999999999"}) {
    set("WATCHDOG_USEC", nonsense);
    EXPECT_FALSE(Notifier::from_environment().watchdog_interval()) << nonsense;
  }
}

}  // namespace
}  // namespace weir::server
