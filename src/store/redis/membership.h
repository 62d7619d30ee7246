#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/redis_call.h"
#include "weir/fleet.h"
#include "weir/time.h"

namespace weir::store::redis {

// Interval of heartbeats; silence after which a node is removed from the list; and validity of a
// membership, counted from when an answered heartbeat was sent. The validity is shorter than the
// silence: a node stops using its share before others take it over.
inline constexpr Nanos kHeartbeatInterval = std::chrono::milliseconds{200};
inline constexpr Nanos kRemovedAfter = std::chrono::seconds{2};
inline constexpr Nanos kMembershipValidFor = std::chrono::milliseconds{1600};
// Time within which all nodes have rejoined after an outage: the maximum back-off, plus the time to
// find the server.
inline constexpr Nanos kAllRejoinedWithin = std::chrono::seconds{5};
// Expiry of a list without heartbeats.
inline constexpr Nanos kListExpiry = std::chrono::hours{24};

// A node in the list.
struct Member {
  std::string id{};        // unique
  std::string info{};      // for people: its name and version
  Nanos silent{0};         // since its last heartbeat, at the time of the reply
  std::uint64_t seen = 0;  // the newest generation that it has acknowledged

  friend bool operator==(const Member&, const Member&) = default;
};

// The reply to a heartbeat.
struct MembershipReply {
  std::uint64_t epoch = 0;  // identifies the list; a later list has a greater one
  std::uint64_t generation = 0;
  std::uint64_t joined = 0;                    // the generation in which this node joined
  bool founder = false;                        // it joined when the list was new
  std::vector<Membership::NodeRank> places{};  // one for each generation in use, up to `generation`
  std::vector<Member> members{};               // by rank
};

// Empty if the reply is malformed.
std::optional<MembershipReply> parse_membership_reply(std::span<const wire::RespValue> reply);

// This node's view of the members of the fleet, and the state of its own heartbeats.
// Thread-safe. The time is an argument: a monotonic clock that includes suspension
// (CLOCK_BOOTTIME).
class MembershipView {
 public:
  MembershipView(std::string id, std::string info) : id_(std::move(id)), info_(std::move(info)) {}

  const std::string& id() const { return id_; }
  const std::string& info() const { return info_; }

  // ---- For links

  // True if a heartbeat is due; then the caller has to send it.
  bool is_due(Nanos now);
  Nanos due_at() const { return Nanos{due_at_.load(std::memory_order_relaxed)}; }

  // The content of a heartbeat: the newest list that this node knows, or that it leaves.
  struct HeartbeatState {
    bool leaves = false;
    std::uint64_t epoch = 0;
    std::uint64_t generation = 0;
  };
  HeartbeatState heartbeat_state() const;
  // `sent` is the time at which the heartbeat was sent.
  void on_reply(const MembershipReply& reply, Nanos sent, Nanos now);

  // Heartbeats fail because of an error that an operator has to fix.
  void on_misconfigured() { misconfigured_.store(true, std::memory_order_relaxed); }

  // ---- Leaving

  // Ends the membership at once. The next heartbeat is a leave message.
  void leave();
  bool has_left() const { return left_.load(std::memory_order_acquire); }
  void on_left() { left_.store(true, std::memory_order_release); }

  // ---- For users of the membership

  bool is_member(Nanos now) const noexcept {
    return now.count() < valid_until_.load(std::memory_order_acquire);
  }
  bool is_misconfigured() const noexcept { return misconfigured_.load(std::memory_order_relaxed); }
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  Membership since(std::uint64_t version, Nanos now) const;
  // The number of nodes in the fleet, at least 1. After an outage nodes rejoin one by one: the
  // number does not decrease until all had time to rejoin.
  std::uint32_t nodes() const noexcept { return nodes_.load(std::memory_order_relaxed); }

  struct MemberList {
    std::uint64_t generation = 0;
    std::vector<Member> members{};
  };
  MemberList member_list(Nanos now) const;

 private:
  bool is_newer(const MembershipReply& reply, Nanos now) const;
  void count_nodes(std::uint32_t listed, Nanos now);
  void add_step(Nanos now, const std::vector<Membership::NodeRank>& places, bool founding);

  struct Step {
    Nanos at{};
    std::vector<Membership::NodeRank> places{};
    bool founding = false;
  };

  const std::string id_;
  const std::string info_;

  mutable std::mutex mutex_;
  MembershipReply last_{};  // generation 0: none yet
  Nanos last_at_{};         // when it was received
  Nanos steady_since_{};    // since then no heartbeat was missed, and the list was the same one
  std::deque<Step> steps_;
  bool leaving_ = false;

  std::atomic<std::int64_t> due_at_{0};
  std::atomic<std::int64_t> valid_until_{0};
  std::atomic<std::uint64_t> version_{0};
  std::atomic<std::uint32_t> nodes_{1};
  std::atomic<bool> left_{false};
  std::atomic<bool> misconfigured_{false};
};

// Appends the command of a heartbeat for the list under `key`. `test_time` is for tests.
void append_heartbeat(std::string& out, bool with_source, std::string_view key,
                      const MembershipView& membership, std::string_view test_time = {});

// The key of the list.
inline constexpr std::string_view kMemberListKey = "weir1:{nodes}:members";

// The heartbeats of one link, as calls to Redis. Belongs to the link's thread.
class Heartbeat final : public RedisCall {
 public:
  // `roster` outlives it.
  explicit Heartbeat(MembershipView& membership) : membership_(membership) {}

  // True if a heartbeat is due; then the caller has to send this call.
  bool is_due();
  // Time at which that will be, by the clock whose time is `now`.
  Nanos due_at(Nanos now) const;

  void append_command(std::string& out, bool with_source) const override;
  std::string_view key() const override { return kMemberListKey; }
  ReplyResult on_reply(std::span<const wire::RespValue> reply) override;
  void on_answered() override { in_flight_ = false; }
  void on_failure(CallFailure failure, std::string_view why) override;

  // The clock of membership: CLOCK_BOOTTIME.
  static Nanos now();

 private:
  MembershipView& membership_;
  Nanos sent_{};
  bool in_flight_ = false;
};

}  // namespace weir::store::redis
