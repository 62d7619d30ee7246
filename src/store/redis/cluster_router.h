#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/redis/hash_slots.h"
#include "store/redis/link_counts.h"
#include "store/redis/router.h"

namespace weir::store::redis {

struct ClusterOptions {
  std::vector<HostPort> hosts{};  // from the URL
  std::string name{};             // the URL, for messages
  Nanos timeout = std::chrono::milliseconds{50};
  Nanos refresh_interval = std::chrono::seconds{10};
  Nanos min_refresh_interval = std::chrono::milliseconds{100};
  Nanos max_back_off = std::chrono::seconds{2};   // between refreshes while no node answers
  Nanos idle_timeout = std::chrono::seconds{10};  // of a connection to a node without slots
  std::uint64_t seed = 1;                         // of the jitter
};

// Routes calls in a Redis Cluster: to the node that serves the hash slot, and on to others by MOVED
// and ASK.
//
// The slot map is read from any node that answers, and replaced as a whole: at the start, at
// intervals, and when a redirection or a failure suggests that it is outdated. Calls wait for the
// first map. A call follows at most five redirections, within its deadline. If its node is
// unreachable, the call is sent to another node once, which may know the new owner of the hash
// slot.
class ClusterRouter final : public Router {
 public:
  // `counts` outlives it.
  ClusterRouter(ClusterOptions options, LinkCounts& counts, LogCallback log,
                MakeServerConnection make_connection, Nanos now);
  ~ClusterRouter() override;
  ClusterRouter(const ClusterRouter&) = delete;
  ClusterRouter& operator=(const ClusterRouter&) = delete;

  void call(RedisCall& call, Nanos now) override;
  void pump(Nanos now) override;
  void on_timer(Nanos now) override;
  Nanos wake_at() const override;
  bool is_ready() const override { return has_map_; }
  bool is_misconfigured() const override {
    return down_ && down_failure_ == CallFailure::misconfigured;
  }
  void end() override;

 private:
  class Node;
  class SlotMapCall;

  // ---- Calls
  void send(RedisCall& call, Nanos now);
  void pass(Node& node, RedisCall& call, bool asking, Nanos now);
  void fail(RedisCall& call, CallFailure failure, std::string_view why);
  bool on_error(Node& node, RedisCall& call, std::string_view error, Nanos now);
  void redirect(const Redirection& to, RedisCall& call, Nanos now);
  bool on_unsent(const Node& node, RedisCall& call, Nanos now);
  void fail_waiting(CallFailure failure, std::string_view why);

  // ---- The slot map
  void request_map(Nanos now);
  void begin_round(Nanos now);
  void ask_next(Nanos now);
  void advance_round(Nanos now);
  void on_map(Nanos now);
  void on_no_map(CallFailure failure, std::string_view why);
  void fail_round(Nanos now);
  void apply(const SlotMap& map, Nanos now);

  // ---- Nodes
  Node& node_at(const HostPort& address);
  void ensure_connection(Node& node, Nanos now);
  void close_unused(Nanos now);
  Node* another_ready_node(const Node* excluded);
  Nanos jittered(Nanos longest);

  const ClusterOptions options_;
  LinkCounts& counts_;
  const LogCallback log_;
  const MakeServerConnection make_connection_;

  std::vector<std::unique_ptr<Node>> nodes_;  // indexes are stable
  std::vector<std::uint16_t> owners_;         // by hash slot: indexes of nodes
  std::size_t round_robin_ = 0;               // for requests that any node can answer
  bool has_passed_on_ = false;                // a node got a call since this was reset

  bool has_map_ = false;
  std::vector<RedisCall*> waiting_;  // for the first map
  std::unique_ptr<SlotMapCall> map_call_;
  std::vector<Node*> candidates_;  // nodes to ask in this round, in reverse order
  Nanos map_at_{};                 // time of the next round; kForever during a round
  Nanos asked_at_{};               // start of the last round
  std::uint32_t failed_rounds_ = 0;
  bool down_ = false;  // no node answered in the last round, for this reason:
  CallFailure down_failure_ = CallFailure::unavailable;
  std::string down_why_;
  bool ended_ = false;
  std::uint64_t random_;
};

}  // namespace weir::store::redis
