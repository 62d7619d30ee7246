#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/descriptor.h"
#include "net/poller.h"
#include "net/protocol.h"

namespace weir::net {

class Connection;

// What the connections of one loop share.
struct Neighbours {
  Poller poller;
  int second = 0;  // the loop's clock: whole seconds are exact enough for patience
  std::vector<Connection*> closed{};  // waiting to be destroyed
  std::vector<Connection*> woken{};   // with something to say

  // Memory for the one that is being served: those that wait need none.
  std::vector<char> input = std::vector<char>(64 << 10);
  std::string out{};
};

// A socket and what it speaks. Reads, lets the protocol answer, writes, and only then reads on: a
// peer that does not take its answers is not asked for more questions.
// Used by the thread of its loop only.
class Connection final : public Watcher, public Waker {
 public:
  // `socket` does not block.
  Connection(Descriptor socket, const Door& door, const Peer& peer, Neighbours& neighbours);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void on_ready() override;
  void wake() override;
  // It was woken: lets the protocol say what it has to say.
  void resume();
  // Called once a second: ends it if the peer has been too slow.
  void check_patience();
  // Answers what has arrived, then ends.
  void shut_down();

  // Its place in the loop's list.
  std::size_t place = 0;

 private:
  enum class State { reading, waiting, writing, draining, closed };

  void read();
  void drain();
  void serve(std::string_view fresh, bool in_any_case = false);
  bool answer(std::string_view input, std::size_t& used);
  void keep(std::string_view input, std::size_t used);
  void wait_for_more(bool answered);
  void look_while_waiting();
  bool send(std::string_view answers);
  void send_on();
  void end();
  void end_if_done();
  void say_goodbye();
  void close();
  void turn_to(State state);
  void want(Interest interest);

  Descriptor socket_;
  const Door& door_;
  Neighbours& neighbours_;
  std::unique_ptr<Protocol> protocol_;
  State state_ = State::reading;
  Interest interest_ = Interest::news;

  std::string kept_;    // has come, and is not used up
  std::string unsent_;  // answers that the peer has not taken

  int since_ = 0;  // the second in which it began to wait for what it waits for
  bool in_message_ = false;
  bool shutting_down_ = false;
  bool woken_ = false;
};

}  // namespace weir::net
