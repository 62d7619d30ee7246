#include "store/redis/connection_fsm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "store/redis/errors.h"

namespace weir::store::redis {

namespace {

constexpr std::string_view kNoAnswer = "no answer in time";
constexpr std::string_view kTooManyCalls = "too many calls wait for a reply";
constexpr std::string_view kTooManyBytes = "too many bytes wait to be sent";
constexpr std::string_view kBreakerOpen =
    "it did not answer several calls in time: no call is sent until it answers a PING";

}  // namespace

ConnectionFsm::ConnectionFsm(const ConnectionOptions& options, LinkCounts& counts, LogCallback log,
                             Nanos now, RedirectHandler* handler)
    : options_(options),
      counts_(counts),
      log_(std::move(log)),
      handler_(handler),
      server_(options.server),
      handshake_(options_.login),
      parser_(options.reply_room),
      random_(options.seed) {
  connect(now);
}

// ---- Calls

void ConnectionFsm::call(RedisCall& call, Nanos now, Nanos within) {
  counts_.calls.add();
  call.route.began = now;
  call.route.deadline = now + within;
  pass_on(call, false, now);
}

void ConnectionFsm::pass_on(RedisCall& call, bool asking, Nanos now) {
  if (ended_) return fail(call, CallFailure::unavailable, "this link is being closed");
  if (down_) return fail_unsent(call, now);
  if (breaker_open_) return fail(call, CallFailure::unavailable, kBreakerOpen);
  if (in_flight_.size() + waiting_.size() >= options_.max_pending_calls) {
    return fail(call, CallFailure::unavailable, kTooManyCalls);
  }
  if (unsent().size() >= options_.max_unsent_bytes) {
    return fail(call, CallFailure::unavailable, kTooManyBytes);
  }
  const std::uint32_t index = new_pending();
  link_pending(index, call);
  pending_[index].asking = asking;
  if (phase_ == ConnectionPhase::ready) {
    send(index, now);
  } else {
    waiting_.push_back(index);
  }
}

std::uint32_t ConnectionFsm::new_pending() {
  if (free_.empty()) {
    pending_.emplace_back();
    return static_cast<std::uint32_t>(pending_.size() - 1);
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  pending_[index] = {};
  return index;
}

void ConnectionFsm::link_pending(std::uint32_t index, RedisCall& call) {
  PendingCall& pending = pending_[index];
  pending.call = &call;
  pending.began = call.route.began;
  pending.deadline = call.route.deadline;
  pending.previous = youngest_;
  // Insert by deadline: a call from another server may have less time than earlier ones.
  while (pending.previous != kNone && pending_[pending.previous].deadline > pending.deadline) {
    pending.next = pending.previous;
    pending.previous = pending_[pending.previous].previous;
  }
  (pending.previous == kNone ? oldest_ : pending_[pending.previous].next) = index;
  (pending.next == kNone ? youngest_ : pending_[pending.next].previous) = index;
}

// Detaches the call from its place in the pipeline, and returns it.
RedisCall& ConnectionFsm::unlink_pending(std::uint32_t index) {
  PendingCall& pending = pending_[index];
  (pending.previous == kNone ? oldest_ : pending_[pending.previous].next) = pending.next;
  (pending.next == kNone ? youngest_ : pending_[pending.next].previous) = pending.previous;
  pending.previous = pending.next = kNone;
  return *std::exchange(pending.call, nullptr);
}

void ConnectionFsm::send(std::uint32_t index, Nanos now) {
  if (in_flight_.empty()) last_received_ = now;
  if (pending_[index].asking) {
    constexpr std::array<std::string_view, 1> asking{"ASKING"};
    append_resp(out_, asking);
    in_flight_.push_back(new_pending());
  }
  const PendingCall& pending = pending_[index];
  pending.call->append_command(out_, pending.with_source);
  counts_.flushed_calls.add();
  in_flight_.push_back(index);
}

void ConnectionFsm::send_waiting(Nanos now) {
  while (!waiting_.empty()) {
    const std::uint32_t index = waiting_.pop_front();
    if (pending_[index].call != nullptr) {
      send(index, now);
    } else {
      free_pending(index);
    }
  }
}

void ConnectionFsm::fail(RedisCall& call, CallFailure failure, std::string_view why) {
  failures_of(counts_, failure).add();
  call.route.failed_at = &server_;
  call.on_failure(failure, why);
}

void ConnectionFsm::fail_unsent(RedisCall& call, Nanos now) {
  if (handler_ != nullptr && !ended_ && handler_->on_unsent(call, now)) return;
  fail(call, down_failure_, down_why_);
}

void ConnectionFsm::on_sent(std::size_t bytes) {
  sent_ += bytes;
  if (sent_ < out_.size()) return;
  out_.clear();
  sent_ = 0;
}

// ---- Replies

void ConnectionFsm::on_bytes(std::string_view bytes, Nanos now) {
  using Status = wire::RespReplyParser::Status;
  if (phase_ != ConnectionPhase::handshake && phase_ != ConnectionPhase::ready) return;
  // Parse in place, unless an incomplete reply came before.
  const bool had_partial = !partial_.empty();
  if (had_partial) partial_.append(bytes);
  std::string_view rest = had_partial ? std::string_view(partial_) : bytes;
  while (!rest.empty() &&
         (phase_ == ConnectionPhase::handshake || phase_ == ConnectionPhase::ready)) {
    const Status status = parser_.parse(rest);
    if (status == Status::need_more) break;
    if (status == Status::error) return on_protocol_error(parser_.error(), now);
    on_reply(now);
    rest.remove_prefix(parser_.consumed());
  }
  if (phase_ == ConnectionPhase::backing_off) return;
  if (had_partial) {
    partial_.erase(0, partial_.size() - rest.size());
  } else {
    partial_.assign(rest);
  }
  if (!reconnect_why_.empty()) lose_connection(std::exchange(reconnect_why_, {}), now);
}

void ConnectionFsm::on_protocol_error(std::string_view why, Nanos now) {
  std::string text = "it does not speak the Redis protocol: ";
  text.append(why);
  if (phase_ == ConnectionPhase::handshake) {
    return fail_attempt(CallFailure::misconfigured,
                        text + ": is there another service at this address?", now);
  }
  lose_connection(text, now);
}

void ConnectionFsm::on_reply(Nanos now) {
  if (!is_reply()) {
    if (handler_ != nullptr) handler_->on_push(parser_.values());
    return;
  }
  last_received_ = now;
  if (phase_ == ConnectionPhase::handshake) return on_handshake_reply(now);
  if (in_flight_.empty()) return on_protocol_error("a reply without a request", now);
  const std::uint32_t index = in_flight_.pop_front();
  const PendingCall& pending = pending_[index];
  if (pending.probe) on_probe_reply(now);
  if (pending.call == nullptr) return free_pending(index);
  timed_out_in_a_row_ = 0;
  on_call_reply(index, now);
}

// Push messages, such as invalidations, are not replies; except that SUBSCRIBE is answered by one.
bool ConnectionFsm::is_reply() const {
  const auto values = parser_.values();
  if (values.front().kind != wire::RespValue::Kind::push) return true;
  return values.size() > 1 && values[1].text == "subscribe" && !in_flight_.empty();
}

void ConnectionFsm::on_handshake_reply(Nanos now) {
  switch (handshake_.on_reply(parser_.values(), out_)) {
    case Handshake::HandshakeProgress::more:
      return;
    case Handshake::HandshakeProgress::done:
      return become_ready(now);
    case Handshake::HandshakeProgress::failed:
      return fail_attempt(handshake_.failure(), with_advice(handshake_.server_error()), now);
  }
}

void ConnectionFsm::on_call_reply(std::uint32_t index, Nanos now) {
  const wire::RespValue& head = parser_.values().front();
  if (head.kind == wire::RespValue::Kind::error) return on_error_reply(index, head.text, now);
  if (pending_[index].call->on_reply(parser_.values()) == RedisCall::ReplyResult::again) {
    pending_[index].with_source = false;
    return send(index, now);
  }
  attempts_ = 0;
  note_latency(pending_[index], now);
  RedisCall& call = unlink_pending(index);
  free_pending(index);
  call.on_answered();
}

void ConnectionFsm::on_error_reply(std::uint32_t index, std::string_view error, Nanos now) {
  const ErrorMeaning meaning = meaning_of(error);
  if (meaning.what == ErrorClass::send_source && !pending_[index].with_source) {
    pending_[index].with_source = true;
    return send(index, now);
  }
  std::string text = with_advice(error);
  if (meaning.reconnect) reconnect_why_ = text;
  RedisCall& call = unlink_pending(index);
  free_pending(index);
  if (handler_ != nullptr && handler_->on_error(call, error, now)) return;
  if (meaning.what == ErrorClass::unavailable) return fail(call, CallFailure::unavailable, text);
  log(LinkLogLevel::error, text);
  fail(call, CallFailure::misconfigured, text);
}

void ConnectionFsm::note_latency(const PendingCall& pending, Nanos now) {
  const Nanos duration = now - pending.began;
  counts_.latency[latency_bucket(duration)].add();
  counts_.latency_sum.add(static_cast<std::uint64_t>(std::max(duration, Nanos{0}).count()));
}

// ---- Time

void ConnectionFsm::on_timer(Nanos now) {
  time_out_calls(now);
  switch (phase_) {
    case ConnectionPhase::backing_off:
      if (now >= retry_at_ && !ended_) connect(now);
      break;
    case ConnectionPhase::connecting:
      if (now >= connect_until_) {
        fail_attempt(CallFailure::unavailable, "no connection in time", now);
      }
      break;
    case ConnectionPhase::handshake:
      if (now >= connect_until_) {
        fail_attempt(CallFailure::unavailable, "connected, but it does not answer", now);
      }
      break;
    case ConnectionPhase::ready:
      if (!in_flight_.empty() && now >= last_received_ + options_.max_silence) {
        lose_connection("it does not answer", now);
      } else if (breaker_open_ && !probing_ && now >= probe_at_) {
        probe(now);
      }
      break;
  }
}

void ConnectionFsm::time_out_calls(Nanos now) {
  while (oldest_ != kNone && pending_[oldest_].deadline <= now) {
    const PendingCall& pending = pending_[oldest_];
    const bool had_time = pending.deadline - pending.began >= options_.timeout / 2;
    // Its place in the pipeline stays until its reply comes or the connection ends.
    RedisCall& call = unlink_pending(oldest_);
    if (had_time) count_timeout(now);
    fail(call, CallFailure::timed_out, kNoAnswer);
  }
}

Nanos ConnectionFsm::wake_at() const {
  Nanos earliest = oldest_ != kNone ? pending_[oldest_].deadline : kForever;
  switch (phase_) {
    case ConnectionPhase::backing_off:
      if (!ended_) earliest = std::min(earliest, retry_at_);
      break;
    case ConnectionPhase::connecting:
    case ConnectionPhase::handshake:
      earliest = std::min(earliest, connect_until_);
      break;
    case ConnectionPhase::ready:
      if (!in_flight_.empty()) earliest = std::min(earliest, last_received_ + options_.max_silence);
      if (breaker_open_ && !probing_) earliest = std::min(earliest, probe_at_);
      break;
  }
  return earliest;
}

// ---- The breaker

void ConnectionFsm::count_timeout(Nanos now) {
  ++timed_out_in_a_row_;
  if (!breaker_open_ && timed_out_in_a_row_ >= options_.breaker_threshold) open_breaker(now);
}

void ConnectionFsm::open_breaker(Nanos now) {
  breaker_open_ = true;
  counts_.breaker_open.add();
  probe_at_ = now + jittered(options_.probe_interval);
  log(LinkLogLevel::warning,
      "several consecutive calls timed out: no call is sent until it answers a PING");
}

void ConnectionFsm::close_breaker() {
  timed_out_in_a_row_ = 0;
  if (!breaker_open_) return;
  breaker_open_ = false;
  counts_.breaker_open.decrement();
  log(LinkLogLevel::info, "it answers in time again: calls are sent again");
}

void ConnectionFsm::probe(Nanos now) {
  if (in_flight_.empty()) last_received_ = now;
  const std::uint32_t index = new_pending();
  pending_[index].probe = true;
  constexpr std::array<std::string_view, 1> ping{"PING"};
  append_resp(out_, ping);
  in_flight_.push_back(index);
  probing_ = true;
  probe_deadline_ = now + options_.timeout;
}

// A late reply shows a server that is alive but too slow: calls would still time out.
void ConnectionFsm::on_probe_reply(Nanos now) {
  probing_ = false;
  const bool is_healthy = parser_.values().front().kind != wire::RespValue::Kind::error;
  if (is_healthy && now <= probe_deadline_) return close_breaker();
  probe_at_ = now + jittered(options_.probe_interval);
}

// ---- The connection

void ConnectionFsm::connect(Nanos now) {
  phase_ = ConnectionPhase::connecting;
  connect_until_ = now + options_.connect_timeout;
}

void ConnectionFsm::on_connected(Nanos now) {
  if (phase_ != ConnectionPhase::connecting) return;
  phase_ = ConnectionPhase::handshake;
  last_received_ = now;
  handshake_.begin(out_);
}

void ConnectionFsm::become_ready(Nanos now) {
  phase_ = ConnectionPhase::ready;
  ready_at_ = now;
  down_ = false;
  down_why_.clear();
  counts_.connects.add();
  set_connected(true);
  log(LinkLogLevel::info, "connected");
  close_breaker();
  send_waiting(now);
}

void ConnectionFsm::on_disconnected(std::string_view why, Nanos now, CallFailure failure) {
  std::string text{why};
  switch (phase_) {
    case ConnectionPhase::backing_off:
      return;
    case ConnectionPhase::handshake:
      if (!handshake_.server_error().empty())
        text.append("; its last error: ").append(handshake_.server_error());
      [[fallthrough]];
    case ConnectionPhase::connecting:
      return fail_attempt(failure, std::move(text), now);
    case ConnectionPhase::ready:
      return lose_connection(text, now);
  }
}

void ConnectionFsm::fail_attempt(CallFailure failure, std::string why, Nanos now) {
  back_off(now);
  if (!down_ || down_why_ != why) {
    log(failure == CallFailure::misconfigured ? LinkLogLevel::error : LinkLogLevel::warning,
        "cannot connect: " + why);
  }
  down_ = true;
  down_failure_ = failure;
  down_why_ = std::move(why);
  fail_waiting(now);
  if (handler_ != nullptr) handler_->on_connection_lost(now);
}

// The first attempt to reconnect comes soon, so new calls wait for it.
void ConnectionFsm::lose_connection(const std::string& why, Nanos now) {
  if (now - ready_at_ > options_.max_back_off) attempts_ = 0;
  back_off(now);
  log(LinkLogLevel::warning, "the connection is lost: " + why);
  fail_in_flight(why);
  if (handler_ != nullptr) handler_->on_connection_lost(now);
}

void ConnectionFsm::reconnect(const std::string& why, Nanos now) {
  if (phase_ == ConnectionPhase::ready) return lose_connection(why, now);
  if (phase_ != ConnectionPhase::backing_off) back_off(now);
}

// Each of several servers counts for itself.
void ConnectionFsm::set_connected(bool connected) {
  if (connected == connected_) return;
  connected_ = connected;
  connected ? counts_.connected.add() : counts_.connected.decrement();
}

void ConnectionFsm::back_off(Nanos now) {
  phase_ = ConnectionPhase::backing_off;
  set_connected(false);
  out_.clear();
  sent_ = 0;
  partial_.clear();
  reconnect_why_.clear();
  probing_ = false;
  const Nanos longest =
      std::min(options_.min_back_off * (1 << std::min(attempts_, 20u)), options_.max_back_off);
  ++attempts_;
  retry_at_ = now + jittered(longest);
}

void ConnectionFsm::fail_in_flight(std::string_view why) {
  while (!in_flight_.empty()) {
    const std::uint32_t index = in_flight_.pop_front();
    RedisCall* const call = pending_[index].call != nullptr ? &unlink_pending(index) : nullptr;
    free_pending(index);
    if (call != nullptr) fail(*call, CallFailure::unavailable, why);
  }
}

// Calls that start during this loop fail at once, because down_ is set: the loop ends.
void ConnectionFsm::fail_waiting(Nanos now) {
  while (!waiting_.empty()) {
    const std::uint32_t index = waiting_.pop_front();
    RedisCall* const call = pending_[index].call != nullptr ? &unlink_pending(index) : nullptr;
    free_pending(index);
    if (call != nullptr) fail_unsent(*call, now);
  }
}

void ConnectionFsm::end() {
  ended_ = true;
  down_ = true;
  down_failure_ = CallFailure::unavailable;
  down_why_ = "this link is being closed";
  phase_ = ConnectionPhase::backing_off;
  set_connected(false);
  if (std::exchange(breaker_open_, false)) counts_.breaker_open.decrement();
  fail_in_flight(down_why_);
  fail_waiting(Nanos{0});
}

// ----

// Between half of `longest` and all of it, so that links to the same server do not reconnect at
// once.
Nanos ConnectionFsm::jittered(Nanos longest) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const auto half = static_cast<std::uint64_t>(std::max<std::int64_t>(longest.count() / 2, 1));
  return Nanos{static_cast<std::int64_t>(half + (random_ >> 16) % half)};
}

void ConnectionFsm::log(LinkLogLevel level, std::string_view text) const {
  if (!log_) return;
  std::string line = server_;
  log_(level, line.append(": ").append(text));
}

}  // namespace weir::store::redis
