#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "net/poller.h"
#include "net/timer_fd.h"
#include "store/redis/connection_fsm.h"
#include "store/redis/cross_slot_query.h"
#include "store/redis/denial_cache.h"
#include "store/redis/lease_script.h"
#include "store/redis/link_counts.h"
#include "store/redis/membership.h"
#include "store/redis/request_codec.h"
#include "store/redis/router.h"
#include "store/redis/socket_connection.h"
#include "store/redis/transport.h"
#include "store/shared_store.h"
#include "weir/fleet.h"

namespace weir::store::redis {

struct LinkOptions {
  // The servers at the address: one server, Sentinels that know the master, or some nodes of a
  // cluster.
  enum class Topology : std::uint8_t { single_server, sentinels, cluster };

  ConnectionOptions connection{};
  Topology topology = Topology::single_server;
  ServerAddress address{};        // of a single server; of the others only `tls` is used
  std::vector<HostPort> hosts{};  // of Sentinels or of the cluster, from the URL
  std::string master{};           // the master's name in Sentinel
  MakeRequestCodec make_codec{};
  LogCallback log{};  // called on the thread of the link
  bool caches_denials = true;
  MembershipView* membership =
      nullptr;  // null: the node sends no heartbeats and is no member of the fleet
};

// One thread's link to Redis: a connection to each server, on which all requests are pipelined.
// Once warm, a request to a single server allocates nothing. Not thread-safe.
class RedisLink final : public Link,
                        public SharedStore,
                        private SocketConnection::Observer,
                        private CrossSlotQuery::PartSender {
 public:
  // `options` outlive it. Starts to connect.
  RedisLink(const LinkOptions& options, std::shared_ptr<LinkCounts> counts, std::uint64_t seed);
  // Fails all pending requests as unavailable.
  ~RedisLink() override;
  RedisLink(const RedisLink&) = delete;
  RedisLink& operator=(const RedisLink&) = delete;

  // ---- Link. From within a callback, `run_ready`, `flush` and `wait` do nothing: requests that
  // start
  // ---- there are sent after all callbacks for the received replies.
  int descriptor() const noexcept override { return poller_.descriptor(); }
  void run_ready() override;
  void flush() override;
  void wait(Nanos longest) override;

  // ---- SharedStore
  void ask(const StoreRequest& request, StoreCallback& callback) override;
  void request_lease(const LeaseRequest& request, LeaseCallback& callback) override;
  Nanos timeout() const override { return options_.connection.timeout; }

  // Of a single server or a Sentinel's master; not for a cluster.
  const ConnectionFsm& fsm() const { return *single_; }
  bool is_ready() const { return router_->is_ready(); }

 private:
  class StoreCall;
  class LeaseCall;

  SharedStore& store() noexcept override { return *this; }

  // ---- SocketConnection::Observer
  void on_receive(Nanos now) override { now_ = now; }
  void on_disconnect() override { denials_.invalidate_all(); }

  // ---- CrossSlotQuery::PartSender
  void send_part(const StoreRequest& request, StoreCallback& callback, Nanos deadline) override;
  void on_complete(const StoreRequest& request, StoreResponse& response, StoreCallback& callback,
                   bool is_part) override;

  std::unique_ptr<SocketConnection> connect_to(const ServerAddress& address,
                                               const ConnectionOptions& options, LinkCounts& counts,
                                               const LogCallback& log, RedirectHandler* handler);
  std::unique_ptr<Router> make_router(std::uint64_t seed);
  std::unique_ptr<Router> single_server_router(const ConnectionOptions& connection);
  std::unique_ptr<Router> sentinel_router(const ConnectionOptions& connection);
  std::unique_ptr<Router> cluster_router(const ConnectionOptions& connection);

  void run(std::chrono::milliseconds longest);
  // Sends what is pending, and sets the timer.
  void finish_run();
  void run_maintenance();
  void send_heartbeat_if_due(Nanos now);
  void call(RedisCall& call, Nanos now, Nanos within);
  StoreCall& free_store_call();
  LeaseCall& free_lease_call();
  void note_server_time(const StoreResponse& response);
  void finish(StoreCall& call);

  const LinkOptions& options_;
  const std::shared_ptr<LinkCounts> shared_counts_;
  LinkCounts& counts_;
  LinkCounts sentinel_counts_;  // connections to Sentinels need counts; these are not reported
  net::Poller poller_;
  net::TimerFd timer_;
  std::optional<Heartbeat> heartbeat_;
  DenialCache denials_;
  ConnectionFsm* single_ =
      nullptr;  // of a single server or a Sentinel's master; null for a cluster
  std::unique_ptr<Router> router_;
  std::optional<CrossSlotQuery> cross_slot_;

  std::vector<std::unique_ptr<StoreCall>> store_calls_;
  std::vector<StoreCall*> free_store_calls_;
  std::vector<std::unique_ptr<LeaseCall>> lease_calls_;
  std::vector<LeaseCall*> free_lease_calls_;
  StoreResponse cached_;             // for a response from the denial cache
  bool cached_is_in_use_ = false;    // its callback is running, and may start requests
  Nanos now_{};                      // the time at which the current replies were received
  Instant server_time_at_zero_;      // the server's time at which monotonic_now() was zero
  Nanos maintenance_at_ = kForever;  // next call of the maintenance tasks
  Nanos due_at_ = kForever;          // the earliest on_due of the maintenance tasks
  bool running_ = false;
};

}  // namespace weir::store::redis
