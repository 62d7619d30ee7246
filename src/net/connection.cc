#include "net/connection.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "base/out_of_memory.h"
#include "base/reuse.h"
#include "net/socket_calls.h"

namespace weir::net {

namespace {

constexpr int kDrainSeconds = 2;  // for a peer to notice that the connection has ended

// How often the protocol of one is asked before it is the others' turn. (Behind what it answers
// there often is the beginning of something, to which it says nothing.)
constexpr int kServingsInARow = 2;

bool would_block(ssize_t result) {
  return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

}  // namespace

Connection::Connection(Descriptor socket, const Door& door, const Peer& peer,
                       Neighbours& neighbours)
    : socket_(std::move(socket)),
      door_(door),
      neighbours_(neighbours),
      protocol_(door.speak(peer)),
      since_(neighbours.second),
      in_message_(protocol_->in_message()) {
  protocol_->use_waker(*this);
}

bool Connection::open() {
  if (!neighbours_.poller.try_add(socket_.fd(), interest_, *this)) return false;
  count_memory();
  return true;
}

// (Who waits is not worth a word to the system: it is seldom that something comes meanwhile.)
void Connection::turn_to(State state) {
  state_ = state;
  switch (state) {
    case State::reading:
      return interest_ == Interest::read ? void() : want(Interest::news);
    case State::writing:
      return want(Interest::write);
    case State::draining:
      return want(Interest::read);
    case State::queued:
      return want(Interest::none);
    case State::waiting:
    case State::closed:
      return;
  }
}

void Connection::want(Interest interest) {
  if (interest == interest_) return;
  interest_ = interest;
  neighbours_.poller.change(socket_.fd(), interest_, *this);
}

void Connection::guard(const auto& event) {
  if (!with_memory(event)) on_out_of_memory();
}

void Connection::on_out_of_memory() noexcept {
  neighbours_.memory.note_out_of_memory();
  close();
}

void Connection::on_ready() {
  switch (state_) {
    case State::reading:
      return read();
    case State::waiting:
      return look_while_waiting();
    case State::queued:
      return close();  // the peer has gone: nothing else was to be told
    case State::writing:
      return send_on();
    case State::draining:
      return drain();
    case State::closed:
      return;
  }
}

// ---- Input

char* Round::room() {
  if (count_ == kMost || input_.size() - used_ < kRoom) serve();
  return input_.data() + used_;
}

void Round::add(Connection& connection, std::size_t size) {
  Visit& visit = visits_[count_++];
  visit.connection = &connection;
  visit.input = {input_.data() + used_, size};
  used_ += size;
}

void Round::serve() {
  const auto all = std::span(visits_).first(std::exchange(count_, 0));
  used_ = 0;
  for (Visit& visit : all) visit.connection->answer(visit);
  for (Visit& visit : all) visit.connection->send_answers(visit);
  memory_.shed_largest();
}

void Round::shrink() {
  for (Visit& visit : visits_) clear_for_reuse(visit.out);
}

void Connection::read() {
  char* const room = neighbours_.round.room();
  if (state_ != State::reading) return;  // shed, to make room
  const std::size_t most = std::min(Round::kRoom, door_.most_input - kept_.size());
  if (most == 0) return close();  // a message longer than any may be
  const ssize_t count = receive(socket_.fd(), room, most);
  if (would_block(count)) return;
  if (count <= 0) return close();
  const auto size = static_cast<std::size_t>(count);
  // There may be more to read, of which there will be no news.
  if (size == most || neighbours_.poller.has_ended()) want(Interest::read);
  neighbours_.round.add(*this, size);
}

// What comes before its time is left where it is. If there still is news then, the peer has gone.
void Connection::look_while_waiting() {
  if (interest_ == Interest::none) return close();
  want(Interest::none);
}

void Connection::wake() {
  if (woken_ || state_ == State::closed) return;
  woken_ = true;
  neighbours_.woken.push_back(this);
}

// (Who is writing speaks when that is done.)
void Connection::resume() {
  woken_ = false;
  if (state_ == State::waiting) turn_to(State::reading);
  if (state_ == State::reading) guard([this] { serve(); });
}

// (The system is told only when it does read again: it may have to wait in line once more.)
void Connection::go_on() {
  state_ = State::reading;
  guard([this] { serve(); });
}

// Though nothing has come.
void Connection::serve() {
  Visit& visit = neighbours_.alone;
  visit.input = {};
  do_answer(visit);
  do_send_answers(visit);
}

void Connection::answer(Visit& visit) {
  guard([&] { do_answer(visit); });
}

void Connection::send_answers(Visit& visit) {
  if (state_ == State::closed) return;  // there was no memory for its answers
  guard([&] { do_send_answers(visit); });
}

void Connection::do_answer(Visit& visit) {
  if (!kept_.empty()) visit.input = kept_.append(visit.input);
  visit.out.clear();
  visit.used = protocol_->on_input(visit.input, visit.out);
}

void Connection::do_send_answers(Visit& visit) {
  std::string& out = visit.out;
  bool answered = false;
  bool unfinished = false;
  std::size_t before = 0;
  for (int servings = 1;; ++servings) {
    const bool full = out.size() >= Protocol::kEnough;
    const bool some = !out.empty();
    answered |= some && protocol_->has_answered();
    if (some && !send(out)) break;
    if (protocol_->ends()) end();
    const bool more = visit.used < visit.input.size() || full;
    if (state_ != State::reading || !more || (!some && visit.used == before)) break;
    unfinished = servings == kServingsInARow;
    if (unfinished) break;
    out.clear();
    before = visit.used;
    visit.used += protocol_->on_input(visit.input.substr(before), out);
  }
  clear_for_reuse(out, 2 * Protocol::kEnough);
  if (state_ == State::closed || state_ == State::draining) return;
  keep(visit);
  count_memory();
  if (state_ != State::reading) return;
  if (protocol_->waits()) return turn_to(State::waiting);
  unfinished ? line_up(answered) : wait_for_more(answered);
}

void Connection::count_memory() {
  neighbours_.memory.count(*this, kept_.capacity() + unsent_.capacity() + protocol_->memory());
}

// Nothing is read meanwhile: there is enough to do.
void Connection::line_up(bool answered) {
  if (answered) since_ = neighbours_.second;
  turn_to(State::queued);
  neighbours_.line.push_back(this);
}

void Connection::keep(const Visit& visit) {
  if (kept_.empty()) {
    kept_.assign(visit.input.substr(visit.used));
  } else {
    kept_.erase(0, visit.used);
  }
  if (kept_.empty()) clear_for_reuse(kept_);
}

// A message has a time by which it must be complete, however slowly it comes. What is there of one
// behind an answer has just begun.
void Connection::wait_for_more(bool answered) {
  const bool in_message = !kept_.empty() || protocol_->in_message();
  if (!in_message || !in_message_ || answered) since_ = neighbours_.second;
  in_message_ = in_message;
  turn_to(State::reading);
  if (shutting_down_) end_if_done();
}

// ---- Answers

// Whether everything could be sent. If not, it goes on when the peer has taken some of it.
bool Connection::send(std::string_view answers) {
  while (!answers.empty()) {
    const ssize_t count = transmit(socket_.fd(), answers.data(), answers.size());
    if (would_block(count)) break;
    if (count < 0) {
      close();
      return false;
    }
    answers.remove_prefix(static_cast<std::size_t>(count));
  }
  if (answers.empty()) return true;
  unsent_.assign(answers);
  since_ = neighbours_.second;
  turn_to(State::writing);
  return false;
}

void Connection::send_on() {
  const std::string answers = std::exchange(unsent_, {});
  if (!send(answers)) return state_ == State::closed ? void() : count_memory();
  if (protocol_->ends()) return end();
  since_ = neighbours_.second;
  turn_to(State::reading);
  serve();
}

// ---- Ending

// Closing while input is unread would make the peer's system throw our last answers away: the peer
// is told that there is nothing more to come, and listened to until it closes or time is up.
void Connection::end() {
  if (state_ == State::draining || state_ == State::closed) return;
  say_goodbye();
  shutdown(socket_.fd(), SHUT_WR);  // it may have gone already
  since_ = neighbours_.second;
  turn_to(State::draining);
  release();
}

// A connection that only waits for the peer to close it needs no memory.
void Connection::release() {
  neighbours_.memory.forget(*this);
  std::string().swap(kept_);
  std::string().swap(unsent_);
  protocol_ = nullptr;
}

// A peer that takes no answers cannot be told anything.
void Connection::shed() noexcept {
  guard([this] {
    if (state_ == State::queued) std::erase(neighbours_.line, this);
    std::string words;
    if (state_ != State::writing) protocol_->on_shed(words);
    words.empty() || !send(words) ? close() : end();
  });
}

// A few bytes, for those who have not gone or are stuck.
void Connection::say_goodbye() {
  std::string words;
  protocol_->on_end(words);
  if (!words.empty()) (void)!::send(socket_.fd(), words.data(), words.size(), MSG_NOSIGNAL);
}

void Connection::drain() {
  const ssize_t count = recv(socket_.fd(), neighbours_.round.room(), Round::kRoom, 0);
  if (count <= 0 && !would_block(count)) close();
}

void Connection::close() noexcept {
  if (state_ == State::closed) return;
  neighbours_.memory.forget(*this);
  if (state_ == State::queued) std::erase(neighbours_.line, this);
  state_ = State::closed;
  socket_.close();
  neighbours_.closed.push_back(this);
}

void Connection::check_patience() {
  guard([this] { look_at_time(); });
}

void Connection::look_at_time() {
  if (state_ == State::reading && protocol_->look_around()) serve();
  const int waited = neighbours_.second - since_;
  switch (state_) {
    case State::writing:
      if (waited >= door_.stall_seconds) close();
      break;
    case State::draining:
      if (waited >= kDrainSeconds) close();
      break;
    case State::reading:
      if (in_message_ && waited >= door_.message_seconds) {
        std::string out;
        protocol_->on_timeout(out);
        out.empty() || !send(out) ? close() : end();
      } else if (!in_message_ && door_.idle_seconds > 0 && waited >= door_.idle_seconds) {
        say_goodbye();
        close();
      }
      break;
    case State::waiting:  // whom it waits for has patience of its own
    case State::queued:
    case State::closed:
      break;
  }
}

void Connection::shut_down() {
  shutting_down_ = true;
  if (state_ == State::draining || state_ == State::closed) return;
  guard([this] {
    protocol_->on_shutdown();
    in_message_ = !kept_.empty() || protocol_->in_message();
    if (state_ == State::reading) serve();
  });
}

// What has begun may be finished, and what has arrived is answered.
void Connection::end_if_done() {
  int arrived = 0;
  if (!in_message_ && ioctl(socket_.fd(), FIONREAD, &arrived) == 0 && arrived == 0) end();
}

}  // namespace weir::net
