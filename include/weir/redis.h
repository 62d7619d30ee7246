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
  // Time limit for an answer, from the call. An answer that misses it is `unavailable`; its permits
  // may have been charged nevertheless.
  Nanos timeout = std::chrono::milliseconds{50};

  // Files for rediss://, in PEM.
  std::string ca{};    // CAs of the server's certificate; empty: those that the system trusts
  std::string cert{};  // client certificate, for a server that asks for one
  std::string key{};

  std::string client_name = "weir";  // for the server's CLIENT LIST
  std::string node_name{};           // for people who look at the nodes; empty: HOST:PID

  // Called when a connection is made or lost, and for errors that an operator has to fix. Messages
  // may repeat; removing repetitions is the callee's task. Called on the threads of links.
  enum class Level : std::uint8_t { info, warning, error };
  std::function<void(Level, std::string_view)> log{};
};

// Counters and state of all links of a fleet.
struct RedisCounts {
  std::uint64_t nodes = 1;  // that share the store, as far as is known
  std::uint64_t links = 0;
  std::uint64_t connected = 0;      // links that are connected to at least one server
  std::uint64_t breakers_open = 0;  // links whose circuit breaker is open: a server does not answer

  std::uint64_t calls = 0;
  std::uint64_t round_trips = 0;
  std::uint64_t sent_calls = 0;  // calls in those; divided by round_trips: the mean batch size
  std::uint64_t timeouts = 0;
  std::uint64_t connects = 0;
  std::uint64_t refused_without_asking = 0;  // answered from the cache of recent refusals
  std::uint64_t unavailable = 0;             // answers of this kind, including timeouts
  std::uint64_t misconfigured = 0;           // answers of this kind
  // Redis Cluster only.
  std::uint64_t redirections = 0;  // MOVED and ASK answers that were followed
  std::uint64_t maps = 0;          // reads of the slot map
  std::uint64_t given_back = 0;    // takes on one server that were undone as another one refused

  // Histogram of answer times. Bucket i counts answers below 16 µs × 2^i; the last one has no upper
  // bound.
  std::array<std::uint64_t, 16> answers_by_time{};
  Nanos answer_time{0};  // sum
};

// The nodes that share the store, as last reported by it.
struct RedisNodes {
  struct Node {
    std::string name{};
    std::string version{};
    Nanos silent{0};         // time since its last heartbeat
    std::uint64_t seen = 0;  // the newest generation that it has acknowledged
    bool self = false;
  };

  std::uint64_t generation = 0;  // increases when a node joins or leaves; 0: nothing reported yet
  bool member = false;           // the other nodes count this one as a member, now
  std::vector<Node> nodes{};     // by rank
};

// A fleet on a Redis or Valkey server, or on a cluster of them. Thread-safe. Must outlive its
// links.
//
// This node is a member while one of its links is run: the links send a heartbeat five times a
// second. The destructor announces that the node leaves and may block for a moment to do so.
class RedisFleet final : public Fleet {
 public:
  // URLs: redis://user:password@host:6379/0; redis+cluster://h1,h2 with some nodes of a Redis
  // Cluster, from which the others are discovered; redis+sentinel://h1,h2/name for the master that
  // the Sentinels know by this name; unix:///path for a socket; rediss:// and so on for TLS.
  // Errors: the URL is invalid, or a file cannot be used. Does not connect yet.
  static Result<std::unique_ptr<RedisFleet>, Error> open(std::string_view url,
                                                         RedisOptions options = {});
  ~RedisFleet() override;
  RedisFleet(const RedisFleet&) = delete;
  RedisFleet& operator=(const RedisFleet&) = delete;

  std::unique_ptr<Link> connect() override;

  std::uint32_t nodes() const noexcept override;
  bool is_member() const noexcept override;
  bool is_misconfigured() const noexcept override;
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
