// Any bytes as answers of a Redis server, with calls in flight: each call is completed once, memory
// is bounded, and the state machine continues. Every reply is also read as one of the lease script.
// The first bytes of an input are events: calls, time that passes, lost connections.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/connection_fsm.h"
#include "store/redis/lease_script.h"

namespace {

using namespace weir;
using namespace weir::store::redis;

void require(bool holds) {
  if (!holds) std::abort();
}

const core::Limit kLimits[] = {
    *core::Bucket::make({3, 1, std::chrono::seconds{1}}, 5),
    *core::Window::make({5, 1, std::chrono::seconds{1}}, true),
    *core::SlidingCounter::make({5, 1, std::chrono::seconds{1}}),
};

// Any parsed answer is valid.
void read_as_loan(std::span<const wire::RespValue> reply) {
  for (const core::Limit& limit : kLimits) {
    LeaseScript talk;
    store::LeaseResponse answer;
    require(talk.start({.limit = &limit, .key = "k", .borrower = "b", .wanted = 3}, {}, answer));
    const bool answered = talk.on_reply(reply, answer) == RedisCall::ReplyResult::answered;
    if (!answered) continue;
    const bool decided = answer.kind == store::StoreResponse::Kind::decided;
    require(decided == answer.error.empty());
    require(answer.lent >= 0 && answer.kept >= 0 && answer.lasts >= Nanos{0});
    require(answer.remaining >= 0 && answer.outstanding >= 0);
  }
}

class CountingCall final : public RedisCall {
 public:
  void append_command(std::string& out, bool with_source) const override {
    out += with_source ? "*1\r\n$4\r\nEVAL\r\n" : "*1\r\n$4\r\nPING\r\n";
  }
  std::string_view key() const override { return "key"; }
  // A null reply is queried for more details, a few times.
  ReplyResult on_reply(std::span<const wire::RespValue> reply) override {
    require(ends == 0 && !reply.empty());
    read_as_loan(reply);
    const bool is_null = reply.front().kind == wire::RespValue::Kind::null;
    return is_null && ++agains < 4 ? ReplyResult::again : ReplyResult::answered;
  }
  void on_answered() override { ++ends; }
  void on_failure(CallFailure, std::string_view why) override {
    require(!why.empty());
    ++ends;
  }

  int ends = 0;
  int agains = 0;
};

class World {
 public:
  World() { options_.max_pending_calls = 32, options_.max_unsent_bytes = 1 << 10; }

  void call() {
    calls_.emplace_back();
    machine_.call(calls_.back(), now_);
  }
  void connect() {
    while (!machine_.wants_connection()) sleep();
    machine_.on_connected(now_);
    machine_.on_sent(machine_.unsent().size());
  }
  void greet() {
    connect();
    machine_.on_bytes("%0\r\n", now_);
  }
  void sleep() {
    if (machine_.wake_at() == kForever) return;  // it is idle
    now_ = std::max(now_, machine_.wake_at());
    machine_.on_timer(now_);
    // It has done the work for which it was scheduled.
    require(machine_.wake_at() > now_);
  }
  void hear(std::string_view bytes) {
    // Memory of exactly that size, so that a sanitizer sees reads beyond it.
    const std::vector<char> shown(bytes.begin(), bytes.end());
    machine_.on_bytes({shown.data(), shown.size()}, now_);
  }
  void lose() { machine_.on_disconnected("gone", now_); }
  void send() { machine_.on_sent(machine_.unsent().size()); }
  void check() const { require(machine_.unsent().size() <= options_.max_unsent_bytes + 4096); }
  void end() {
    machine_.end();
    for (const CountingCall& call : calls_) require(call.ends == 1);
  }

 private:
  ConnectionOptions options_{};
  LinkCounts counts_{};
  Nanos now_ = std::chrono::hours{1};
  std::deque<CountingCall> calls_{};
  ConnectionFsm machine_{options_, counts_, {}, now_};
};

void happen(World& world, unsigned char what) {
  switch (what % 8) {
    case 0:
    case 1:
    case 2:
      return world.call();
    case 3:
      return world.sleep();
    case 4:
      return world.lose();
    case 5:
      return world.connect();
    case 6:
      return world.greet();
    default:
      return world.send();
  }
}

}  // namespace

// A line of events, then the replies; between pieces of these, the events again, one after the
// other.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view events = input.substr(0, input.find('\n'));
  std::string_view replies = input.substr(std::min(events.size() + 1, size));
  World world;
  world.greet();
  for (int i = 0; i < 8; ++i) world.call();
  const std::size_t piece = 1 + size % 13;
  for (std::size_t i = 0; !replies.empty(); ++i) {
    world.hear(replies.substr(0, piece));
    replies.remove_prefix(std::min(piece, replies.size()));
    if (i < events.size()) happen(world, static_cast<unsigned char>(events[i]));
    world.check();
  }
  world.end();
  return 0;
}
