// Limits that are split among nodes. Nodes start, stop, die, are cut off or receive messages late;
// all of them together admit no more than one node would. The membership list is that of the real
// script.

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "property.h"
#include "releases.h"
#include "store/redis/membership.h"
#include "support/redis_connection.h"
#include "support/redis_server.h"
#include "weir/engine.h"

namespace weir::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using store::redis::MembershipReply;
using store::redis::MembershipView;
using test_support::RedisConnection;
using test_support::RedisServer;

constexpr std::string_view kKey = "weir1:test:{nodes}:members";
constexpr std::int64_t kFirstSecond = 1'767'225'600;

// The clock shared by all nodes.
class OneClock final : public Clock {
 public:
  Instant now() const noexcept override { return instant(kFirstSecond * 1'000'000'000) + passed; }
  bool sleep_until(Instant, std::stop_token) const override { return false; }

  Nanos passed{0};
};

class Node final : public Fleet {
 public:
  Node(std::string id, const OneClock& clock, const PolicySet& policies)
      : roster(std::move(id), "a node"),
        clock_(clock),
        engine(policies,
               {.memory = {.bytes = std::size_t{1} << 18}, .clock = &clock, .fleet = this}) {}

  std::unique_ptr<Link> connect() override { return nullptr; }
  bool is_member() const noexcept override { return roster.is_member(clock_.passed); }
  std::uint64_t membership_version() const noexcept override { return roster.version(); }
  Membership membership(std::uint64_t since) const override {
    return roster.since(since, clock_.passed);
  }

  MembershipView roster;
  bool is_cut_off = false;  // true: none of its messages arrives
  bool is_deaf = false;     // true: no message to it arrives

 private:
  const OneClock& clock_;

 public:
  Engine engine;
};

struct Act {
  enum class Op {
    turn,     // 200 ms pass, and every node sends a heartbeat
    pass,     // some time passes
    call,     // some calls
    start,    // a node starts
    die,      // a node dies
    bye,      // a node leaves
    cut,      // a node is cut off, or connected again
    deafen,   // a node becomes deaf, or hears again
    late,     // a message whose answer is held back
    deliver,  // such an answer arrives
    lose,     // the store loses all data
  };
  Op op = Op::turn;
  unsigned who = 0;
  int number = 0;
};

std::ostream& operator<<(std::ostream& out, const Act& act) {
  static constexpr const char* ops[] = {"turn", "pass", "call", "start",   "die", "bye",
                                        "cut",  "deaf", "late", "deliver", "lose"};
  return out << ops[static_cast<int>(act.op)] << ' ' << act.who << ' ' << act.number;
}

rc::Gen<std::vector<Act>> acts(bool with_losses) {
  using Op = Act::Op;
  const auto one = rc::gen::build<Act>(
      rc::gen::set(&Act::op, rc::gen::weightedElement<Op>({{24, Op::turn},
                                                           {8, Op::pass},
                                                           {24, Op::call},
                                                           {6, Op::start},
                                                           {2, Op::die},
                                                           {2, Op::bye},
                                                           {4, Op::cut},
                                                           {2, Op::deafen},
                                                           {3, Op::late},
                                                           {3, Op::deliver},
                                                           {with_losses ? 1u : 0u, Op::lose}})),
      rc::gen::set(&Act::who, rc::gen::inRange(0u, 8u)),
      rc::gen::set(&Act::number, rc::gen::inRange(1, 40)));
  return rc::gen::resize(200, rc::gen::container<std::vector<Act>>(one));
}

// Nodes that share a store, under one policy.
class Nodes {
 public:
  explicit Nodes(const std::string& limit)
      : policies_(*PolicySet::parse("policies: { p: { limits: [ { limit: " + limit +
                                    ", scope: split } ], on_store_failure: closed } }")) {
    connection_.say({"DEL", kKey});
    for (int i = 0; i < 2; ++i) start();
    // (No node has a share in the first two seconds.)
    for (int i = 0; i < 12; ++i) turn();
  }

  void start() {
    if (nodes_.size() >= 6) return;
    nodes_.push_back(std::make_unique<Node>(std::to_string(++started_), clock_, policies_));
  }

  void act(const Act& act) {
    using Op = Act::Op;
    if (act.op == Op::start) return start();
    if (act.op == Op::turn) return turn();
    if (act.op == Op::pass) {
      clock_.passed += milliseconds{act.number * 17};
      return;
    }
    if (act.op == Op::lose) {
      connection_.say({"DEL", kKey});
      return;
    }
    if (nodes_.empty()) return;
    const std::size_t which = act.who % nodes_.size();
    Node& node = *nodes_[which];
    switch (act.op) {
      case Op::call:
        for (int i = 0; i < act.number; ++i) call(node);
        return;
      case Op::bye:
        node.roster.leave();
        (void)say(node);
        [[fallthrough]];
      case Op::die:
        late_.erase(&node);
        nodes_.erase(nodes_.begin() + static_cast<long>(which));
        return;
      case Op::cut:
        node.is_cut_off = !node.is_cut_off;
        return;
      case Op::deafen:
        node.is_deaf = !node.is_deaf;
        return;
      case Op::late:
        if (auto reply = say(node)) late_[&node].push_back({*std::move(reply), clock_.passed});
        return;
      default:
        return deliver(node);
    }
  }

  void turn() {
    clock_.passed += milliseconds{200};
    for (const auto& node : nodes_) {
      if (node->is_cut_off) continue;
      const auto reply = say(*node);
      if (reply && !node->is_deaf) node->roster.on_reply(*reply, clock_.passed, clock_.passed);
    }
  }

  void heal() {
    for (const auto& node : nodes_) node->is_cut_off = node->is_deaf = false;
    late_.clear();
  }

  // The sum of the shares of all members, and the whole limit.
  LimitShare used() {
    LimitShare all;
    for (const auto& node : nodes_) {
      const SplitLimit limit = node->engine.split_limits().at(0);
      all.whole = limit.share.whole;
      if (node->is_member()) all.part += limit.share.part;
    }
    return all;
  }

  std::size_t size() const { return nodes_.size(); }
  const std::vector<Release>& admitted() const { return admitted_; }

 private:
  struct LateAnswer {
    MembershipReply reply;
    Nanos sent;
  };

  void call(Node& node) {
    if (node.engine.take({.policy = "p", .key = "k"})) {
      admitted_.push_back({clock_.now(), 1, false});
    }
  }

  std::optional<MembershipReply> say(const Node& node) {
    std::string command;
    const std::int64_t micros = clock_.passed.count() / 1000;
    append_heartbeat(command, true, kKey, node.roster,
                     std::to_string(kFirstSecond + micros / 1'000'000) + ' ' +
                         std::to_string(micros % 1'000'000 * 1000) + " 1");
    return store::redis::parse_membership_reply(connection_.ask(command));
  }

  // The last message first: messages take different routes.
  void deliver(Node& node) {
    auto& waiting = late_[&node];
    if (waiting.empty()) return;
    node.roster.on_reply(waiting.back().reply, waiting.back().sent, clock_.passed);
    waiting.pop_back();
  }

  const PolicySet policies_;
  OneClock clock_;
  RedisConnection connection_{RedisServer::shared().socket()};
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<const Node*, std::vector<LateAnswer>> late_;
  std::vector<Release> admitted_;
  int started_ = 0;
};

constexpr int kCases = 150;

// ---- Shares

TEST(Split, NeverGivesOutMoreThanTheLimit) {
  check(
      [] {
        const std::string limit = *rc::gen::element<std::string>(
            "10/s burst 7", "3/s", "9/s window", "5/2s sliding exact");
        Nodes nodes(limit);
        for (const Act& act : *acts(true)) {
          nodes.act(act);
          const LimitShare used = nodes.used();
          RC_ASSERT(used.part <= used.whole);
        }
      },
      kCases);
}

TEST(Split, GivesOutTheWholeLimitInTheEnd) {
  check(
      [] {
        const std::string limit = *rc::gen::element<std::string>(
            "10/s burst 7", "3/s", "9/s window", "5/2s sliding exact");
        Nodes nodes(limit);
        for (const Act& act : *acts(true)) nodes.act(act);
        nodes.heal();
        nodes.start();
        // Two seconds until a dead node is removed, two for a list that began anew, two for the
        // limit itself, and delayed messages.
        for (int i = 0; i < 50; ++i) {
          nodes.turn();
          (void)nodes.used();
        }
        const LimitShare used = nodes.used();
        RC_ASSERT(used.part == used.whole);
      },
      kCases);
}

// ---- Admissions

TEST(Split, BucketsAdmitNoMoreThanBurstPlusRateInAnyInterval) {
  check(
      [] {
        const auto rate = *rc::gen::inRange<std::int64_t>(1, 30);
        const auto burst = *rc::gen::inRange<Permits>(1, 40);
        Nodes nodes(std::to_string(rate) + "/s burst " + std::to_string(burst));
        for (const Act& act : *acts(false)) nodes.act(act);
        RC_ASSERT(within_rate(nodes.admitted(), {.count = rate}, burst));
      },
      2 * kCases);
}

TEST(Split, WindowsAdmitNoMoreThanTheirCountInAnyWindow) {
  check(
      [] {
        const auto count = *rc::gen::inRange<Permits>(1, 40);
        Nodes nodes(std::to_string(count) + "/s window");
        for (const Act& act : *acts(false)) nodes.act(act);
        std::map<std::int64_t, Permits> by_window;
        for (const Release& each : nodes.admitted()) {
          RC_ASSERT(++by_window[ns(each.at) / 1'000'000'000] <= count);
        }
      },
      kCases);
}

TEST(Split, ExactLogsAdmitNoMoreThanTheirCountInAnyPeriod) {
  check(
      [] {
        const auto count = *rc::gen::inRange<Permits>(1, 40);
        Nodes nodes(std::to_string(count) + "/s sliding exact");
        for (const Act& act : *acts(false)) nodes.act(act);
        std::deque<Instant> last;
        for (const Release& each : nodes.admitted()) {
          last.push_back(each.at);
          while (last.front() + seconds{1} <= each.at) last.pop_front();
          RC_ASSERT(static_cast<Permits>(last.size()) <= count);
        }
      },
      kCases);
}

}  // namespace
}  // namespace weir::core
