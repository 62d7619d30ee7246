#include "store/redis/cluster.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace weir::store::redis {

namespace {

constexpr std::uint8_t kMostRedirections = 5;
constexpr std::string_view kNoAnswer = "no answer in time";

}  // namespace

// One node, which may have a connection.
class Cluster::Node final : public Guide {
 public:
  Node(Cluster& cluster, std::uint16_t own_number) : number(own_number), cluster_(cluster) {}

  bool on_error(Call& call, std::string_view error, Nanos now) override {
    return cluster_.on_error(*this, call, error, now);
  }
  bool on_unsent(Call& call, Nanos now) override { return cluster_.on_unsent(*this, call, now); }
  void on_trouble(Nanos now) override {
    if (serves) cluster_.want_map(now);
  }

  bool is_ready() const { return machine != nullptr && machine->is_ready(); }
  // Nobody knows of it any more.
  bool is_spare() const { return peer == nullptr && !serves && !is_known && !is_given; }

  const std::uint16_t number;
  Place place{};
  bool is_given = false;  // in the address
  bool is_known = false;  // by the map
  bool serves = false;    // has slots
  Nanos used_at{};
  std::unique_ptr<Peer> peer{};
  Machine* machine = nullptr;

 private:
  Cluster& cluster_;
};

// What the map is.
class Cluster::Question final : public Call {
 public:
  explicit Question(Cluster& cluster) : cluster_(cluster) {}

  void append_command(std::string& out, bool) const override {
    constexpr std::array<std::string_view, 2> words{"CLUSTER", "SLOTS"};
    append_words(out, words);
  }
  std::string_view key() const override { return {}; }
  Next on_reply(std::span<const wire::RespValue> reply) override {
    map = read_slots(reply, asked->place.host);
    return Next::answered;
  }
  // (What comes of it is seen to when all that has come is read, and the time is known.)
  void on_answered() override { state = State::answered; }
  void on_failure(Failure failure, std::string_view why) override {
    cluster_.on_no_map(failure, asked->machine->server() + ": " + std::string{why});
  }

  enum class State : std::uint8_t { none, asked, answered, failed };
  State state = State::none;
  Node* asked = nullptr;
  std::optional<SlotMap> map{};

 private:
  Cluster& cluster_;
};

Cluster::Cluster(ClusterOptions options, LinkCounts& counts, Log log, MakePeer make_peer, Nanos now)
    : options_(std::move(options)),
      counts_(counts),
      log_(std::move(log)),
      make_peer_(std::move(make_peer)),
      owners_(kSlots, SlotMap::kNobody),
      question_(std::make_unique<Question>(*this)),
      map_at_(now),
      asked_at_(now - options_.refresh_pause),
      random_(options_.seed) {
  for (const Place& host : options_.hosts) node_at(host).is_given = true;
}

Cluster::~Cluster() { end(); }

void Cluster::end() {
  if (std::exchange(ended_, true)) return;
  fail_waiting(Failure::unavailable, "this link ends");
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i]->machine != nullptr) nodes_[i]->machine->end();
  }
}

// ---- Calls

void Cluster::call(Call& call, Nanos now) {
  counts_.calls.add();
  if (ended_) return refuse(call, Failure::unavailable, "this link ends");
  call.trip.slot = slot_of(call.key());
  if (has_map_) return send(call, now);
  if (down_) return refuse(call, down_failure_, down_why_);
  waiting_.push_back(&call);
}

void Cluster::send(Call& call, Nanos now) {
  const std::uint16_t owner = owners_[call.trip.slot];
  if (owner != SlotMap::kNobody) return pass(*nodes_[owner], call, false, now);
  want_map(now);
  refuse(call, Failure::unavailable,
         "no node serves slot " + std::to_string(call.trip.slot) + " at the moment");
}

void Cluster::pass(Node& node, Call& call, bool asking, Nanos now) {
  ensure_peer(node, now);
  node.used_at = now;
  stirred_ = true;
  node.machine->pass_on(call, asking, now);
}

void Cluster::refuse(Call& call, Failure failure, std::string_view why) {
  failures_of(counts_, failure).add();
  call.trip.by = nullptr;
  call.on_failure(failure, why);
}

bool Cluster::on_error(Node& node, Call& call, std::string_view error, Nanos now) {
  if (ended_ || &call == question_.get()) return false;
  if (error.starts_with("TRYAGAIN")) return call.take_apart(now);
  const bool is_moved = error.starts_with("MOVED ");
  if (is_moved || error.starts_with("CLUSTERDOWN") || error.starts_with("READONLY")) want_map(now);
  if (!is_moved && !error.starts_with("ASK ")) return false;
  const auto to = read_redirection(error, node.place.host);
  if (!to || ++call.trip.redirections > kMostRedirections) {
    refuse(call, Failure::unavailable,
           "its nodes do not agree on who has slot " + std::to_string(call.trip.slot));
    return true;
  }
  redirect(*to, call, now);
  return true;
}

void Cluster::redirect(const Redirection& to, Call& call, Nanos now) {
  counts_.redirections.add();
  Node& node = node_at(to.to);
  if (!to.asks) {
    node.serves = true;
    owners_[to.slot] = node.number;
  }
  pass(node, call, to.asks, now);
}

bool Cluster::on_unsent(const Node& node, Call& call, Nanos now) {
  if (ended_ || &call == question_.get()) return false;
  want_map(now);
  if (std::exchange(call.trip.went_elsewhere, true)) return false;
  Node* const other = another_ready(&node);
  if (other == nullptr) return false;
  counts_.redirections.add();
  pass(*other, call, false, now);
  return true;
}

void Cluster::fail_waiting(Failure failure, std::string_view why) {
  for (Call* const call : std::exchange(waiting_, {})) refuse(*call, failure, why);
}

// ---- The map

void Cluster::want_map(Nanos now) {
  if (map_at_ == kForever || ended_) return;
  map_at_ = std::min(map_at_, std::max(now, asked_at_ + options_.refresh_pause));
}

// Whoever is connected is asked first, then who is in the address, then all that are known.
void Cluster::begin_round(Nanos now) {
  map_at_ = kForever;
  asked_at_ = now;
  candidates_.clear();
  const auto add = [this](auto belongs) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Node* const node = nodes_[(turn_ + i) % nodes_.size()].get();
      const bool is_there = std::ranges::find(candidates_, node) != candidates_.end();
      if (!is_there && belongs(*node)) candidates_.push_back(node);
    }
  };
  add([](const Node& node) { return node.is_ready(); });
  add([](const Node& node) { return node.is_given; });
  add([](const Node& node) { return node.is_known; });
  ++turn_;
  std::ranges::reverse(candidates_);
  down_failure_ = Failure::unavailable;
  down_why_.clear();
  ask_next(now);
}

void Cluster::ask_next(Nanos now) {
  if (ended_) return;
  if (candidates_.empty()) return give_up_round(now);
  Node& node = *candidates_.back();
  candidates_.pop_back();
  question_->asked = &node;
  question_->state = Question::State::asked;
  question_->trip = {.began = now, .deadline = now + options_.timeout};
  pass(node, *question_, false, now);
}

void Cluster::go_on_asking(Nanos now) {
  using State = Question::State;
  if (now >= map_at_) begin_round(now);
  while (question_->state == State::answered || question_->state == State::failed) {
    const State state = std::exchange(question_->state, State::none);
    state == State::answered ? on_map(now) : ask_next(now);
  }
}

void Cluster::on_no_map(Failure failure, std::string_view why) {
  question_->state = Question::State::failed;
  if (down_why_.empty() || failure == Failure::misconfigured) {
    down_failure_ = failure;
    down_why_ = why;
  }
}

void Cluster::give_up_round(Nanos now) {
  ++failed_rounds_;
  const Nanos longest =
      std::min(options_.refresh_pause * (1 << std::min(failed_rounds_, 16u)), options_.most_pause);
  map_at_ = std::max(now, asked_at_) + std::max(options_.refresh_pause, jittered(longest));
  if (has_map_) return;
  down_ = true;
  fail_waiting(down_failure_, down_why_);
}

void Cluster::on_map(Nanos now) {
  const std::string& server = question_->asked->machine->server();
  if (!question_->map) {
    return on_no_map(Failure::misconfigured, server + ": its map of slots is not understood");
  }
  if (question_->map->primaries == 0) {
    return on_no_map(Failure::unavailable, server + ": it knows of no node that serves slots");
  }
  counts_.maps.add();
  failed_rounds_ = 0;
  apply(*question_->map, now);
  map_at_ = now + options_.refresh_every / 2 + jittered(options_.refresh_every / 2);
  if (!has_map_ && log_) {
    log_(LogLevel::info, options_.name + ": " + std::to_string(question_->map->primaries) +
                             " nodes share the slots");
  }
  has_map_ = true;
  down_ = false;
  for (Call* const call : std::exchange(waiting_, {})) send(*call, now);
}

void Cluster::apply(const SlotMap& map, Nanos now) {
  for (const auto& node : nodes_) node->serves = node->is_known = false;
  std::vector<std::uint16_t> numbers;
  for (const Place& place : map.nodes) {
    Node& node = node_at(place);
    node.is_known = true;
    node.serves = numbers.size() < map.primaries;
    numbers.push_back(node.number);
    if (node.serves) ensure_peer(node, now);
  }
  const auto number_of = [&](std::uint16_t owner) {
    return owner == SlotMap::kNobody ? owner : numbers[owner];
  };
  std::ranges::transform(map.owners, owners_.begin(), number_of);
}

// ---- Nodes

Cluster::Node& Cluster::node_at(const Place& place) {
  for (const auto& node : nodes_) {
    if (node->place == place) return *node;
  }
  const auto spare =
      std::ranges::find_if(nodes_, [](const auto& node) { return node->is_spare(); });
  if (spare != nodes_.end()) {
    (*spare)->place = place;
    return **spare;
  }
  const auto number = static_cast<std::uint16_t>(nodes_.size());
  Node& node = *nodes_.emplace_back(std::make_unique<Node>(*this, number));
  node.place = place;
  return node;
}

void Cluster::ensure_peer(Node& node, Nanos now) {
  if (node.peer != nullptr) return;
  node.peer = make_peer_(node.place, node, now);
  node.machine = &node.peer->machine();
  node.used_at = now;
  stirred_ = true;
}

// (Not while somebody on it is being told something.)
void Cluster::close_unused(Nanos now) {
  for (const auto& node : nodes_) {
    const bool is_used = node->serves || now - node->used_at < options_.idle_for;
    if (node->peer == nullptr || is_used || !node->machine->is_idle()) continue;
    node->machine = nullptr;
    node->peer.reset();
  }
}

Cluster::Node* Cluster::another_ready(const Node* than) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node* const node = nodes_[++turn_ % nodes_.size()].get();
    if (node != than && node->serves && node->is_ready()) return node;
  }
  return nullptr;
}

// ---- Time

void Cluster::turn(Nanos now) {
  if (ended_) return;
  go_on_asking(now);
  close_unused(now);
  // What one has left undone another may have to do.
  int rounds = 0;
  do {
    stirred_ = false;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i]->peer != nullptr) nodes_[i]->peer->turn();
    }
  } while (stirred_ && ++rounds < kMostRedirections);
}

void Cluster::on_time(Nanos now) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i]->peer != nullptr) nodes_[i]->peer->on_time(now);
  }
  std::vector<Call*> late;
  std::erase_if(waiting_, [&](Call* call) {
    if (call->trip.deadline > now) return false;
    late.push_back(call);
    return true;
  });
  for (Call* const call : late) refuse(*call, Failure::timed_out, kNoAnswer);
}

Nanos Cluster::wake_at() const {
  Nanos earliest = map_at_;
  for (const auto& node : nodes_) {
    if (node->machine != nullptr) earliest = std::min(earliest, node->machine->wake_at());
  }
  for (const Call* const call : waiting_) earliest = std::min(earliest, call->trip.deadline);
  return earliest;
}

// Between half of it and all of it, so that links do not ask all at once.
Nanos Cluster::jittered(Nanos longest) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const auto half = static_cast<std::uint64_t>(std::max<std::int64_t>(longest.count() / 2, 1));
  return Nanos{static_cast<std::int64_t>(half + (random_ >> 16) % half)};
}

}  // namespace weir::store::redis
