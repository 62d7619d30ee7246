#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weir/fleet.h"
#include "weir/result.h"
#include "weir/time.h"

namespace weir {
inline namespace v0 {

struct RedisOptions {
  // For an answer, from when it is asked. Then it is unavailable, which does not mean that nothing
  // was charged.
  Nanos timeout = std::chrono::milliseconds{50};

  // Of rediss://, in PEM.
  std::string ca{};    // who signed the server's certificate; empty: those the system trusts
  std::string cert{};  // shown to a server that asks for one
  std::string key{};

  std::string client_name = "weir";  // for the server's CLIENT LIST
  std::string node_name{};           // for people who look at the nodes; empty: HOST:PID

  // Told of connections, of their loss, and of what somebody has to put right; whoever repeats
  // itself is the receiver's to leave out. On the threads of links.
  enum class Level : std::uint8_t { info, warning, error };
  std::function<void(Level, std::string_view)> log{};
};

// What all links of a fleet have done so far, and how they are.
struct RedisCounts {
  std::uint64_t nodes = 1;  // that share the store, as far as is known
  std::uint64_t links = 0;
  std::uint64_t connected = 0;      // of those, to one server at least
  std::uint64_t breakers_open = 0;  // of those: a server does not answer them in time

  std::uint64_t calls = 0;
  std::uint64_t round_trips = 0;
  std::uint64_t sent_calls = 0;  // in them: by the round trips, how many were sent together
  std::uint64_t timeouts = 0;
  std::uint64_t connects = 0;
  std::uint64_t refused_without_asking = 0;  // as they had been a moment ago
  std::uint64_t unavailable = 0;             // answers of this kind, timeouts among them
  std::uint64_t misconfigured = 0;           // the same
  // Of a cluster: questions that one node has sent to another, maps of its slots that were read,
  // and what was taken from one node in vain and given back.
  std::uint64_t redirections = 0;
  std::uint64_t maps = 0;
  std::uint64_t given_back = 0;

  // How long answers took: the first counts those below 16 µs, each next one those below twice as
  // much that are in none before it, the last all others.
  std::array<std::uint64_t, 16> answers_by_time{};
  Nanos answer_time{0};  // of all together
};

// The nodes that share the store, as this one was last told.
struct RedisNodes {
  struct Node {
    std::string name{};
    std::string version{};
    Nanos silent{0};         // since it was last heard of
    std::uint64_t seen = 0;  // the newest generation it is known to know
    bool self = false;
  };

  std::uint64_t generation = 0;  // goes up when a node comes or goes; 0: nothing was told yet
  bool member = false;           // the others count on this one, right now
  std::vector<Node> nodes{};     // by rank
};

// A Redis or Valkey server that nodes share, or a cluster of them. Thread-safe. Must outlive its
// links.
//
// While a link runs, this node is a member of the fleet: it says so five times a second, by
// whichever link comes first. When it ends it says good-bye, for which it may wait a moment.
class RedisFleet final : public Fleet {
 public:
  // redis://user:password@host:6379/0, redis+cluster://h1,h2 for the nodes of a Redis Cluster that
  // are asked for the others, redis+sentinel://h1,h2/name for the master that Sentinels know by
  // this name; rediss:// and so on for TLS; unix:///path of a socket. Errors: the address makes no
  // sense, or a file cannot be used. Whether there is a server shows later.
  static Result<std::unique_ptr<RedisFleet>, Error> open(std::string_view url,
                                                         RedisOptions options = {});
  ~RedisFleet() override;
  RedisFleet(const RedisFleet&) = delete;
  RedisFleet& operator=(const RedisFleet&) = delete;

  std::unique_ptr<Link> connect() override;

  std::uint32_t nodes() const noexcept override;
  bool is_member() const noexcept override;
  bool is_mistaken() const noexcept override;
  std::uint64_t membership_version() const noexcept override;
  Membership membership(std::uint64_t since) const override;

  RedisCounts counts() const;
  RedisNodes all_nodes() const;

 private:
  struct Impl;
  explicit RedisFleet(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace weir
