#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace weir::net {

// Who is at the other end.
struct Peer {
  std::string address;
  bool loopback = false;
};

// Who is told that there is something to say, though nothing has come in.
class Waker {
 public:
  virtual void wake() = 0;

 protected:
  ~Waker() = default;
};

// What one connection speaks: bytes in, bytes out. Used by one thread.
class Protocol {
 public:
  virtual ~Protocol() = default;

  // Whom to tell. Once, before anything else; the waker outlives it.
  virtual void use_waker(Waker& /*waker*/) {}

  // Whether it owes answers that it has to ask somebody else for. Nothing is read meanwhile; it is
  // shown its input again, of which there may be none, when it has told the waker.
  virtual bool waits() const { return false; }

  // Is shown all input that has not been used up. Uses up what it can, appends its answers to `out`
  // and returns how much it has used. It stops when `out` has kEnough bytes: it will be asked again
  // once those are sent, and whenever it has told the waker. There may be no input then. It also
  // stops in the middle of what costs more than kLongest, and goes on when others have had their
  // turn.
  virtual std::size_t on_input(std::string_view input, std::string& out) = 0;
  static constexpr std::size_t kEnough = 64 << 10;
  static constexpr std::chrono::milliseconds kLongest{1};

  // Whether some of what it has just written was an answer, and not only what its way of speaking
  // asks for: that is no reason to wait longer for a message.
  virtual bool has_answered() const { return true; }

  // Whether some of a message has been used up, and the rest is still to come.
  virtual bool in_message() const = 0;

  // Whether the connection ends when everything is sent.
  virtual bool ends() const = 0;

  // Asked several times a second while it waits for input: whether time has made it have something
  // to say. It is shown its input then.
  virtual bool look_around() { return false; }

  // Last words to somebody who did not finish a message in time.
  virtual void on_timeout(std::string& out) = 0;

  // The process is about to end: finish what is under way, then `ends`.
  virtual void on_shutdown() = 0;

  // The connection ends now, all answers are sent: what is still to be said, if anything.
  virtual void on_end(std::string& /*out*/) {}

  // Bytes that it holds beyond its own size: of messages that are not complete, of answers.
  virtual std::size_t memory() const { return 0; }

  // The connection is closed since all connections together hold too much memory: an answer that
  // says so, if one may come now.
  virtual void on_shed(std::string& /*out*/) {}
};

class Resident;
struct Ground;

// How a listener's connections behave.
struct Door {
  std::function<std::unique_ptr<Protocol>(const Peer&)> speak;
  // Instead of that: makes each loop's resident, on its thread, who takes care of them in its own
  // way. Of the rest here only `too_many` matters then.
  std::function<std::unique_ptr<Resident>(Ground&)> house{};
  std::string too_many;      // said to whom there is no room for
  std::size_t most_input;    // bytes a message may take
  int idle_seconds = 0;      // without a message; 0: any time
  int message_seconds = 30;  // for a whole message to arrive
  int stall_seconds = 30;    // for some of the answers to be taken
};

}  // namespace weir::net
