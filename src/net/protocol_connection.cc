#include "net/protocol_connection.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "base/out_of_memory.h"
#include "base/scratch_buffer.h"
#include "net/socket_calls.h"

namespace weir::net {

namespace {

constexpr int kDrainSeconds = 2;  // for the peer to close its side

// Calls of Protocol::on_input per turn. More than one, since complete messages are often followed
// by the beginning of the next one, to which there is no response yet.
constexpr int kMaxPassesPerTurn = 2;

bool would_block(ssize_t result) {
  return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

}  // namespace

ProtocolConnection::ProtocolConnection(FileDescriptor socket, const ListenerOptions& options,
                                       const Peer& peer, LoopState& loop)
    : socket_(std::move(socket)),
      options_(options),
      loop_(loop),
      protocol_(options.make_protocol(peer)),
      waiting_since_(loop.now_seconds),
      in_message_(protocol_->in_message()) {
  protocol_->use_waker(*this);
}

bool ProtocolConnection::open() {
  if (!loop_.poller.try_add(socket_.fd(), interest_, *this)) return false;
  count_memory();
  return true;
}

// Leaves the interest as it is in `waiting`: input rarely arrives during that, so the two calls of
// epoll_ctl are not worth it (see on_event_while_waiting).
void ProtocolConnection::set_state(ConnectionState state) {
  state_ = state;
  switch (state) {
    case ConnectionState::reading:
      return interest_ == Interest::read ? void() : set_interest(Interest::read_edge);
    case ConnectionState::writing:
      return set_interest(Interest::write);
    case ConnectionState::draining:
      return set_interest(Interest::read);
    case ConnectionState::queued:
      return set_interest(Interest::none);
    case ConnectionState::waiting:
    case ConnectionState::closed:
      return;
  }
}

void ProtocolConnection::set_interest(Interest interest) {
  if (interest == interest_) return;
  interest_ = interest;
  loop_.poller.change(socket_.fd(), interest_, *this);
}

void ProtocolConnection::guard(const auto& event) {
  if (!catch_bad_alloc(event)) on_out_of_memory();
}

void ProtocolConnection::on_out_of_memory() noexcept {
  loop_.memory.note_out_of_memory();
  close();
}

void ProtocolConnection::on_ready() {
  switch (state_) {
    case ConnectionState::reading:
      return read();
    case ConnectionState::waiting:
      return on_event_while_waiting();
    case ConnectionState::queued:
      return close();  // with Interest::none only EPOLLHUP and EPOLLERR are reported
    case ConnectionState::writing:
      return resume_sending();
    case ConnectionState::draining:
      return drain();
    case ConnectionState::closed:
      return;
  }
}

// ---- Input

char* ReadBatch::buffer() {
  if (count_ == kMaxEntries || input_.size() - used_ < kReadSize) serve();
  return input_.data() + used_;
}

void ReadBatch::add(ProtocolConnection& connection, std::size_t size) {
  BatchEntry& entry = entries_[count_++];
  entry.connection = &connection;
  entry.input = {input_.data() + used_, size};
  used_ += size;
}

void ReadBatch::serve() {
  const auto all = std::span(entries_).first(std::exchange(count_, 0));
  used_ = 0;
  for (BatchEntry& entry : all) entry.connection->process(entry);
  for (BatchEntry& entry : all) entry.connection->send_responses(entry);
  memory_.shed_largest();
}

void ReadBatch::shrink() {
  for (BatchEntry& entry : entries_) clear_scratch_buffer(entry.out);
}

void ProtocolConnection::read() {
  char* const buffer = loop_.batch.buffer();
  if (state_ != ConnectionState::reading) return;  // buffer() has shed it
  const std::size_t max_size =
      std::min(ReadBatch::kReadSize, options_.max_input - pending_input_.size());
  if (max_size == 0) return close();  // the message is longer than the limit
  const ssize_t count = receive(socket_.fd(), buffer, max_size);
  if (would_block(count)) return;
  if (count <= 0) return close();
  const auto size = static_cast<std::size_t>(count);
  // More may be readable, for which edge-triggered epoll reports no further event.
  if (size == max_size || loop_.poller.peer_hung_up()) set_interest(Interest::read);
  loop_.batch.add(*this, size);
}

// Leaves input in the socket while the protocol waits. An event in spite of Interest::none means
// that the connection is broken.
void ProtocolConnection::on_event_while_waiting() {
  if (interest_ == Interest::none) return close();
  set_interest(Interest::none);
}

void ProtocolConnection::wake() {
  if (woken_ || state_ == ConnectionState::closed) return;
  woken_ = true;
  loop_.woken.push_back(this);
}

// A connection that is writing calls the protocol when that is done.
void ProtocolConnection::resume() {
  woken_ = false;
  if (state_ == ConnectionState::waiting) set_state(ConnectionState::reading);
  if (state_ == ConnectionState::reading) guard([this] { serve(); });
}

// Does not change the interest yet: the connection may join the run queue again.
void ProtocolConnection::resume_queued() {
  state_ = ConnectionState::reading;
  guard([this] { serve(); });
}

// Calls the protocol without new input.
void ProtocolConnection::serve() {
  BatchEntry& entry = loop_.empty_entry;
  entry.input = {};
  do_process(entry);
  do_send_responses(entry);
}

void ProtocolConnection::process(BatchEntry& entry) {
  guard([&] { do_process(entry); });
}

void ProtocolConnection::send_responses(BatchEntry& entry) {
  if (state_ == ConnectionState::closed) return;  // process() ran out of memory
  guard([&] { do_send_responses(entry); });
}

void ProtocolConnection::do_process(BatchEntry& entry) {
  if (!pending_input_.empty()) entry.input = pending_input_.append(entry.input);
  entry.out.clear();
  entry.used = protocol_->on_input(entry.input, entry.out);
}

void ProtocolConnection::do_send_responses(BatchEntry& entry) {
  std::string& out = entry.out;
  bool responded = false;
  bool must_yield = false;
  std::size_t before = 0;
  for (int passes = 1;; ++passes) {
    const bool full = out.size() >= Protocol::kOutputHighWater;
    const bool some = !out.empty();
    responded |= some && protocol_->wrote_response();
    if (some && !send(out)) break;
    if (protocol_->ends()) end();
    const bool more = entry.used < entry.input.size() || full;
    if (state_ != ConnectionState::reading || !more || (!some && entry.used == before)) break;
    must_yield = passes == kMaxPassesPerTurn;
    if (must_yield) break;
    out.clear();
    before = entry.used;
    entry.used += protocol_->on_input(entry.input.substr(before), out);
  }
  clear_scratch_buffer(out, 2 * Protocol::kOutputHighWater);
  if (state_ == ConnectionState::closed || state_ == ConnectionState::draining) return;
  keep_unread(entry);
  count_memory();
  if (state_ != ConnectionState::reading) return;
  if (protocol_->waits()) return set_state(ConnectionState::waiting);
  must_yield ? enqueue(responded) : wait_for_input(responded);
}

void ProtocolConnection::count_memory() {
  loop_.memory.count(*this, pending_input_.capacity() + unsent_.capacity() + protocol_->memory());
}

// Reads nothing while it is in the run queue: there is input left to process.
void ProtocolConnection::enqueue(bool responded) {
  if (responded) waiting_since_ = loop_.now_seconds;
  set_state(ConnectionState::queued);
  loop_.run_queue.push_back(this);
}

void ProtocolConnection::keep_unread(const BatchEntry& entry) {
  if (pending_input_.empty()) {
    pending_input_.assign(entry.input.substr(entry.used));
  } else {
    pending_input_.erase(0, entry.used);
  }
  if (pending_input_.empty()) clear_scratch_buffer(pending_input_);
}

// The message timeout runs from the first byte of a message, however slowly the rest comes. After a
// response, the bytes that are left belong to a message that has just begun.
void ProtocolConnection::wait_for_input(bool responded) {
  const bool in_message = !pending_input_.empty() || protocol_->in_message();
  if (!in_message || !in_message_ || responded) waiting_since_ = loop_.now_seconds;
  in_message_ = in_message;
  set_state(ConnectionState::reading);
  if (shutting_down_) end_if_idle();
}

// ---- Output

// True if everything was sent. The rest is kept otherwise, and sent when the socket is writable.
bool ProtocolConnection::send(std::string_view output) {
  while (!output.empty()) {
    const ssize_t count = transmit(socket_.fd(), output.data(), output.size());
    if (would_block(count)) break;
    if (count < 0) {
      close();
      return false;
    }
    output.remove_prefix(static_cast<std::size_t>(count));
  }
  if (output.empty()) return true;
  unsent_.assign(output);
  waiting_since_ = loop_.now_seconds;
  set_state(ConnectionState::writing);
  return false;
}

void ProtocolConnection::resume_sending() {
  const std::string output = std::exchange(unsent_, {});
  if (!send(output)) return state_ == ConnectionState::closed ? void() : count_memory();
  if (protocol_->ends()) return end();
  waiting_since_ = loop_.now_seconds;
  set_state(ConnectionState::reading);
  serve();
}

// ---- Ending

// Lingering close: closing a socket with unread input sends a RST, on which the peer's system drops
// output that it has not delivered yet. So only the write side is shut down, and input is read and
// dropped until the peer closes or kDrainSeconds have passed.
void ProtocolConnection::end() {
  if (state_ == ConnectionState::draining || state_ == ConnectionState::closed) return;
  send_final_output();
  shutdown(socket_.fd(), SHUT_WR);  // fails if the peer is gone
  waiting_since_ = loop_.now_seconds;
  set_state(ConnectionState::draining);
  release_memory();
}

// A draining connection holds no buffers.
void ProtocolConnection::release_memory() {
  loop_.memory.forget(*this);
  std::string().swap(pending_input_);
  std::string().swap(unsent_);
  protocol_ = nullptr;
}

// Sends no message to a peer that does not take its output.
void ProtocolConnection::shed() noexcept {
  guard([this] {
    if (state_ == ConnectionState::queued) std::erase(loop_.run_queue, this);
    std::string output;
    if (state_ != ConnectionState::writing) protocol_->on_shed(output);
    output.empty() || !send(output) ? close() : end();
  });
}

// A few bytes, sent once: the result does not matter.
void ProtocolConnection::send_final_output() {
  std::string output;
  protocol_->on_close(output);
  if (!output.empty()) (void)!::send(socket_.fd(), output.data(), output.size(), MSG_NOSIGNAL);
}

void ProtocolConnection::drain() {
  const ssize_t count = recv(socket_.fd(), loop_.batch.buffer(), ReadBatch::kReadSize, 0);
  if (count <= 0 && !would_block(count)) close();
}

void ProtocolConnection::close() noexcept {
  if (state_ == ConnectionState::closed) return;
  loop_.memory.forget(*this);
  if (state_ == ConnectionState::queued) std::erase(loop_.run_queue, this);
  state_ = ConnectionState::closed;
  socket_.close();
  loop_.closed.push_back(this);
}

void ProtocolConnection::check_timeouts() {
  guard([this] { do_check_timeouts(); });
}

void ProtocolConnection::do_check_timeouts() {
  if (state_ == ConnectionState::reading && protocol_->on_tick()) serve();
  const int waited = loop_.now_seconds - waiting_since_;
  switch (state_) {
    case ConnectionState::writing:
      if (waited >= options_.stall_seconds) close();
      break;
    case ConnectionState::draining:
      if (waited >= kDrainSeconds) close();
      break;
    case ConnectionState::reading:
      if (in_message_ && waited >= options_.message_seconds) {
        std::string out;
        protocol_->on_timeout(out);
        out.empty() || !send(out) ? close() : end();
      } else if (!in_message_ && options_.idle_seconds > 0 && waited >= options_.idle_seconds) {
        send_final_output();
        close();
      }
      break;
    case ConnectionState::waiting:  // the operation that it waits for has a timeout of its own
    case ConnectionState::queued:
    case ConnectionState::closed:
      break;
  }
}

void ProtocolConnection::shut_down() {
  shutting_down_ = true;
  if (state_ == ConnectionState::draining || state_ == ConnectionState::closed) return;
  guard([this] {
    protocol_->on_shutdown();
    in_message_ = !pending_input_.empty() || protocol_->in_message();
    if (state_ == ConnectionState::reading) serve();
  });
}

// Ends unless a message has begun, or bytes that have arrived are unread.
void ProtocolConnection::end_if_idle() {
  int arrived = 0;
  if (!in_message_ && ioctl(socket_.fd(), FIONREAD, &arrived) == 0 && arrived == 0) end();
}

}  // namespace weir::net
