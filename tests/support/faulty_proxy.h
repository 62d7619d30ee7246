#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "net/file_descriptor.h"
#include "support/folder.h"
#include "support/redis_connection.h"

namespace weir::test_support {

// The fault of a command that runs a script, on its way to the server or back.
enum class Fault {
  none,
  late_reply,       // the command runs; its reply is held
  late_command,     // the command is held; it runs and is answered on release
  cut_before,       // the connection is closed; the command does not run
  cut_after,        // the command runs; the connection is closed without a reply
  cut_and_late,     // the connection is closed; the command runs on release
  twice,            // the command runs twice; the second reply is returned
  silence,          // the command does not run; this connection gets no more replies
  silence_running,  // the same, but the command runs
};

// A proxy between a client and a redis-server, both on unix sockets. It serves one connection at a
// time, on its own thread. Commands other than EVAL and EVALSHA are forwarded unchanged.
class FaultyProxy {
 public:
  explicit FaultyProxy(const std::string& server);
  ~FaultyProxy();
  FaultyProxy(const FaultyProxy&) = delete;
  FaultyProxy& operator=(const FaultyProxy&) = delete;

  const std::string& socket() const { return socket_; }

  // Sets the faults of the next commands, in this order, and replaces earlier ones.
  void plan(const std::vector<Fault>& faults);
  // Edits held commands just before they run: tests put the time into them.
  using Rewrite = std::function<std::string(const std::string& command)>;
  void rewrite_held(Rewrite rewrite);
  // Releases everything held. Returns when all of it has run.
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

  // Used by the thread only.
  net::FileDescriptor listener_;
  net::FileDescriptor wake_;
  net::FileDescriptor client_;
  std::string input_;
  std::string held_reply_;
  std::string held_command_;
  std::vector<std::string> orphaned_commands_;  // from closed connections
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
