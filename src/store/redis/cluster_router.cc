#include "store/redis/cluster_router.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace weir::store::redis {

namespace {

constexpr std::uint8_t kMaxRedirections = 5;
constexpr std::string_view kNoAnswer = "no answer in time";

}  // namespace

// One node, with or without a connection.
class ClusterRouter::Node final : public RedirectHandler {
 public:
  Node(ClusterRouter& cluster, std::uint16_t own_index) : index(own_index), cluster_(cluster) {}

  bool on_error(RedisCall& call, std::string_view error, Nanos now) override {
    return cluster_.on_error(*this, call, error, now);
  }
  bool on_unsent(RedisCall& call, Nanos now) override {
    return cluster_.on_unsent(*this, call, now);
  }
  void on_connection_lost(Nanos now) override {
    if (serves) cluster_.request_map(now);
  }

  bool is_ready() const { return fsm != nullptr && fsm->is_ready(); }
  // True if nothing refers to the node any more: its entry can be reused.
  bool is_spare() const { return connection == nullptr && !serves && !is_in_map && !is_seed; }

  const std::uint16_t index;
  HostPort address{};
  bool is_seed = false;  // named in the URL
  bool is_in_map = false;
  bool serves = false;  // has hash slots
  Nanos used_at{};
  std::unique_ptr<ServerConnection> connection{};
  ConnectionFsm* fsm = nullptr;

 private:
  ClusterRouter& cluster_;
};

// CLUSTER SLOTS, sent to one node.
class ClusterRouter::SlotMapCall final : public RedisCall {
 public:
  explicit SlotMapCall(ClusterRouter& cluster) : cluster_(cluster) {}

  void append_command(std::string& out, bool) const override {
    constexpr std::array<std::string_view, 2> words{"CLUSTER", "SLOTS"};
    append_resp(out, words);
  }
  std::string_view key() const override { return {}; }
  ReplyResult on_reply(std::span<const wire::RespValue> reply) override {
    map = parse_slot_map(reply, asked->address.host);
    return ReplyResult::answered;
  }
  // The map is applied later, in `pump`: there all replies are read, and the time is known.
  void on_answered() override { stage = Stage::answered; }
  void on_failure(CallFailure failure, std::string_view why) override {
    cluster_.on_no_map(failure, asked->fsm->server() + ": " + std::string{why});
  }

  enum class Stage : std::uint8_t { none, asked, answered, failed };
  Stage stage = Stage::none;
  Node* asked = nullptr;
  std::optional<SlotMap> map{};

 private:
  ClusterRouter& cluster_;
};

ClusterRouter::ClusterRouter(ClusterOptions options, LinkCounts& counts, LogCallback log,
                             MakeServerConnection make_connection, Nanos now)
    : options_(std::move(options)),
      counts_(counts),
      log_(std::move(log)),
      make_connection_(std::move(make_connection)),
      owners_(kHashSlots, SlotMap::kUnassigned),
      map_call_(std::make_unique<SlotMapCall>(*this)),
      map_at_(now),
      asked_at_(now - options_.min_refresh_interval),
      random_(options_.seed) {
  for (const HostPort& host : options_.hosts) node_at(host).is_seed = true;
}

ClusterRouter::~ClusterRouter() { end(); }

void ClusterRouter::end() {
  if (std::exchange(ended_, true)) return;
  fail_waiting(CallFailure::unavailable, "this link is being closed");
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i]->fsm != nullptr) nodes_[i]->fsm->end();
  }
}

// ---- Calls

void ClusterRouter::call(RedisCall& call, Nanos now) {
  counts_.calls.add();
  if (ended_) return fail(call, CallFailure::unavailable, "this link is being closed");
  call.route.slot = hash_slot_of(call.key());
  if (has_map_) return send(call, now);
  if (down_) return fail(call, down_failure_, down_why_);
  waiting_.push_back(&call);
}

void ClusterRouter::send(RedisCall& call, Nanos now) {
  const std::uint16_t owner = owners_[call.route.slot];
  if (owner != SlotMap::kUnassigned) return pass(*nodes_[owner], call, false, now);
  request_map(now);
  fail(call, CallFailure::unavailable,
       "no node serves hash slot " + std::to_string(call.route.slot) + " at the moment");
}

void ClusterRouter::pass(Node& node, RedisCall& call, bool asking, Nanos now) {
  ensure_connection(node, now);
  node.used_at = now;
  has_passed_on_ = true;
  node.fsm->pass_on(call, asking, now);
}

void ClusterRouter::fail(RedisCall& call, CallFailure failure, std::string_view why) {
  failures_of(counts_, failure).add();
  call.route.failed_at = nullptr;
  call.on_failure(failure, why);
}

bool ClusterRouter::on_error(Node& node, RedisCall& call, std::string_view error, Nanos now) {
  if (ended_ || &call == map_call_.get()) return false;
  if (error.starts_with("TRYAGAIN")) return call.split_by_key(now);
  const bool is_moved = error.starts_with("MOVED ");
  if (is_moved || error.starts_with("CLUSTERDOWN") || error.starts_with("READONLY"))
    request_map(now);
  if (!is_moved && !error.starts_with("ASK ")) return false;
  const auto to = parse_redirection(error, node.address.host);
  if (!to || ++call.route.redirections > kMaxRedirections) {
    fail(call, CallFailure::unavailable,
         "its nodes do not agree on the owner of hash slot " + std::to_string(call.route.slot));
    return true;
  }
  redirect(*to, call, now);
  return true;
}

void ClusterRouter::redirect(const Redirection& to, RedisCall& call, Nanos now) {
  counts_.redirections.add();
  Node& node = node_at(to.to);
  if (!to.asks) {
    node.serves = true;
    owners_[to.slot] = node.index;
  }
  pass(node, call, to.asks, now);
}

bool ClusterRouter::on_unsent(const Node& node, RedisCall& call, Nanos now) {
  if (ended_ || &call == map_call_.get()) return false;
  request_map(now);
  if (std::exchange(call.route.was_rerouted, true)) return false;
  Node* const other = another_ready_node(&node);
  if (other == nullptr) return false;
  counts_.redirections.add();
  pass(*other, call, false, now);
  return true;
}

void ClusterRouter::fail_waiting(CallFailure failure, std::string_view why) {
  for (RedisCall* const call : std::exchange(waiting_, {})) fail(*call, failure, why);
}

// ---- The map

void ClusterRouter::request_map(Nanos now) {
  if (map_at_ == kForever || ended_) return;
  map_at_ = std::min(map_at_, std::max(now, asked_at_ + options_.min_refresh_interval));
}

// The order: connected nodes, then those of the URL, then all in the last map.
void ClusterRouter::begin_round(Nanos now) {
  map_at_ = kForever;
  asked_at_ = now;
  candidates_.clear();
  const auto add = [this](auto belongs) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Node* const node = nodes_[(round_robin_ + i) % nodes_.size()].get();
      const bool is_there = std::ranges::find(candidates_, node) != candidates_.end();
      if (!is_there && belongs(*node)) candidates_.push_back(node);
    }
  };
  add([](const Node& node) { return node.is_ready(); });
  add([](const Node& node) { return node.is_seed; });
  add([](const Node& node) { return node.is_in_map; });
  ++round_robin_;
  std::ranges::reverse(candidates_);
  down_failure_ = CallFailure::unavailable;
  down_why_.clear();
  ask_next(now);
}

void ClusterRouter::ask_next(Nanos now) {
  if (ended_) return;
  if (candidates_.empty()) return fail_round(now);
  Node& node = *candidates_.back();
  candidates_.pop_back();
  map_call_->asked = &node;
  map_call_->stage = SlotMapCall::Stage::asked;
  map_call_->route = {.began = now, .deadline = now + options_.timeout};
  pass(node, *map_call_, false, now);
}

void ClusterRouter::advance_round(Nanos now) {
  using Stage = SlotMapCall::Stage;
  if (now >= map_at_) begin_round(now);
  while (map_call_->stage == Stage::answered || map_call_->stage == Stage::failed) {
    const Stage stage = std::exchange(map_call_->stage, Stage::none);
    stage == Stage::answered ? on_map(now) : ask_next(now);
  }
}

void ClusterRouter::on_no_map(CallFailure failure, std::string_view why) {
  map_call_->stage = SlotMapCall::Stage::failed;
  if (down_why_.empty() || failure == CallFailure::misconfigured) {
    down_failure_ = failure;
    down_why_ = why;
  }
}

void ClusterRouter::fail_round(Nanos now) {
  ++failed_rounds_;
  const Nanos longest = std::min(
      options_.min_refresh_interval * (1 << std::min(failed_rounds_, 16u)), options_.max_back_off);
  map_at_ = std::max(now, asked_at_) + std::max(options_.min_refresh_interval, jittered(longest));
  if (has_map_) return;
  down_ = true;
  fail_waiting(down_failure_, down_why_);
}

void ClusterRouter::on_map(Nanos now) {
  const std::string& server = map_call_->asked->fsm->server();
  if (!map_call_->map) {
    return on_no_map(CallFailure::misconfigured,
                     server + ": its reply to CLUSTER SLOTS cannot be parsed");
  }
  if (map_call_->map->primaries == 0) {
    return on_no_map(CallFailure::unavailable,
                     server + ": it knows no node that serves hash slots");
  }
  counts_.maps.add();
  failed_rounds_ = 0;
  apply(*map_call_->map, now);
  map_at_ = now + options_.refresh_interval / 2 + jittered(options_.refresh_interval / 2);
  if (!has_map_ && log_) {
    log_(LinkLogLevel::info, options_.name + ": " + std::to_string(map_call_->map->primaries) +
                                 " nodes serve the hash slots");
  }
  has_map_ = true;
  down_ = false;
  for (RedisCall* const call : std::exchange(waiting_, {})) send(*call, now);
}

void ClusterRouter::apply(const SlotMap& map, Nanos now) {
  for (const auto& node : nodes_) node->serves = node->is_in_map = false;
  std::vector<std::uint16_t> indexes;
  for (const HostPort& address : map.nodes) {
    Node& node = node_at(address);
    node.is_in_map = true;
    node.serves = indexes.size() < map.primaries;
    indexes.push_back(node.index);
    if (node.serves) ensure_connection(node, now);
  }
  const auto index_of = [&](std::uint16_t owner) {
    return owner == SlotMap::kUnassigned ? owner : indexes[owner];
  };
  std::ranges::transform(map.owners, owners_.begin(), index_of);
}

// ---- Nodes

ClusterRouter::Node& ClusterRouter::node_at(const HostPort& address) {
  for (const auto& node : nodes_) {
    if (node->address == address) return *node;
  }
  const auto spare =
      std::ranges::find_if(nodes_, [](const auto& node) { return node->is_spare(); });
  if (spare != nodes_.end()) {
    (*spare)->address = address;
    return **spare;
  }
  const auto index = static_cast<std::uint16_t>(nodes_.size());
  Node& node = *nodes_.emplace_back(std::make_unique<Node>(*this, index));
  node.address = address;
  return node;
}

void ClusterRouter::ensure_connection(Node& node, Nanos now) {
  if (node.connection != nullptr) return;
  node.connection = make_connection_(node.address, node, now);
  node.fsm = &node.connection->fsm();
  node.used_at = now;
  has_passed_on_ = true;
}

// Keeps connections with pending calls.
void ClusterRouter::close_unused(Nanos now) {
  for (const auto& node : nodes_) {
    const bool is_used = node->serves || now - node->used_at < options_.idle_timeout;
    if (node->connection == nullptr || is_used || !node->fsm->is_idle()) continue;
    node->fsm = nullptr;
    node->connection.reset();
  }
}

ClusterRouter::Node* ClusterRouter::another_ready_node(const Node* excluded) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node* const node = nodes_[++round_robin_ % nodes_.size()].get();
    if (node != excluded && node->serves && node->is_ready()) return node;
  }
  return nullptr;
}

// ---- Time

void ClusterRouter::pump(Nanos now) {
  if (ended_) return;
  advance_round(now);
  close_unused(now);
  // A node may pass a call on to another one, which then has to be pumped again.
  int rounds = 0;
  do {
    has_passed_on_ = false;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i]->connection != nullptr) nodes_[i]->connection->pump();
    }
  } while (has_passed_on_ && ++rounds < kMaxRedirections);
}

void ClusterRouter::on_timer(Nanos now) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i]->connection != nullptr) nodes_[i]->connection->on_timer(now);
  }
  std::vector<RedisCall*> late;
  std::erase_if(waiting_, [&](RedisCall* call) {
    if (call->route.deadline > now) return false;
    late.push_back(call);
    return true;
  });
  for (RedisCall* const call : late) fail(*call, CallFailure::timed_out, kNoAnswer);
}

Nanos ClusterRouter::wake_at() const {
  Nanos earliest = map_at_;
  for (const auto& node : nodes_) {
    if (node->fsm != nullptr) earliest = std::min(earliest, node->fsm->wake_at());
  }
  for (const RedisCall* const call : waiting_) earliest = std::min(earliest, call->route.deadline);
  return earliest;
}

// Between half of `longest` and all of it, so that links do not refresh at the same time.
Nanos ClusterRouter::jittered(Nanos longest) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const auto half = static_cast<std::uint64_t>(std::max<std::int64_t>(longest.count() / 2, 1));
  return Nanos{static_cast<std::int64_t>(half + (random_ >> 16) % half)};
}

}  // namespace weir::store::redis
