#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/redis/link_counts.h"
#include "store/redis/router.h"
#include "store/redis/socket_connection.h"

namespace weir::store::redis {

struct SentinelOptions {
  std::vector<HostPort> hosts{};
  std::string master{};                               // the master's name in Sentinel
  Nanos resubscribe_after = std::chrono::seconds{1};  // after the subscription is lost
};

// Maximum time to connect to a Sentinel and get its reply.
inline constexpr Nanos kSentinelTimeout = std::chrono::milliseconds{300};

// Finds the master's address: asks the Sentinels in turn until one knows it. Stays connected to
// that one, subscribes to its +switch-master messages, and asks it first the next time. Not
// thread-safe.
class MasterFinder final : private RedirectHandler {
 public:
  MasterFinder(SentinelOptions options, MakeServerConnection make_connection);
  ~MasterFinder();
  MasterFinder(const MasterFinder&) = delete;
  MasterFinder& operator=(const MasterFinder&) = delete;

  void start(Nanos now);
  bool is_busy() const { return busy_; }

  // The master's address, or the reason why it is not known.
  struct MasterResult {
    std::optional<HostPort> master{};
    CallFailure failure = CallFailure::unavailable;
    std::string why{};
  };
  // Returns each result once: one for each start, and one when the subscription moved to another
  // Sentinel.
  std::optional<MasterResult> take_result() { return std::exchange(result_, std::nullopt); }
  // True if the master was switched since the last call.
  bool take_switch() { return std::exchange(has_switched_, false); }

  void pump(Nanos now);
  void on_timer(Nanos now);
  Nanos wake_at() const;
  void end();

 private:
  class AddressCall;
  class SubscribeCall;

  bool on_error(RedisCall&, std::string_view, Nanos) override { return false; }
  bool on_unsent(RedisCall&, Nanos) override { return false; }
  void on_connection_lost(Nanos now) override;
  void on_push(std::span<const wire::RespValue> push) override;

  void ask(Nanos now);
  void on_found(HostPort address);
  void on_unknown();
  void on_failed(CallFailure failure, std::string_view why);
  void try_next();
  void conclude();

  const SentinelOptions options_;
  const MakeServerConnection make_connection_;
  std::unique_ptr<AddressCall> address_call_;
  std::unique_ptr<SubscribeCall> subscribe_call_;
  std::unique_ptr<ServerConnection> connection_;
  std::size_t connected_to_ = 0;  // index of the host of connection_
  std::size_t current_ = 0;       // index of the host to ask
  std::size_t tried_ = 0;         // number of hosts asked since `start`
  bool busy_ = false;
  bool to_ask_ = false;          // `pump` asks the current host
  bool to_connect_ = false;      // and connects to it before
  bool is_unknown_ = false;      // a Sentinel does not know the master's name
  bool is_lost_ = false;         // the connection is lost, and with it the subscription
  Nanos restart_at_ = kForever;  // to subscribe again
  MasterResult failed_{};
  std::optional<MasterResult> result_;
  bool has_switched_ = false;
  bool ended_ = false;
};

// Routes all calls to the master that Sentinels name. Asks them before each connection, and
// reconnects when they name another master.
class SentinelRouter final : public Router {
 public:
  SentinelRouter(SentinelOptions options, MakeServerConnection make_sentinel,
                 std::unique_ptr<SocketConnection> master)
      : finder_(std::move(options), std::move(make_sentinel)),
        master_(std::move(master)),
        name_(master_->fsm().server()) {}

  SocketConnection& channel() { return *master_; }

  void call(RedisCall& call, Nanos now) override { master_->fsm().pass_on(call, false, now); }
  void pump(Nanos now) override;
  void on_timer(Nanos now) override;
  Nanos wake_at() const override;
  bool is_ready() const override { return master_->fsm().is_ready(); }
  bool is_misconfigured() const override { return master_->fsm().is_misconfigured(); }
  void end() override;

 private:
  void follow(const MasterFinder::MasterResult& result, Nanos now);

  MasterFinder finder_;
  const std::unique_ptr<SocketConnection> master_;
  const std::string name_;  // the URL, for messages while the master is not known
  bool finding_ = false;
};

}  // namespace weir::store::redis
