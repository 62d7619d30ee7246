#include "store/redis/link.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/saturating.h"
#include "store/redis/cluster_router.h"
#include "store/redis/monotonic_now.h"
#include "store/redis/sentinel_router.h"

namespace weir::store::redis {

namespace {

// Room for the longest reply, a slot map in which each hash slot is a range of its own.
constexpr wire::RespReplyBounds kSlotMapReplyRoom{.values = 1 << 18, .bytes = 16 << 20};

}  // namespace

// A store request in flight, with its codec and its callback.
class RedisLink::StoreCall final : public RedisCall {
 public:
  StoreCall(RedisLink& link, std::unique_ptr<RequestCodec> codec)
      : link_(link), codec_(std::move(codec)) {}

  // `part`: the request is a part of one with several hash slots.
  void start(const StoreRequest& started, StoreCallback& owner, bool part, Instant server_time) {
    request = &started;
    callback = &owner;
    is_part = part;
    codec_->start(started, server_time);
  }

  void append_command(std::string& out, bool with_source) const override {
    codec_->append_command(out, with_source);
  }
  std::string_view key() const override { return request->items.front().key; }
  ReplyResult on_reply(std::span<const wire::RespValue> reply) override {
    return codec_->on_reply(reply, response);
  }
  void on_answered() override {
    if (response.kind != StoreResponse::Kind::decided) {
      const bool is_misconfigured = response.kind == StoreResponse::Kind::misconfigured;
      (is_misconfigured ? link_.counts_.misconfigured : link_.counts_.unavailable).add();
    }
    link_.note_server_time(response);
    link_.finish(*this);
  }
  void on_failure(CallFailure failure, std::string_view why) override {
    response.kind = failure == CallFailure::misconfigured ? StoreResponse::Kind::misconfigured
                                                          : StoreResponse::Kind::unavailable;
    response.error.assign(route.failed_at != nullptr ? *route.failed_at
                                                     : link_.options_.connection.server);
    response.error.append(": ").append(why);
    response.decisions.clear();
    response.receipts.clear();
    response.left = false;
    response.held = 0;
    link_.finish(*this);
  }
  bool split_by_key(Nanos) override {
    if (request->items.size() < 2) return false;
    link_.cross_slot_->ask_each_key(*request, *callback, route.deadline, is_part);
    link_.free_store_calls_.push_back(this);
    return true;
  }

  const StoreRequest* request = nullptr;
  StoreCallback* callback = nullptr;
  bool is_part = false;
  StoreResponse response{};

 private:
  RedisLink& link_;
  const std::unique_ptr<RequestCodec> codec_;
};

// A lease request in flight.
class RedisLink::LeaseCall final : public RedisCall {
 public:
  explicit LeaseCall(RedisLink& link) : link_(link) {}

  // False if the request has already failed.
  bool start(const LeaseRequest& started, LeaseCallback& owner, Instant server_time) {
    callback_ = &owner;
    key_ = started.key;
    response_ = {};
    if (codec_.start(started, {.now = server_time}, response_)) return true;
    link_.counts_.misconfigured.add();
    finish();
    return false;
  }

  void append_command(std::string& out, bool with_source) const override {
    codec_.append_command(out, with_source);
  }
  std::string_view key() const override { return key_; }
  ReplyResult on_reply(std::span<const wire::RespValue> reply) override {
    return codec_.on_reply(reply, response_);
  }
  void on_answered() override {
    if (response_.kind == StoreResponse::Kind::decided) {
      link_.server_time_at_zero_ = response_.now - link_.now_;
    } else {
      const bool is_misconfigured = response_.kind == StoreResponse::Kind::misconfigured;
      (is_misconfigured ? link_.counts_.misconfigured : link_.counts_.unavailable).add();
    }
    finish();
  }
  void on_failure(CallFailure failure, std::string_view why) override {
    response_ = {};
    response_.kind = failure == CallFailure::misconfigured ? StoreResponse::Kind::misconfigured
                                                           : StoreResponse::Kind::unavailable;
    response_.error.assign(route.failed_at != nullptr ? *route.failed_at
                                                      : link_.options_.connection.server);
    response_.error.append(": ").append(why);
    finish();
  }

 private:
  void finish() {
    callback_->on_lease(response_);
    link_.free_lease_calls_.push_back(this);
  }

  RedisLink& link_;
  std::string_view key_{};
  LeaseScript codec_;
  LeaseCallback* callback_ = nullptr;
  LeaseResponse response_{};
};

RedisLink::RedisLink(const LinkOptions& options, std::shared_ptr<LinkCounts> counts,
                     std::uint64_t seed)
    : options_(options),
      shared_counts_(std::move(counts)),
      counts_(*shared_counts_),
      timer_(poller_),
      denials_(seed),
      router_(make_router(seed)),
      server_time_at_zero_(std::chrono::system_clock::now() - monotonic_now()) {
  if (options.membership != nullptr) heartbeat_.emplace(*options.membership);
  if (options.topology == LinkOptions::Topology::cluster) {
    CrossSlotQuery::PartSender& sender = *this;
    cross_slot_.emplace(sender, counts_);
  }
  finish_run();
}

RedisLink::~RedisLink() {
  running_ = true;  // keeps `flush` from sending in callbacks
  router_->end();
}

// ---- Routers

std::unique_ptr<SocketConnection> RedisLink::connect_to(const ServerAddress& address,
                                                        const ConnectionOptions& options,
                                                        LinkCounts& counts, const LogCallback& log,
                                                        RedirectHandler* handler) {
  SocketConnection::Observer& observer = *this;
  return std::make_unique<SocketConnection>(poller_, options, address, counts, log, observer,
                                            handler);
}

std::unique_ptr<Router> RedisLink::make_router(std::uint64_t seed) {
  ConnectionOptions connection = options_.connection;
  connection.seed = seed;
  switch (options_.topology) {
    case LinkOptions::Topology::single_server:
      break;
    case LinkOptions::Topology::sentinels:
      return sentinel_router(connection);
    case LinkOptions::Topology::cluster:
      return cluster_router(connection);
  }
  return single_server_router(connection);
}

std::unique_ptr<Router> RedisLink::single_server_router(const ConnectionOptions& connection) {
  auto channel = connect_to(options_.address, connection, counts_, options_.log, nullptr);
  single_ = &channel->fsm();
  return std::make_unique<SingleServer>(std::move(channel));
}

std::unique_ptr<Router> RedisLink::sentinel_router(const ConnectionOptions& connection) {
  ConnectionOptions master_options = connection;
  master_options.login.to_master = true;
  // Includes the time in which Sentinels are asked for the master's address.
  master_options.connect_timeout += kSentinelTimeout * static_cast<int>(options_.hosts.size());
  auto channel = connect_to(options_.address, master_options, counts_, options_.log, nullptr);
  single_ = &channel->fsm();

  ConnectionOptions sentinel_options = connection;
  sentinel_options.timeout = sentinel_options.connect_timeout = kSentinelTimeout;
  sentinel_options.login.database = 0;
  sentinel_options.login.version.clear();
  sentinel_options.login.only_if_demanded = true;
  const auto sentinel_at = [this, sentinel_options](const HostPort& server,
                                                    RedirectHandler& handler, Nanos) mutable {
    ServerAddress address = options_.address;
    address.host = server.host;
    address.port = server.port;
    sentinel_options.server = address.shown();
    return connect_to(address, sentinel_options, sentinel_counts_, {}, &handler);
  };
  return std::make_unique<SentinelRouter>(
      SentinelOptions{.hosts = options_.hosts, .master = options_.master}, sentinel_at,
      std::move(channel));
}

std::unique_ptr<Router> RedisLink::cluster_router(const ConnectionOptions& connection) {
  ConnectionOptions node_options = connection;
  node_options.reply_room = kSlotMapReplyRoom;
  const auto node_at = [this, node_options](const HostPort& server, RedirectHandler& handler,
                                            Nanos) mutable {
    ServerAddress address = options_.address;
    address.host = server.host;
    address.port = server.port;
    node_options.server = address.shown();
    node_options.seed += 1;
    return connect_to(address, node_options, counts_, options_.log, &handler);
  };
  return std::make_unique<ClusterRouter>(ClusterOptions{.hosts = options_.hosts,
                                                        .name = connection.server,
                                                        .timeout = connection.timeout,
                                                        .seed = connection.seed},
                                         counts_, options_.log, node_at, monotonic_now());
}

// ---- Requests

void RedisLink::ask(const StoreRequest& request, StoreCallback& callback) {
  const Nanos now = monotonic_now();
  denials_.invalidate(request);
  if (options_.caches_denials && !cached_is_in_use_ && denials_.lookup(request, now, cached_)) {
    counts_.refused_by_cache.add();
    cached_is_in_use_ = true;
    callback.on_response(cached_);
    cached_is_in_use_ = false;
    return;
  }
  const Nanos within = std::min(request.within.value_or(timeout()), timeout());
  if (cross_slot_ && CrossSlotQuery::is_needed(request)) {
    return cross_slot_->ask(request, callback, now + within);
  }
  StoreCall& store_call = free_store_call();
  store_call.start(request, callback, false, server_time_at_zero_ + now);
  call(store_call, now, within);
}

void RedisLink::call(RedisCall& call, Nanos now, Nanos within) {
  if (single_ != nullptr) return single_->call(call, now, within);
  call.route = {.began = now, .deadline = now + within};
  router_->call(call, now);
}

void RedisLink::send_part(const StoreRequest& request, StoreCallback& callback, Nanos deadline) {
  const Nanos now = monotonic_now();
  StoreCall& store_call = free_store_call();
  store_call.start(request, callback, true, server_time_at_zero_ + now);
  store_call.route = {.began = now, .deadline = deadline > Nanos{0} ? deadline : now + timeout()};
  router_->call(store_call, now);
}

void RedisLink::request_lease(const LeaseRequest& request, LeaseCallback& callback) {
  const Nanos now = monotonic_now();
  LeaseCall& lease = free_lease_call();
  if (lease.start(request, callback, server_time_at_zero_ + now)) call(lease, now, timeout());
}

RedisLink::LeaseCall& RedisLink::free_lease_call() {
  if (free_lease_calls_.empty()) {
    lease_calls_.push_back(std::make_unique<LeaseCall>(*this));
    free_lease_calls_.reserve(lease_calls_.capacity());
    return *lease_calls_.back();
  }
  LeaseCall& lease = *free_lease_calls_.back();
  free_lease_calls_.pop_back();
  return lease;
}

RedisLink::StoreCall& RedisLink::free_store_call() {
  if (free_store_calls_.empty()) {
    store_calls_.push_back(std::make_unique<StoreCall>(*this, options_.make_codec()));
    free_store_calls_.reserve(store_calls_.capacity());
    return *store_calls_.back();
  }
  StoreCall& call = *free_store_calls_.back();
  free_store_calls_.pop_back();
  return call;
}

// Updates the estimate of the server's clock.
void RedisLink::note_server_time(const StoreResponse& response) {
  if (response.kind == StoreResponse::Kind::decided) server_time_at_zero_ = response.now - now_;
}

// The callback runs before the call is freed: a request that it starts needs another call.
void RedisLink::finish(StoreCall& call) {
  on_complete(*call.request, call.response, *call.callback, call.is_part);
  free_store_calls_.push_back(&call);
}

void RedisLink::on_complete(const StoreRequest& request, StoreResponse& response,
                            StoreCallback& callback, bool is_part) {
  if (options_.caches_denials && !is_part) {
    // Denials of before this request, whose replies came after it was sent.
    denials_.invalidate(request);
    denials_.insert(request, response, now_);
  }
  callback.on_response(response);
}

// ---- Running

void RedisLink::run_ready() { run(std::chrono::milliseconds{0}); }

void RedisLink::wait(Nanos longest) {
  if (running_) return;
  flush();
  run(std::chrono::ceil<std::chrono::milliseconds>(
      std::clamp(longest, Nanos{0}, Nanos{std::chrono::hours{1}})));
}

void RedisLink::run(std::chrono::milliseconds longest) {
  if (running_) return;
  running_ = true;
  poller_.wait(longest);
  router_->on_timer(monotonic_now());
  run_maintenance();
  running_ = false;
  finish_run();
}

void RedisLink::run_maintenance() {
  const Nanos now = monotonic_now();
  if (now >= due_at_) {
    for (const AttachedTask& one : tasks) one.task->on_due();
  }
  if (now < maintenance_at_) return;
  maintenance_at_ = kForever;
  for (const AttachedTask& one : tasks) one.task->run_maintenance();
}

void RedisLink::flush() {
  if (!running_) finish_run();
}

void RedisLink::finish_run() {
  running_ = true;
  const Nanos now = monotonic_now();
  send_heartbeat_if_due(now);
  router_->pump(now);
  bool has_work = false;
  due_at_ = kForever;
  for (const AttachedTask& one : tasks) {
    has_work |= one.task->has_work();
    due_at_ = std::min(due_at_, Nanos{sat_add(now.count(), one.task->due_in().count())});
  }
  if (has_work && maintenance_at_ == kForever) maintenance_at_ = now + kMaintenanceInterval;
  const Nanos heartbeat_at = heartbeat_ && router_->is_ready() ? heartbeat_->due_at(now) : kForever;
  timer_.wake_at(std::min({router_->wake_at(), heartbeat_at, maintenance_at_, due_at_}));
  running_ = false;
}

void RedisLink::send_heartbeat_if_due(Nanos now) {
  if (!heartbeat_) return;
  if (router_->is_misconfigured()) options_.membership->on_misconfigured();
  if (router_->is_ready() && heartbeat_->is_due()) call(*heartbeat_, now, timeout());
}

}  // namespace weir::store::redis
