#include "store/redis/machine.h"

#include <algorithm>
#include <array>
#include <utility>

#include "store/redis/errors.h"

namespace weir::store::redis {

namespace {

constexpr std::string_view kNoAnswer = "no answer in time";
constexpr std::string_view kTooMany = "too many questions are waiting for an answer";
constexpr std::string_view kTooMuch = "too much is waiting to be sent";
constexpr std::string_view kBreaker =
    "it has not answered for a while, and is not asked until it does";

}  // namespace

Machine::Machine(const MachineOptions& options, LinkCounts& counts, Log log, Nanos now,
                 Guide* guide)
    : options_(options),
      counts_(counts),
      log_(std::move(log)),
      guide_(guide),
      server_(options.server),
      handshake_(options_.login),
      parser_(options.reply_room),
      random_(options.seed) {
  connect(now);
}

// ---- Calls

void Machine::call(Call& call, Nanos now, Nanos within) {
  counts_.calls.add();
  call.trip.began = now;
  call.trip.deadline = now + within;
  pass_on(call, false, now);
}

void Machine::pass_on(Call& call, bool asking, Nanos now) {
  if (ended_) return refuse(call, Failure::unavailable, "this link ends");
  if (down_) return refuse_unsent(call, now);
  if (breaker_open_) return refuse(call, Failure::unavailable, kBreaker);
  if (in_flight_.size() + waiting_.size() >= options_.most_calls) {
    return refuse(call, Failure::unavailable, kTooMany);
  }
  if (unsent().size() >= options_.most_bytes) {
    return refuse(call, Failure::unavailable, kTooMuch);
  }
  const std::uint32_t index = new_slot();
  open_slot(index, call);
  slots_[index].asking = asking;
  if (state_ == State::ready) {
    send(index, now);
  } else {
    waiting_.push_back(index);
  }
}

std::uint32_t Machine::new_slot() {
  if (free_.empty()) {
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  slots_[index] = {};
  return index;
}

void Machine::open_slot(std::uint32_t index, Call& call) {
  Slot& slot = slots_[index];
  slot.call = &call;
  slot.began = call.trip.began;
  slot.deadline = call.trip.deadline;
  slot.before = youngest_;
  // (One that was with another server before may have less time than those who came earlier.)
  while (slot.before != kNone && slots_[slot.before].deadline > slot.deadline) {
    slot.behind = slot.before;
    slot.before = slots_[slot.before].before;
  }
  (slot.before == kNone ? oldest_ : slots_[slot.before].behind) = index;
  (slot.behind == kNone ? youngest_ : slots_[slot.behind].before) = index;
}

// From now on nobody waits for it.
Call& Machine::close_slot(std::uint32_t index) {
  Slot& slot = slots_[index];
  (slot.before == kNone ? oldest_ : slots_[slot.before].behind) = slot.behind;
  (slot.behind == kNone ? youngest_ : slots_[slot.behind].before) = slot.before;
  slot.before = slot.behind = kNone;
  return *std::exchange(slot.call, nullptr);
}

void Machine::send(std::uint32_t index, Nanos now) {
  if (in_flight_.empty()) heard_at_ = now;
  if (slots_[index].asking) {
    constexpr std::array<std::string_view, 1> asking{"ASKING"};
    append_words(out_, asking);
    in_flight_.push_back(new_slot());
  }
  const Slot& slot = slots_[index];
  slot.call->append_command(out_, slot.with_source);
  counts_.flushed_calls.add();
  in_flight_.push_back(index);
}

void Machine::send_waiting(Nanos now) {
  while (!waiting_.empty()) {
    const std::uint32_t index = waiting_.pop_front();
    if (slots_[index].call != nullptr) {
      send(index, now);
    } else {
      free_slot(index);
    }
  }
}

void Machine::refuse(Call& call, Failure failure, std::string_view why) {
  failures_of(counts_, failure).add();
  call.trip.by = &server_;
  call.on_failure(failure, why);
}

void Machine::refuse_unsent(Call& call, Nanos now) {
  if (guide_ != nullptr && !ended_ && guide_->on_unsent(call, now)) return;
  refuse(call, down_failure_, down_why_);
}

void Machine::on_sent(std::size_t bytes) {
  sent_ += bytes;
  if (sent_ < out_.size()) return;
  out_.clear();
  sent_ = 0;
}

// ---- Replies

void Machine::on_bytes(std::string_view bytes, Nanos now) {
  using Status = wire::RespReplyParser::Status;
  if (state_ != State::greeting && state_ != State::ready) return;
  // Replies are read where they lie, unless one has begun before.
  const bool has_begun = !kept_.empty();
  if (has_begun) kept_.append(bytes);
  std::string_view rest = has_begun ? std::string_view(kept_) : bytes;
  while (!rest.empty() && (state_ == State::greeting || state_ == State::ready)) {
    const Status status = parser_.parse(rest);
    if (status == Status::need_more) break;
    if (status == Status::error) return on_broken(parser_.error(), now);
    on_reply(now);
    rest.remove_prefix(parser_.consumed());
  }
  if (state_ == State::pausing) return;
  if (has_begun) {
    kept_.erase(0, kept_.size() - rest.size());
  } else {
    kept_.assign(rest);
  }
  if (!leave_because_.empty()) lose_connection(std::exchange(leave_because_, {}), now);
}

void Machine::on_broken(std::string_view why, Nanos now) {
  std::string text = "it does not speak as Redis does: ";
  text.append(why);
  if (state_ == State::greeting) {
    return give_up_attempt(Failure::misconfigured,
                           text + ": is there another service at this address?", now);
  }
  lose_connection(text, now);
}

void Machine::on_reply(Nanos now) {
  if (!is_reply()) {
    if (guide_ != nullptr) guide_->on_news(parser_.values());
    return;
  }
  heard_at_ = now;
  if (state_ == State::greeting) return on_greeting(now);
  if (in_flight_.empty()) return on_broken("an answer that nobody has asked for", now);
  const std::uint32_t index = in_flight_.pop_front();
  const Slot& slot = slots_[index];
  if (slot.probe) on_probe_reply(now);
  if (slot.call == nullptr) return free_slot(index);
  timed_out_in_a_row_ = 0;
  on_call_reply(index, now);
}

// What nobody asked for, such as news about keys, is nobody's reply. Only SUBSCRIBE is answered in
// the same way.
bool Machine::is_reply() const {
  const auto values = parser_.values();
  if (values.front().kind != wire::RespValue::Kind::push) return true;
  return values.size() > 1 && values[1].text == "subscribe" && !in_flight_.empty();
}

void Machine::on_greeting(Nanos now) {
  switch (handshake_.on_reply(parser_.values(), out_)) {
    case Handshake::Status::more:
      return;
    case Handshake::Status::done:
      return become_ready(now);
    case Handshake::Status::failed:
      return give_up_attempt(handshake_.failure(), explained(handshake_.complaint()), now);
  }
}

void Machine::on_call_reply(std::uint32_t index, Nanos now) {
  const wire::RespValue& head = parser_.values().front();
  if (head.kind == wire::RespValue::Kind::error) return on_error_reply(index, head.text, now);
  if (slots_[index].call->on_reply(parser_.values()) == Call::Next::again) {
    slots_[index].with_source = false;
    return send(index, now);
  }
  attempts_ = 0;
  note_latency(slots_[index], now);
  Call& call = close_slot(index);
  free_slot(index);
  call.on_answered();
}

void Machine::on_error_reply(std::uint32_t index, std::string_view error, Nanos now) {
  const ErrorMeaning meaning = meaning_of(error);
  if (meaning.what == ErrorClass::send_source && !slots_[index].with_source) {
    slots_[index].with_source = true;
    return send(index, now);
  }
  std::string text = explained(error);
  if (meaning.reconnect) leave_because_ = text;
  Call& call = close_slot(index);
  free_slot(index);
  if (guide_ != nullptr && guide_->on_error(call, error, now)) return;
  if (meaning.what == ErrorClass::unavailable) return refuse(call, Failure::unavailable, text);
  say(LogLevel::error, text);
  refuse(call, Failure::misconfigured, text);
}

void Machine::note_latency(const Slot& slot, Nanos now) {
  const Nanos took = now - slot.began;
  counts_.latency[latency_bucket(took)].add();
  counts_.latency_sum.add(static_cast<std::uint64_t>(std::max(took, Nanos{0}).count()));
}

// ---- Time

void Machine::on_time(Nanos now) {
  time_out_calls(now);
  switch (state_) {
    case State::pausing:
      if (now >= retry_at_ && !ended_) connect(now);
      break;
    case State::connecting:
      if (now >= connect_until_) {
        give_up_attempt(Failure::unavailable, "no connection in time", now);
      }
      break;
    case State::greeting:
      if (now >= connect_until_) {
        give_up_attempt(Failure::unavailable, "connected, but it does not answer", now);
      }
      break;
    case State::ready:
      if (!in_flight_.empty() && now >= heard_at_ + options_.longest_silence) {
        lose_connection("it does not answer", now);
      } else if (breaker_open_ && !probing_ && now >= probe_at_) {
        probe(now);
      }
      break;
  }
}

void Machine::time_out_calls(Nanos now) {
  while (oldest_ != kNone && slots_[oldest_].deadline <= now) {
    const Slot& slot = slots_[oldest_];
    const bool had_time = slot.deadline - slot.began >= options_.timeout / 2;
    // (Its place stays, and is free when its reply has come, or cannot come any more.)
    Call& call = close_slot(oldest_);
    if (had_time) count_timeout(now);
    refuse(call, Failure::timed_out, kNoAnswer);
  }
}

Nanos Machine::wake_at() const {
  Nanos earliest = oldest_ != kNone ? slots_[oldest_].deadline : kForever;
  switch (state_) {
    case State::pausing:
      if (!ended_) earliest = std::min(earliest, retry_at_);
      break;
    case State::connecting:
    case State::greeting:
      earliest = std::min(earliest, connect_until_);
      break;
    case State::ready:
      if (!in_flight_.empty()) earliest = std::min(earliest, heard_at_ + options_.longest_silence);
      if (breaker_open_ && !probing_) earliest = std::min(earliest, probe_at_);
      break;
  }
  return earliest;
}

// ---- The breaker

void Machine::count_timeout(Nanos now) {
  ++timed_out_in_a_row_;
  if (!breaker_open_ && timed_out_in_a_row_ >= options_.breaker_after) open_breaker(now);
}

void Machine::open_breaker(Nanos now) {
  breaker_open_ = true;
  counts_.breaker_open.add();
  probe_at_ = now + jittered(options_.probe_interval);
  say(LogLevel::warning,
      "several answers in a row did not come in time: it is not asked until it "
      "answers a PING");
}

void Machine::close_breaker() {
  timed_out_in_a_row_ = 0;
  if (!breaker_open_) return;
  breaker_open_ = false;
  counts_.breaker_open.take();
  say(LogLevel::info, "it answers in time: it is asked again");
}

void Machine::probe(Nanos now) {
  if (in_flight_.empty()) heard_at_ = now;
  const std::uint32_t index = new_slot();
  slots_[index].probe = true;
  constexpr std::array<std::string_view, 1> ping{"PING"};
  append_words(out_, ping);
  in_flight_.push_back(index);
  probing_ = true;
  probe_deadline_ = now + options_.timeout;
}

// One that comes late shows a server that is alive and too slow: calls would time out, too.
void Machine::on_probe_reply(Nanos now) {
  probing_ = false;
  const bool is_well = parser_.values().front().kind != wire::RespValue::Kind::error;
  if (is_well && now <= probe_deadline_) return close_breaker();
  probe_at_ = now + jittered(options_.probe_interval);
}

// ---- The connection

void Machine::connect(Nanos now) {
  state_ = State::connecting;
  connect_until_ = now + options_.connect_timeout;
}

void Machine::on_connected(Nanos now) {
  if (state_ != State::connecting) return;
  state_ = State::greeting;
  heard_at_ = now;
  handshake_.begin(out_);
}

void Machine::become_ready(Nanos now) {
  state_ = State::ready;
  ready_at_ = now;
  down_ = false;
  down_why_.clear();
  counts_.connects.add();
  set_connected(true);
  say(LogLevel::info, "connected");
  close_breaker();
  send_waiting(now);
}

void Machine::on_disconnected(std::string_view why, Nanos now, Failure failure) {
  std::string text{why};
  switch (state_) {
    case State::pausing:
      return;
    case State::greeting:
      if (!handshake_.complaint().empty())
        text.append(", it said: ").append(handshake_.complaint());
      [[fallthrough]];
    case State::connecting:
      return give_up_attempt(failure, std::move(text), now);
    case State::ready:
      return lose_connection(text, now);
  }
}

void Machine::give_up_attempt(Failure failure, std::string why, Nanos now) {
  pause(now);
  if (!down_ || down_why_ != why) {
    say(failure == Failure::misconfigured ? LogLevel::error : LogLevel::warning,
        "cannot connect: " + why);
  }
  down_ = true;
  down_failure_ = failure;
  down_why_ = std::move(why);
  fail_waiting(now);
  if (guide_ != nullptr) guide_->on_trouble(now);
}

// The first attempt to connect again comes soon, and calls wait for it.
void Machine::lose_connection(const std::string& why, Nanos now) {
  if (now - ready_at_ > options_.most_back_off) attempts_ = 0;
  pause(now);
  say(LogLevel::warning, "the connection is lost: " + why);
  fail_in_flight(why);
  if (guide_ != nullptr) guide_->on_trouble(now);
}

void Machine::leave(const std::string& why, Nanos now) {
  if (state_ == State::ready) return lose_connection(why, now);
  if (state_ != State::pausing) pause(now);
}

// (Of several servers, each counts for itself.)
void Machine::set_connected(bool connected) {
  if (connected == connected_) return;
  connected_ = connected;
  connected ? counts_.connected.add() : counts_.connected.take();
}

void Machine::pause(Nanos now) {
  state_ = State::pausing;
  set_connected(false);
  out_.clear();
  sent_ = 0;
  kept_.clear();
  leave_because_.clear();
  probing_ = false;
  const Nanos longest =
      std::min(options_.least_back_off * (1 << std::min(attempts_, 20u)), options_.most_back_off);
  ++attempts_;
  retry_at_ = now + jittered(longest);
}

void Machine::fail_in_flight(std::string_view why) {
  while (!in_flight_.empty()) {
    const std::uint32_t index = in_flight_.pop_front();
    Call* const call = slots_[index].call != nullptr ? &close_slot(index) : nullptr;
    free_slot(index);
    if (call != nullptr) refuse(*call, Failure::unavailable, why);
  }
}

// (Calls that are made meanwhile fail at once, and do not wait.)
void Machine::fail_waiting(Nanos now) {
  while (!waiting_.empty()) {
    const std::uint32_t index = waiting_.pop_front();
    Call* const call = slots_[index].call != nullptr ? &close_slot(index) : nullptr;
    free_slot(index);
    if (call != nullptr) refuse_unsent(*call, now);
  }
}

void Machine::end() {
  ended_ = true;
  down_ = true;
  down_failure_ = Failure::unavailable;
  down_why_ = "this link ends";
  state_ = State::pausing;
  set_connected(false);
  if (std::exchange(breaker_open_, false)) counts_.breaker_open.take();
  fail_in_flight(down_why_);
  fail_waiting(Nanos{0});
}

// ----

// Between half of it and all of it: links that have lost the same server do not come back at once.
Nanos Machine::jittered(Nanos longest) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const auto half = static_cast<std::uint64_t>(std::max<std::int64_t>(longest.count() / 2, 1));
  return Nanos{static_cast<std::int64_t>(half + (random_ >> 16) % half)};
}

void Machine::say(LogLevel level, std::string_view text) const {
  if (!log_) return;
  std::string line = server_;
  log_(level, line.append(": ").append(text));
}

}  // namespace weir::store::redis
