#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy_file.h"
#include "server/orders.h"
#include "weir/engine.h"

namespace weir::server {

// The policies in force: those of the policy file, and those that were put while running, which win
// over the file until they are deleted; and what operators have ordered for a while, over both.
// What was put and ordered is kept beside the state file. Thread-safe.
//
// Changes are made one after the other, and may block for as long as the disk takes: they are not
// for the thread of an event loop. Whoever only asks never waits for a disk.
class Policies {
 public:
  // `state`: the file beside which to keep what is put and ordered; empty: nowhere.
  explicit Policies(const std::string& state, policy::Sharing sharing = policy::Sharing::none);

  // Tells these policies from all others of this process.
  std::uint64_t id() const { return id_; }

  // What was put and ordered before, read from its place.
  std::optional<Error> restore();

  // The merged policies, for an engine that starts with them.
  PolicySet merged() const;

  // The policies of the file. The engine is told, if there is one yet.
  void use_file(policy::PolicySet policies, Engine* engine = nullptr);

  // Why a policy is not used.
  struct Flaw {
    std::string message;
    std::string field{};    // the first of it that is wrong, if it is one
    bool not_kept = false;  // there is nothing wrong with it, but it could not be written
  };
  // Each raises the engine's generation.
  std::optional<Flaw> put(Engine& engine, const std::string& name, std::string_view text);
  Result<bool, Error> remove(Engine& engine, const std::string& name);

  // Gives an order, which gets an id; one about the same that was given before it ends. The policy
  // is one that there is. The error of what cannot be done, or kept: an order that some limit of
  // its policies, or of an override there, cannot follow is not given.
  Result<GivenOrder, Flaw> give(Engine& engine, GivenOrder order);
  // The overrides of its policy that an order does not change although it is for some of their
  // keys.
  std::vector<std::string> not_reached(const GivenOrder& order) const;
  // Ends an order. Whether there was one.
  Result<bool, Error> lift(Engine& engine, std::uint64_t id);
  // Those that are in force, by id.
  std::vector<GivenOrder> orders(Instant now) const;
  // Those among them that matter to a call.
  std::vector<GivenOrder> orders_for(const Request& request, Instant now) const;
  // Those that have ended since the last call. To be called now and then: the ones that ended long
  // ago are forgotten.
  std::vector<GivenOrder> ended_orders(Engine& engine);

  static constexpr std::size_t kMostOrders = 10'000;

  struct Listed {
    std::string name;
    policy::Policy policy;      // as it is written, without orders
    std::size_t overrides = 0;  // that there are
    bool put = false;
    std::vector<GivenOrder> orders{};  // in force, for this policy or for all
  };
  // All of them, each with so many of its overrides.
  std::vector<Listed> list(Instant now, std::size_t most_overrides) const;
  std::optional<Listed> find(std::string_view name, Instant now) const;
  std::vector<std::string> names() const;
  std::size_t count() const;
  bool has(std::string_view name) const;
  policy::PolicySet in_force() const;

 private:
  static std::uint64_t next_id();
  struct Put {
    std::string text;
    policy::Policy policy;
  };
  using Puts = std::map<std::string, Put, std::less<>>;

  using Orders = std::map<std::uint64_t, GivenOrder>;  // by id

  std::optional<Error> restore_puts();
  std::optional<Error> restore_orders();
  // The members below need `changing_`, or `mutex_` where they say so.
  policy::PolicySet merged(const Orders& orders) const;                    // either of them
  std::map<std::string_view, const policy::Policy*> found_locked() const;  // mutex_
  Listed listed_locked(std::string_view name, const policy::Policy& policy, Instant now,
                       std::size_t most_overrides) const;  // mutex_
  std::optional<Error> save(const Puts& puts) const;
  std::optional<Error> save(const Orders& orders) const;
  std::optional<Error> use(Engine& engine, Puts puts);
  std::optional<Error> use(Engine& engine, Orders orders);
  void replace(Engine& engine) const;

  const policy::Sharing sharing_;
  const std::string puts_path_;
  const std::string orders_path_;
  const std::uint64_t id_ = next_id();
  mutable std::mutex changing_;  // held by whoever makes a change, from its start to its end
  mutable std::mutex mutex_;     // held for moments: by readers, and to write what is below
  policy::PolicySet file_;
  Puts puts_;
  Orders orders_;                 // those that have ended not long ago among them
  std::uint64_t last_order_ = 0;  // only with changing_, as the next one
  Instant looked_at_{};           // when it was last asked what has ended
};

}  // namespace weir::server
