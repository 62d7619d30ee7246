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

#include "store/redis/call.h"
#include "weir/fleet.h"
#include "weir/time.h"

namespace weir::store::redis {

// How often a node says that it is there, and after how long a silence the others do without it. It
// stops earlier by itself, from when it said what was answered: no two may use the same part.
inline constexpr Nanos kHeartbeatEvery = std::chrono::milliseconds{200};
inline constexpr Nanos kGoneAfter = std::chrono::seconds{2};
inline constexpr Nanos kMemberFor = std::chrono::milliseconds{1600};
// After an outage all nodes are in the list again within this time: the longest pause between two
// attempts to connect, and what it takes to find the server.
inline constexpr Nanos kAllBackWithin = std::chrono::seconds{5};
// A list that nobody was heard in for so long is forgotten.
inline constexpr Nanos kListFor = std::chrono::hours{24};

// One of those in the list.
struct Member {
  std::string id{};    // which no other has
  std::string info{};  // for people: its name and version
  Nanos silent{0};     // since when it was not heard of, when the list was told
  std::uint64_t seen = 0;

  friend bool operator==(const Member&, const Member&) = default;
};

// What a heartbeat is answered with.
struct RosterReply {
  std::uint64_t epoch = 0;  // which list it is; a later one is greater
  std::uint64_t generation = 0;
  std::uint64_t joined = 0;  // the generation in which this node came
  bool founder = false;
  std::vector<Membership::Place> places{};  // up to that of `generation`
  std::vector<Member> members{};            // by rank
};

// Nothing if it is none.
std::optional<RosterReply> read_roster(std::span<const wire::RespValue> reply);

// What this node knows about who shares the store, and what it has to say about itself.
// Thread-safe. Time is an argument: one that never goes back, and counts on while the machine is
// suspended.
class Roster {
 public:
  Roster(std::string id, std::string info) : id_(std::move(id)), info_(std::move(info)) {}

  const std::string& id() const { return id_; }
  const std::string& info() const { return info_; }

  // ---- For links

  // Whether it is time to be heard; if so, it is the caller's to do it.
  bool is_due(Nanos now);
  Nanos due_at() const { return Nanos{due_at_.load(std::memory_order_relaxed)}; }

  // What is said: that this node is there and has seen so much, or that it goes.
  struct Report {
    bool leaves = false;
    std::uint64_t epoch = 0;
    std::uint64_t generation = 0;
  };
  Report report() const;
  // `sent` is when it was said.
  void on_reply(const RosterReply& reply, Nanos sent, Nanos now);

  // Somebody has to put something right before it is heard.
  void on_mistake() { mistaken_.store(true, std::memory_order_relaxed); }

  // ---- Leaving

  // What is said next is good-bye. From now on it is no member.
  void leave();
  bool has_left() const { return left_.load(std::memory_order_acquire); }
  void on_left() { left_.store(true, std::memory_order_release); }

  // ---- For who goes by it

  bool is_member(Nanos now) const noexcept {
    return now.count() < valid_until_.load(std::memory_order_acquire);
  }
  bool is_mistaken() const noexcept { return mistaken_.load(std::memory_order_relaxed); }
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  Membership since(std::uint64_t version, Nanos now) const;
  // How many share what is counted, at least this one. After an outage nodes come back one by one:
  // until all had time for it, there are no fewer than before.
  std::uint32_t nodes() const noexcept { return nodes_.load(std::memory_order_relaxed); }

  struct View {
    std::uint64_t generation = 0;
    std::vector<Member> members{};
  };
  View view(Nanos now) const;

 private:
  bool is_newer(const RosterReply& reply, Nanos now) const;
  void count_nodes(std::uint32_t listed, Nanos now);
  void add_step(Nanos now, const std::vector<Membership::Place>& places, bool founding);

  struct Step {
    Nanos at{};
    std::vector<Membership::Place> places{};
    bool founding = false;
  };

  const std::string id_;
  const std::string info_;

  mutable std::mutex mutex_;
  RosterReply last_{};    // none yet, if its generation is 0
  Nanos told_at_{};       // that one
  Nanos steady_since_{};  // from then on no heartbeat was missed, and the list was the same one
  std::deque<Step> steps_;
  bool leaving_ = false;

  std::atomic<std::int64_t> due_at_{0};
  std::atomic<std::int64_t> valid_until_{0};
  std::atomic<std::uint64_t> version_{0};
  std::atomic<std::uint32_t> nodes_{1};
  std::atomic<bool> left_{false};
  std::atomic<bool> mistaken_{false};
};

// What a node says, of a list under that key. `given` is the time, for tests.
void append_report(std::string& out, bool with_source, std::string_view key, const Roster& roster,
                   std::string_view given = {});

// The key of the list.
inline constexpr std::string_view kMembersKey = "weir1:{nodes}:members";

// One link's part in it.
class Heartbeat final : public Call {
 public:
  // `roster` outlives it.
  explicit Heartbeat(Roster& roster) : roster_(roster) {}

  // Whether it is time for one; if so, it is the caller's to send this.
  bool is_due();
  // When that will be, in a clock that goes on from `now`.
  Nanos due_at(Nanos now) const;

  void append_command(std::string& out, bool with_source) const override;
  std::string_view key() const override { return kMembersKey; }
  Next on_reply(std::span<const wire::RespValue> reply) override;
  void on_answered() override { open_ = false; }
  void on_failure(Failure failure, std::string_view why) override;

  // By which membership is reckoned.
  static Nanos now();

 private:
  Roster& roster_;
  Nanos sent_{};
  bool open_ = false;
};

}  // namespace weir::store::redis
