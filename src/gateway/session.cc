#include "gateway/session.h"

#include <sys/socket.h>

#include <algorithm>

#include "gateway/house.h"
#include "gateway/own_answer.h"

namespace weir::gateway {

namespace {

// For a client to notice that the connection has ended.
constexpr Nanos kLinger = std::chrono::seconds{2};

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
      channel_(house.ground(), std::move(stream), *this),
      parser_(limits_for(house.common().client), wire::HttpParser::Bodies::left),
      timer_(house.ground().timers, [this] { on_time(); }),
      exchange_(house, *this) {
  // Who comes and says nothing is treated as one who says it slowly.
  timer_.set_in(house.common().client.header);
}

// ---- In

void Session::on_input(std::string_view input) {
  switch (state_) {
    case State::head:
      kept_.append(input);
      run();
      break;
    case State::exchange: {
      const std::size_t used = kept_.empty() ? exchange_.on_body(input) : 0;
      if (!channel_.is_open()) return;
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

// Reads requests as long as there are any, and each is answered at once.
void Session::run() {
  if (running_) return;
  running_ = true;
  while (channel_.is_open() && state_ == State::head && !kept_.empty() && read_head()) {
  }
  running_ = false;
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
    if (!late_head_) timer_.set_in(house_.common().client.header);
    late_head_ = true;
    return false;
  }
  late_head_ = false;
  timer_.cancel();
  state_ = State::exchange;
  exchange_.begin(parser_.request(), parser_.framing(), parser_.upgrade());
  feed();
  return true;
}

void Session::feed() {
  while (channel_.is_open() && state_ == State::exchange && !kept_.empty() &&
         exchange_.wants_body()) {
    const std::size_t used = exchange_.on_body(kept_);
    if (used == 0) break;
    kept_.erase(0, used);
  }
}

void Session::go_on() {
  if (!channel_.is_open()) return;
  feed();
  run();
  arrange();
}

// Reads what is wanted, and is as patient as it should be with what is waited for.
void Session::arrange() {
  if (!channel_.is_open()) return;
  if (kept_.empty() && kept_.capacity() > (16 << 10)) std::string().swap(kept_);
  switch (state_) {
    case State::head:
      channel_.want_input(true);
      if (channel_.unsent() > 0) arm(house_.common().client.send);
      break;
    case State::exchange: {
      const bool wants = exchange_.wants_body();
      channel_.want_input(wants);
      if (channel_.unsent() > 0) {
        arm(house_.common().client.send);
      } else if (wants) {
        arm(house_.common().client.body);
      } else {
        timer_.cancel();
      }
      break;
    }
    case State::lingering:
      break;
  }
}

void Session::arm(Nanos patience) {
  unsent_then_ = channel_.unsent();
  timer_.set_in(patience);
}

// ---- Events of the connection

void Session::on_sent() {
  if (state_ == State::lingering) return timer_.set_in(kLinger);
  if (state_ == State::exchange) exchange_.on_client_sent();
  if (state_ == State::head) timer_.set_in(house_.common().client.idle);
  arrange();
}

void Session::on_end() {
  if (state_ == State::exchange) {
    exchange_.on_client_end();
    return arrange();
  }
  leave();
}

void Session::on_broken(std::string_view why) {
  const net::Stream& stream = channel_.stream();
  if (stream.has_tls() && state_ == State::head && house_.common().no_tls) {
    house_.common().no_tls(name_, why);
  }
  if (stream.spoke_plainly()) {
    std::string words;
    append_own_answer(words, problem(400, "this door speaks TLS only: write https://"),
                      {.keeps = false});
    (void)!::send(stream.fd(), words.data(), words.size(), MSG_NOSIGNAL);
  }
  if (state_ == State::exchange) exchange_.on_client_gone();
  leave();
}

void Session::on_time() {
  // As long as some of what is sent is taken, it is worth waiting.
  if (channel_.unsent() > 0 && channel_.unsent() < unsent_then_) {
    return arm(house_.common().client.send);
  }
  switch (state_) {
    case State::head:
      if (late_head_) return refuse(408, "the request did not come in time");
      return leave();
    case State::exchange:
      exchange_.on_client_late();
      return arrange();
    case State::lingering:
      return leave();
  }
}

// ---- Endings

void Session::on_exchange_over(bool keeps) {
  parser_.next();
  if (!keeps || house_.is_draining()) return linger();
  state_ = State::head;
  late_head_ = false;
  timer_.set_in(house_.common().client.idle);
  run();
  arrange();
}

void Session::refuse(int status, std::string_view reason) {
  std::string out;
  append_own_answer(out, problem(status, reason), {.keeps = false});
  channel_.send(out);
  linger();
}

// Closing while input is unread would make the client's system throw our last answer away: it is
// told that there is nothing more to come, and listened to for a while.
void Session::linger() {
  state_ = State::lingering;
  kept_.clear();
  channel_.finish();
  channel_.want_input(true);
  if (channel_.unsent() > 0) {
    arm(house_.common().client.send);
  } else {
    timer_.set_in(kLinger);
  }
}

void Session::abort() {
  channel_.abort();
  leave();
}

void Session::leave() {
  state_ = State::lingering;
  timer_.cancel();
  channel_.close();
  house_.leave(*this);
}

void Session::shut_down() {
  if (state_ == State::head && kept_.empty() && !parser_.in_message()) leave();
}

}  // namespace weir::gateway
