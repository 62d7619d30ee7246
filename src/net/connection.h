#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/descriptor.h"
#include "net/memory.h"
#include "net/poller.h"
#include "net/protocol.h"

namespace weir::net {

class Connection;

// What has come for a connection, and what it makes of that.
struct Visit {
  Connection* connection = nullptr;
  std::string_view input{};
  std::size_t used = 0;  // of the input
  std::string out{};     // answers
};

// A few connections that are served together: all are read, then all answer, then all answers are
// sent. The system's code for reading, that for sending and ours are each too large to stay in the
// processor's nearest memory beside the others: so each is fetched once for all, not for each.
class Round {
 public:
  explicit Round(LoopMemory& memory) : memory_(memory) {}

  // The room for what comes next, of as many bytes as are read at once. Whoever is there is served
  // before if there is none.
  char* room();
  // So much has come there.
  void add(Connection& connection, std::size_t size);
  // Serves all who are there. What they hold then is counted, and the largest are shed if all
  // hold too much.
  void serve();
  // Frees memory that is kept for long answers.
  void shrink();

  static constexpr std::size_t kRoom = 64 << 10;

 private:
  static constexpr std::size_t kMost = 16;

  LoopMemory& memory_;
  std::array<Visit, kMost> visits_{};
  std::size_t count_ = 0;
  std::vector<char> input_ = std::vector<char>(4 * kRoom);
  std::size_t used_ = 0;  // of it
};

// What the connections of one loop share.
struct Neighbours {
  LoopMemory memory;
  Poller poller{};
  int second = 0;  // the loop's clock: whole seconds are exact enough for patience
  std::vector<Connection*> closed{};  // waiting to be destroyed
  std::vector<Connection*> woken{};   // with something to say
  std::deque<Connection*> line{};     // to be served again when others have been

  // Memory for those that are being served: those that wait need none.
  Round round{memory};
  Visit alone{};  // of one that nothing has come for
};

// A socket and what it speaks. Reads, lets the protocol answer, writes, and only then reads on: a
// peer that does not take its answers is not asked for more questions. What it reads waits in the
// neighbours' round until that is served.
// If an allocation fails while an event is served, the connection is closed, and the others go on.
// Used by the thread of its loop only.
class Connection final : public Watcher, public Waker, public MemoryHolder {
 public:
  // `socket` does not block.
  Connection(Descriptor socket, const Door& door, const Peer& peer, Neighbours& neighbours);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // From now on it is served; false if it cannot be. To be called once, before anything else.
  bool open();

  void on_ready() override;
  void on_out_of_memory() noexcept override;
  void shed() noexcept override;
  // Shows the protocol what has come, then sends its answers. If that leaves something to answer,
  // it is in the line.
  void answer(Visit& visit);
  void send_answers(Visit& visit);
  void wake() override;
  // It was woken: lets the protocol say what it has to say.
  void resume();
  // It was taken from the line: goes on with what it has kept.
  void go_on();
  // Called several times a second: ends it if the peer has been too slow.
  void check_patience();
  // Answers what has arrived, then ends.
  void shut_down();

  // Its place in the loop's list.
  std::size_t place = 0;

 private:
  enum class State { reading, waiting, queued, writing, draining, closed };

  // Runs one event.
  void guard(const auto& event);
  void read();
  void drain();
  void serve();
  void do_answer(Visit& visit);
  void do_send_answers(Visit& visit);
  void look_at_time();
  void count_memory();
  void keep(const Visit& visit);
  void line_up(bool answered);
  void wait_for_more(bool answered);
  void look_while_waiting();
  bool send(std::string_view answers);
  void send_on();
  void end();
  void end_if_done();
  void say_goodbye();
  void release();
  void close() noexcept;
  void turn_to(State state);
  void want(Interest interest);

  Descriptor socket_;
  const Door& door_;
  Neighbours& neighbours_;
  std::unique_ptr<Protocol> protocol_;  // none once the connection is draining
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
