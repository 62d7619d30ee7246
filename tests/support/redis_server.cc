#include "support/redis_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "support/redis_connection.h"

namespace weir::test_support {

namespace {

[[noreturn]] void become_server(const std::string& folder, const std::string& socket) {
  const int log = open((folder + "/log").c_str(), O_WRONLY | O_CREAT, 0600);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket.c_str(), "--dir",
         folder.c_str(), "--save", "", "--appendonly", "no", nullptr);
  _exit(127);
}

bool answers(const std::string& socket) {
  try {
    RedisConnection connection(socket);
    return connection.ask("*1\r\n$4\r\nPING\r\n")[0].text == "PONG";
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

RedisServer::RedisServer() {
  std::string pattern = std::filesystem::temp_directory_path() / "weir-redis-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for redis-server");
  folder_ = pattern;
  socket_ = folder_ + "/socket";
  pid_ = fork();
  if (pid_ == 0) become_server(folder_, socket_);
  while (!answers(socket_)) {
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      throw std::runtime_error(
          "redis-server does not start: install Debian's redis-server, or "
          "see what it says in " +
          folder_ + "/log");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

RedisServer::~RedisServer() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

RedisServer& RedisServer::shared() {
  static RedisServer server;
  return server;
}

}  // namespace weir::test_support
