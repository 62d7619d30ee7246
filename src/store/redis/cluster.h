#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/redis/counts.h"
#include "store/redis/slots.h"
#include "store/redis/way.h"

namespace weir::store::redis {

struct ClusterOptions {
  std::vector<Place> hosts{};  // of the address
  std::string name{};          // of all of it, for people
  Nanos timeout = std::chrono::milliseconds{50};
  Nanos refresh_every = std::chrono::seconds{10};
  Nanos refresh_pause = std::chrono::milliseconds{100};  // at least, between two
  Nanos most_pause = std::chrono::seconds{2};            // while nobody answers
  Nanos idle_for = std::chrono::seconds{10};             // then a node without slots is left
  std::uint64_t seed = 1;                                // of the jitter
};

// The nodes of a Redis Cluster: each call goes to the one that has its slot, and from there to
// where it is sent.
//
// The map of the slots is read from any node that answers, and applied whole: at the start, now and
// then, and whenever a node says or shows that it may be an old one. Calls wait for the first.
// A call is redirected five times at most, all within its own time. One whose node cannot be
// reached goes to another once, which may know where its slot is by now.
class Cluster final : public Way {
 public:
  // `counts` outlives it.
  Cluster(ClusterOptions options, LinkCounts& counts, Log log, MakePeer make_peer, Nanos now);
  ~Cluster() override;
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  void call(Call& call, Nanos now) override;
  void turn(Nanos now) override;
  void on_time(Nanos now) override;
  Nanos wake_at() const override;
  bool is_ready() const override { return has_map_; }
  bool is_mistaken() const override { return down_ && down_failure_ == Failure::misconfigured; }
  void end() override;

 private:
  class Node;
  class Question;

  // ---- Calls
  void send(Call& call, Nanos now);
  void pass(Node& node, Call& call, bool asking, Nanos now);
  void refuse(Call& call, Failure failure, std::string_view why);
  bool on_error(Node& node, Call& call, std::string_view error, Nanos now);
  void redirect(const Redirection& to, Call& call, Nanos now);
  bool on_unsent(const Node& node, Call& call, Nanos now);
  void fail_waiting(Failure failure, std::string_view why);

  // ---- The map
  void want_map(Nanos now);
  void begin_round(Nanos now);
  void ask_next(Nanos now);
  void go_on_asking(Nanos now);
  void on_map(Nanos now);
  void on_no_map(Failure failure, std::string_view why);
  void give_up_round(Nanos now);
  void apply(const SlotMap& map, Nanos now);

  // ---- Nodes
  Node& node_at(const Place& place);
  void ensure_peer(Node& node, Nanos now);
  void close_unused(Nanos now);
  Node* another_ready(const Node* than);
  Nanos jittered(Nanos longest);

  const ClusterOptions options_;
  LinkCounts& counts_;
  const Log log_;
  const MakePeer make_peer_;

  std::vector<std::unique_ptr<Node>> nodes_;  // their numbers stay
  std::vector<std::uint16_t> owners_;         // by slot, numbers of nodes
  std::size_t turn_ = 0;                      // of nodes, to be asked for something any can answer
  bool stirred_ = false;                      // something was passed on

  bool has_map_ = false;
  std::vector<Call*> waiting_;  // for the first map
  std::unique_ptr<Question> question_;
  std::vector<Node*> candidates_;  // to be asked in this round, the last one first
  Nanos map_at_{};                 // when one is wanted; kForever while one is asked for
  Nanos asked_at_{};               // the last time
  std::uint32_t failed_rounds_ = 0;
  bool down_ = false;  // nobody has answered the last time, because
  Failure down_failure_ = Failure::unavailable;
  std::string down_why_;
  bool ended_ = false;
  std::uint64_t random_;
};

}  // namespace weir::store::redis
