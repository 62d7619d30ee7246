#include "store/redis/sentinel_router.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace weir::store::redis {

namespace {

constexpr std::string_view kSwitchMaster = "+switch-master";

}  // namespace

// SENTINEL get-master-addr-by-name
class MasterFinder::AddressCall final : public RedisCall {
 public:
  explicit AddressCall(MasterFinder& finder) : finder_(finder) {}

  void append_command(std::string& out, bool) const override {
    const std::array<std::string_view, 3> words{"SENTINEL", "get-master-addr-by-name",
                                                finder_.options_.master};
    append_resp(out, words);
  }
  std::string_view key() const override { return {}; }
  ReplyResult on_reply(std::span<const wire::RespValue> reply) override {
    address_ = {};
    if (reply.size() != 3) return ReplyResult::answered;
    const std::string_view port = reply[2].text;
    std::from_chars(port.data(), port.data() + port.size(), address_.port);
    address_.host = reply[1].text;
    return ReplyResult::answered;
  }
  void on_answered() override {
    address_.host.empty() || address_.port == 0 ? finder_.on_unknown() : finder_.on_found(address_);
  }
  void on_failure(CallFailure failure, std::string_view why) override {
    finder_.on_failed(failure, *route.failed_at + ": " + std::string{why});
  }

 private:
  MasterFinder& finder_;
  HostPort address_{};
};

// SUBSCRIBE +switch-master. Without a subscription a new master is found when the old one is lost.
class MasterFinder::SubscribeCall final : public RedisCall {
 public:
  void append_command(std::string& out, bool) const override {
    constexpr std::array<std::string_view, 2> words{"SUBSCRIBE", kSwitchMaster};
    append_resp(out, words);
  }
  std::string_view key() const override { return {}; }
  ReplyResult on_reply(std::span<const wire::RespValue>) override { return ReplyResult::answered; }
  void on_answered() override { in_flight = false; }
  void on_failure(CallFailure, std::string_view) override { in_flight = false; }

  bool in_flight = false;
  bool was_sent = false;  // of the current Sentinel
};

MasterFinder::MasterFinder(SentinelOptions options, MakeServerConnection make_connection)
    : options_(std::move(options)),
      make_connection_(std::move(make_connection)),
      address_call_(std::make_unique<AddressCall>(*this)),
      subscribe_call_(std::make_unique<SubscribeCall>()) {}

MasterFinder::~MasterFinder() { end(); }

void MasterFinder::end() {
  ended_ = true;
  if (connection_ != nullptr) connection_->fsm().end();
}

void MasterFinder::start(Nanos) {
  if (busy_ || ended_) return;
  busy_ = true;
  tried_ = 0;
  is_unknown_ = false;
  failed_ = {};
  restart_at_ = kForever;
  to_ask_ = true;
  const bool is_connected =
      connection_ != nullptr && connected_to_ == current_ && connection_->fsm().is_ready();
  to_connect_ = !is_connected || is_lost_;
}

void MasterFinder::ask(Nanos now) {
  to_ask_ = false;
  if (std::exchange(to_connect_, false)) {
    // Does not call on_connection_lost.
    if (connection_ != nullptr) connection_->fsm().end();
    connection_.reset();
    connected_to_ = current_;
    connection_ = make_connection_(options_.hosts[current_], *this, now);
    subscribe_call_->was_sent = false;
    is_lost_ = false;
  }
  connection_->fsm().call(*address_call_, now);
}

void MasterFinder::on_found(HostPort address) {
  busy_ = false;
  result_ = MasterResult{.master = std::move(address)};
}

void MasterFinder::on_unknown() {
  is_unknown_ = true;
  try_next();
}

void MasterFinder::on_failed(CallFailure failure, std::string_view why) {
  if (failed_.why.empty() || failure == CallFailure::misconfigured) {
    failed_.failure = failure;
    failed_.why = why;
  }
  is_lost_ = true;
  try_next();
}

void MasterFinder::try_next() {
  if (ended_) return;
  current_ = (current_ + 1) % options_.hosts.size();
  if (++tried_ == options_.hosts.size()) return conclude();
  to_ask_ = to_connect_ = true;
}

void MasterFinder::conclude() {
  busy_ = false;
  if (is_unknown_) {
    failed_.failure = CallFailure::misconfigured;
    failed_.why = "no Sentinel knows a master named " + options_.master +
                  ": write the name that follows `sentinel monitor` in their configuration";
  } else if (failed_.failure != CallFailure::misconfigured) {
    failed_.why = "no Sentinel answers: " + failed_.why;
  }
  result_ = std::exchange(failed_, {});
}

// While busy, the failure of the pending call reports the loss.
void MasterFinder::on_connection_lost(Nanos) {
  if (!busy_) is_lost_ = true;
}

void MasterFinder::on_push(std::span<const wire::RespValue> push) {
  if (push.size() != 4 || push[1].text != "message" || push[2].text != kSwitchMaster) return;
  const std::string_view text = push[3].text;
  if (text.substr(0, text.find(' ')) == options_.master) has_switched_ = true;
}

void MasterFinder::pump(Nanos now) {
  if (ended_) return;
  if (now >= restart_at_) start(now);
  while (to_ask_) ask(now);
  if (connection_ == nullptr) return;
  ConnectionFsm& fsm = connection_->fsm();
  const bool can_subscribe = !busy_ && !is_lost_ && fsm.is_ready() && fsm.speaks_resp3();
  if (can_subscribe && !subscribe_call_->was_sent && !subscribe_call_->in_flight) {
    subscribe_call_->was_sent = subscribe_call_->in_flight = true;
    fsm.call(*subscribe_call_, now);
  }
  if (is_lost_ && !busy_) restart_at_ = std::min(restart_at_, now + options_.resubscribe_after);
  connection_->pump();
}

void MasterFinder::on_timer(Nanos now) {
  if (connection_ != nullptr) connection_->on_timer(now);
}

Nanos MasterFinder::wake_at() const {
  return connection_ == nullptr ? restart_at_ : std::min(restart_at_, connection_->fsm().wake_at());
}

// ----

void SentinelRouter::pump(Nanos now) {
  finder_.pump(now);
  if (finder_.take_switch())
    master_->fsm().reconnect("the Sentinels have announced another master", now);
  if (const auto result = finder_.take_result()) follow(*result, now);
  master_->pump_without_connecting();
  if (!master_->lacks_connection()) {
    finding_ = finding_ && master_->fsm().wants_connection();
    return;
  }
  if (!std::exchange(finding_, true)) {
    master_->fsm().rename(name_);
    finder_.start(now);
  }
  finder_.pump(now);
}

void SentinelRouter::follow(const MasterFinder::MasterResult& result, Nanos now) {
  const bool was_finding = std::exchange(finding_, false);
  ConnectionFsm& fsm = master_->fsm();
  if (result.master && was_finding && master_->lacks_connection()) {
    return master_->connect_to(*result.master);
  }
  if (result.master && *result.master != master_->server()) {
    return fsm.reconnect("the Sentinels name another master", now);
  }
  if (!result.master && was_finding) {
    fsm.on_disconnected(result.why, now, result.failure);
  }
}

void SentinelRouter::on_timer(Nanos now) {
  finder_.on_timer(now);
  master_->on_timer(now);
}

Nanos SentinelRouter::wake_at() const {
  return std::min(finder_.wake_at(), std::as_const(*master_).fsm().wake_at());
}

void SentinelRouter::end() {
  finder_.end();
  master_->fsm().end();
}

}  // namespace weir::store::redis
