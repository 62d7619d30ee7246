#include "net/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cstring>

namespace weir::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// Room for a batch of small commands; most connections never need more.
constexpr std::size_t kSmallBuffer = 4 << 10;
constexpr int kDrainSeconds = 2;  // for a peer to notice that the connection has ended

}  // namespace

Connection::Connection(Socket socket, const Door& door, const Peer& peer, Connections& others)
    : socket_(std::move(socket)),
      door_(door),
      others_(others),
      place_(others.open.size()),
      protocol_(door.speak(peer)),
      buffer_(kSmallBuffer),
      since_(others.second) {
  others_.open.push_back(this);
}

Connection::~Connection() {
  others_.open[place_] = others_.open.back();
  others_.open[place_]->place_ = place_;
  others_.open.pop_back();
}

void Connection::start() { read(); }

// ---- Input

void Connection::use_up(std::size_t count) {
  first_ += count;
  if (first_ == last_) first_ = last_ = 0;
}

// Makes room for more input. False if a message is longer than any may be.
bool Connection::make_room() {
  if (last_ < buffer_.size()) return true;
  if (first_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + first_, last_ - first_);
    last_ -= first_;
    first_ = 0;
    return true;
  }
  if (buffer_.size() >= door_.most_input) return false;
  buffer_.resize(std::min(buffer_.size() * 4, door_.most_input));
  return true;
}

void Connection::read() {
  if (!make_room()) return close();
  state_ = State::reading;
  start_reading();
}

void Connection::start_reading() {
  read_under_way_ = true;
  socket_.async_read_some(asio::buffer(buffer_.data() + last_, buffer_.size() - last_),
                          [self = shared_from_this()](const error_code& error, std::size_t count) {
                            self->on_read(error, count);
                          });
}

void Connection::on_read(const error_code& error, std::size_t count) {
  read_under_way_ = false;
  if (error == asio::error::operation_aborted && state_ == State::reading) return read_on();
  if (error) return close();
  switch (state_) {
    case State::reading:
      last_ += count;
      return serve();
    case State::draining:
      return end();
    case State::writing:
    case State::closed:
      return;
  }
}

// ---- Answering

void Connection::serve() {
  bool answered = false;
  for (;;) {
    const std::size_t used = protocol_->on_input(input(), out_);
    use_up(used);
    const bool had_answers = !out_.empty();
    if (had_answers && !flush()) return;
    if (protocol_->ends()) return end();
    answered |= had_answers;
    if (input().empty() || (used == 0 && !had_answers)) break;
  }
  const bool in_message = !input().empty() || protocol_->in_message();
  give_back_memory();
  // A message has a time by which it must be complete, however slowly it comes. What is there of
  // one behind an answer has just begun.
  if (!in_message || !in_message_ || answered) since_ = others_.second;
  in_message_ = in_message;
  read_on();
}

// Who shuts down still answers what has arrived.
void Connection::read_on() {
  error_code error;
  const bool done = shutting_down_ && !in_message_ && socket_.available(error) == 0;
  done ? end() : read();
}

// Whether everything could be sent. If not, it will go on when the peer has taken some of it.
bool Connection::flush() {
  while (sent_ < out_.size()) {
    error_code error;
    sent_ += socket_.write_some(asio::buffer(out_.data() + sent_, out_.size() - sent_), error);
    if (error == asio::error::would_block) {
      wait_until_writable();
      return false;
    }
    if (error) {
      close();
      return false;
    }
  }
  out_.clear();
  sent_ = 0;
  return true;
}

void Connection::wait_until_writable() {
  state_ = State::writing;
  since_ = others_.second;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const error_code& error) {
    if (error || self->state_ == State::closed) return self->close();
    if (!self->flush()) return;
    if (self->protocol_->ends()) return self->end();
    self->since_ = self->others_.second;
    self->serve();
  });
}

// ---- Ending

// Closing while input is unread would make the peer's system throw our last answers away: the peer
// is told that there is nothing more to come, and listened to until it closes or time is up.
void Connection::end() {
  if (state_ == State::closed) return;
  if (state_ != State::draining) {
    error_code ignored;  // it may have gone already
    socket_.shutdown(Socket::shutdown_send, ignored);
    since_ = others_.second;
  }
  first_ = last_ = 0;
  state_ = State::draining;
  if (!read_under_way_) start_reading();
}

void Connection::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  error_code ignored;  // nothing can be done about it
  socket_.close(ignored);
}

// After a long message or answer, a connection is small again.
void Connection::give_back_memory() {
  if (input().empty() && buffer_.size() > kSmallBuffer) {
    buffer_ = std::vector<char>(kSmallBuffer);
  }
  if (out_.capacity() > Protocol::kEnough) std::string().swap(out_);
}

void Connection::check_patience() {
  const int waited = others_.second - since_;
  switch (state_) {
    case State::writing:
      if (waited >= door_.stall_seconds) close();
      break;
    case State::draining:
      if (waited >= kDrainSeconds) close();
      break;
    case State::reading:
      if (in_message_ && waited >= door_.message_seconds) {
        protocol_->on_timeout(out_);
        out_.empty() || !flush() ? close() : end();
      } else if (!in_message_ && door_.idle_seconds > 0 && waited >= door_.idle_seconds) {
        close();
      }
      break;
    case State::closed:
      break;
  }
}

void Connection::shut_down() {
  shutting_down_ = true;
  protocol_->on_shutdown();
  // What has begun may be finished. A read that is under way may have got something already, which
  // will be answered; if not, it is given up.
  error_code error;
  if (state_ == State::reading && !in_message_) socket_.cancel(error);
}

}  // namespace weir::net
