#include "gateway/session.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"
#include "base/reuse.h"
#include "gateway/h2_session.h"
#include "gateway/house.h"
#include "gateway/own_answer.h"
#include "wire/h2.h"
#include "wire/http1_response.h"

namespace weir::gateway {

namespace {

// For a client to notice that the connection has ended.
constexpr Nanos kLinger = std::chrono::seconds{2};

constexpr std::size_t kMuch = 64 << 10;  // unsent: nothing more is wanted

// The line with which HTTP/2 begins, and no request of HTTP/1 does.
constexpr std::string_view kFirstLine =
    wire::H2Machine::kPreface.substr(0, wire::H2Machine::kPreface.find('\n') + 1);

wire::HttpLimits limits_for(const ClientLimits& client) {
  return {.target = std::min<std::size_t>(client.max_header, 16 << 10),
          .header = client.max_header,
          .body = SIZE_MAX,
          .fields = client.max_header_count};
}

}  // namespace

Session::Session(House& house, net::Stream stream, const net::Peer& peer)
    : house_(house),
      name_(peer),
      peer_(parse_address(peer.address).value_or(Address{})),
      channel_(new net::Channel(house.ground(), std::move(stream), *this)),
      parser_(limits_for(house.common().client), wire::HttpParser::Bodies::left),
      timer_(house.ground().timers, [this] { on_time(); }),
      exchange_(house, *this) {
  // Who comes and says nothing is treated as one who says it slowly.
  wait_for(Wait::head);
}

// ---- In

void Session::on_input(std::string_view input) {
  switch (state_) {
    case State::head:
      kept_.append(input);
      if (fresh_ && may_be_http2()) {
        if (is_http2()) return hand_over();
        wait_for_head();
        break;
      }
      fresh_ = false;
      run();
      break;
    case State::exchange: {
      const std::size_t used = kept_.empty() ? exchange_.on_body(input) : 0;
      if (!channel_->is_open()) return;
      kept_.append(input.substr(used));
      feed();
      run();
      break;
    }
    case State::lingering:
      return;
  }
  arrange();
}

// Reads requests as long as there are any, each is answered at once, and the answers are taken.
void Session::run() {
  if (running_ || feeding_) return;
  running_ = true;
  while (channel_->is_open() && state_ == State::head && !kept_.empty() && has_room() &&
         read_head()) {
  }
  running_ = false;
}

void Session::wait_for_head() {
  if (!late_head_) wait_for(Wait::head);
  late_head_ = true;
}

bool Session::may_be_http2() const {
  const std::size_t size = std::min(kept_.size(), kFirstLine.size());
  return house_.common().http2 && kept_.starts_with(kFirstLine.substr(0, size));
}

bool Session::is_http2() const { return kept_.size() >= kFirstLine.size(); }

// The connection goes on as what it is.
void Session::hand_over() {
  timer_.cancel();
  auto session = std::make_unique<H2Session>(house_, channel_, name_);
  H2Session& its = *session;
  house_.replace(*this, std::move(session));
  its.begin(kept_);
}

// Whether there is a whole head, or something wrong with it.
bool Session::read_head() {
  using Status = wire::HttpParser::Status;
  const wire::HttpParser::Step step = parser_.parse(kept_);
  if (step.status == Status::error) {
    house_.common().counts.malformed.fetch_add(1, std::memory_order_relaxed);
    refuse(step.error_status, step.reason);
    return true;
  }
  kept_.erase(0, step.consumed);
  if (step.status == Status::need_more) {
    wait_for_head();
    return false;
  }
  late_head_ = false;
  wait_for(Wait::nothing);
  state_ = State::exchange;
  to_send_.clear();
  tunnel_ = false;
  keeps_ = true;
  exchange_.begin(parser_.request(), parser_.framing(), parser_.upgrade());
  feed();
  return true;
}

// (What is passed on is forgotten only behind it: nobody else may look at it meanwhile.)
void Session::feed() {
  if (feeding_) return;
  feeding_ = true;
  while (channel_->is_open() && state_ == State::exchange && !kept_.empty() &&
         exchange_.wants_body()) {
    const std::size_t used = exchange_.on_body(kept_);
    if (used == 0) break;
    kept_.erase(0, used);
  }
  feeding_ = false;
  if (ended_ && kept_.empty() && state_ == State::exchange && channel_->is_open()) {
    ended_ = false;
    exchange_.on_client_end();
  }
}

void Session::go_on() {
  if (!channel_->is_open()) return;
  feed();
  run();
  arrange();
}

// Reads what is wanted, and is as patient as it should be with what is waited for.
void Session::arrange() {
  if (!channel_->is_open()) return;
  if (kept_.empty()) clear_for_reuse(kept_, 16 << 10);
  if (to_send_.empty() && state_ != State::exchange) clear_for_reuse(to_send_, 16 << 10);
  channel_->count_owner_memory(memory());
  switch (state_) {
    case State::head:
      channel_->want_input(has_room());
      if (channel_->unsent() > 0) wait_for(Wait::sending);
      break;
    case State::exchange: {
      const bool wants = exchange_.wants_body();
      channel_->want_input(wants);
      // (How long a tunnel may be silent is for the exchange to say: both sides count.)
      wait_for(wants && !tunnel_ ? Wait::body : Wait::nothing);
      break;
    }
    case State::lingering:
      break;
  }
}

std::size_t Session::memory() const {
  return kept_.capacity() + to_send_.capacity() + parser_.memory();
}

// Who has not taken what was said is waited for because of that, and has no more time for it by
// saying something itself.
void Session::wait_for(Wait what) {
  if (channel_->unsent() > 0) what = Wait::sending;
  if (what == Wait::sending && wait_ == what) return;
  wait_ = what;
  taken_then_ = taken();
  what == Wait::nothing ? timer_.cancel() : timer_.set_in(patience(what));
}

Nanos Session::patience(Wait what) const {
  const ClientLimits& client = house_.common().client;
  switch (what) {
    case Wait::head:
      return client.header;
    case Wait::idle:
      return client.idle;
    case Wait::body:
      return client.body;
    case Wait::sending:
      return client.send;
    case Wait::lingering:
      return kLinger;
    case Wait::nothing:
      break;
  }
  return kForever;
}

// ---- Events of the connection

void Session::on_sent() {
  wait_ = Wait::nothing;
  if (state_ == State::lingering) return wait_for(Wait::lingering);
  if (state_ == State::exchange) exchange_.on_client_sent();
  if (state_ == State::head) {
    wait_for(late_head_ ? Wait::head : Wait::idle);
    run();
  }
  arrange();
}

void Session::on_end() {
  if (state_ == State::exchange) {
    // (What came before it is passed on before it.)
    ended_ = tunnel_ && !kept_.empty();
    if (!ended_) exchange_.on_client_end();
    return arrange();
  }
  leave();
}

void Session::on_broken(std::string_view why) {
  const net::Stream& stream = channel_->stream();
  if (stream.has_tls() && state_ == State::head && house_.common().no_tls) {
    house_.common().no_tls(name_, why);
  }
  if (stream.spoke_plainly()) {
    std::string words;
    append_last_answer(words, problem(400, "this listener requires TLS: use https://"));
    (void)!::send(stream.fd(), words.data(), words.size(), MSG_NOSIGNAL);
  }
  if (state_ == State::exchange) exchange_.on_client_gone();
  leave();
}

void Session::on_time() {
  const Wait what = std::exchange(wait_, Wait::nothing);
  // As long as some of what is sent is taken, it is worth waiting.
  if (what == Wait::sending && taken() > taken_then_) return wait_for(what);
  switch (state_) {
    case State::head:
      if (what == Wait::head && late_head_) return refuse(408, "the request did not come in time");
      return leave();
    case State::exchange:
      exchange_.on_client_late();
      return arrange();
    case State::lingering:
      return leave();
  }
}

// ---- What the exchange says

void Session::welcome() { say(wire::kContinue); }

// (HTTP/1.0 knows nothing of them.)
void Session::hint(const AnswerHead& head) {
  if (parser_.request().version == 11) append_http1_head(to_send_, head, 11, false);
}

void Session::start(const AnswerHead& head) {
  const int version = parser_.request().version;
  const bool endless = head.has_body && head.length.empty();
  chunked_ = endless && version == 11;
  // HTTP/1.0 has no other way to tell where it ends.
  keeps_ = head.keeps && (!endless || chunked_);
  tunnel_ = head.status == 101;
  // In a tunnel nobody waits for answers: who has said everything may go.
  if (tunnel_) channel_->hear_out();
  AnswerHead own = head;
  own.keeps = keeps_;
  append_http1_head(to_send_, own, version, chunked_);
}

void Session::send(std::string_view body) {
  if (chunked_) {
    wire::append_chunk(to_send_, body);
  } else {
    to_send_.append(body);
  }
}

void Session::finish(std::string_view trailers) {
  if (chunked_) wire::append_last_chunk(to_send_, trailers);
  if (!tunnel_) return;
  flush();
  channel_->finish();
}

void Session::flush() {
  if (to_send_.empty()) return;
  say(to_send_);
  clear_for_reuse(to_send_, 4 * kMuch);
}

void Session::say(std::string_view words) {
  said_ += words.size();
  channel_->send(words);
}

bool Session::has_room() { return channel_->unsent() < kMuch; }

// ---- Endings

void Session::over(bool keeps) {
  parser_.next();
  if (!keeps || !keeps_ || house_.is_draining()) return linger();
  state_ = State::head;
  late_head_ = false;
  wait_for(Wait::idle);
  run();
  arrange();
}

void Session::refuse(int status, std::string_view reason) {
  std::string out;
  append_last_answer(out, problem(status, reason));
  say(out);
  linger();
}

// Closing while input is unread would make the client's system throw our last answer away: it is
// told that there is nothing more to come, and listened to for a while.
void Session::linger() {
  state_ = State::lingering;
  std::string().swap(kept_);
  std::string().swap(to_send_);
  channel_->count_owner_memory(memory());
  channel_->finish();
  channel_->want_input(true);
  wait_for(Wait::lingering);
}

void Session::abort() {
  channel_->abort();
  leave();
}

void Session::on_shed() noexcept {
  const bool can_be_told = state_ == State::head && channel_->unsent() == 0;
  const bool ended = with_memory([&] {
    if (state_ == State::exchange) return exchange_.shed();
    can_be_told ? refuse(503, kTooMuchHeld) : leave();
  });
  if (!ended) leave();
}

void Session::leave() noexcept {
  state_ = State::lingering;
  timer_.cancel();
  channel_->close();
  house_.leave(*this);
}

void Session::shut_down() {
  if (state_ != State::head || !kept_.empty() || parser_.in_message()) return;
  channel_->unsent() > 0 ? linger() : leave();
}

}  // namespace weir::gateway
