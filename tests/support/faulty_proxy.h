#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "net/descriptor.h"
#include "support/folder.h"
#include "support/redis_connection.h"

namespace weir::test_support {

// What happens to a command that runs a script, on its way to the server and back.
enum class Fault {
  none,
  late_reply,       // the command runs; its reply is held
  late_command,     // the command is held, and runs and is answered when it is released
  cut_before,       // the connection is closed, the command does not run
  cut_after,        // the command runs, the connection is closed without a reply
  cut_and_late,     // the connection is closed; the command runs when it is released
  twice,            // the command runs twice, the second reply is the answer
  silence,          // the command does not run; this connection gets no reply any more
  silence_running,  // the same, but the command runs
};

// A proxy between a client and a redis-server, both on unix sockets. It serves one connection at a
// time, on a thread of its own. Commands other than EVAL and EVALSHA are passed on as they are.
class FaultyProxy {
 public:
  explicit FaultyProxy(const std::string& server);
  ~FaultyProxy();
  FaultyProxy(const FaultyProxy&) = delete;
  FaultyProxy& operator=(const FaultyProxy&) = delete;

  const std::string& socket() const { return socket_; }

  // For the next commands, in this order, instead of what was planned before.
  void plan(const std::vector<Fault>& faults);
  // Changes commands that were held, just before they run: tests tell Redis the time in them.
  using Rewrite = std::function<std::string(const std::string& command)>;
  void rewrite_held(Rewrite rewrite);
  // Lets go of what is held. Returns when all of it has run.
  void release();

 private:
  void run();
  void accept_client();
  void drop_client();
  void read_client();
  void on_command(const std::string& command);
  Fault next_fault(std::string_view command);
  std::string reply_to(const std::string& command);
  void answer(std::string_view reply);
  std::string reply_to_held(const std::string& command);
  void let_go();
  void finish_release();

  const support::Folder folder_;
  const std::string socket_;
  RedisConnection server_;

  // Of the thread.
  net::Descriptor listener_;
  net::Descriptor wake_;
  net::Descriptor client_;
  std::string input_;
  std::string held_reply_;
  std::string held_command_;
  std::vector<std::string> strays_;  // of connections that are closed
  bool is_silent_ = false;

  std::mutex mutex_;
  std::condition_variable released_;
  std::deque<Fault> planned_;
  Rewrite rewrite_;
  bool wants_release_ = false;
  bool ends_ = false;

  std::thread thread_;
};

}  // namespace weir::test_support
