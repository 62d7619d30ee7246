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

// The policies in force, in three layers: those of the policy file; over them those that were put
// at runtime, until they are deleted; over both the orders of operators, until they end. Put
// policies and orders are saved beside the state file.
//
// Thread-safe. Changes are made one after the other and may block on the disk: they are not for the
// thread of an event loop. Readers never wait for the disk.
class Policies {
 public:
  // `state`: the state file, beside which put policies and orders are saved; empty: not saved.
  explicit Policies(const std::string& state, policy::Sharing sharing = policy::Sharing::none);

  // Unique among all objects of this class in the process.
  std::uint64_t id() const { return id_; }

  // Reads the saved policies and orders.
  std::optional<Error> restore();

  // The merged policies, for an engine that starts with them.
  PolicySet merged() const;

  // Replaces the policies of the file, also in the engine if there is one yet.
  void use_file(policy::PolicySet policies, Engine* engine = nullptr);

  // The reason why a change was not made.
  struct ChangeError {
    std::string message;
    std::string field{};     // the first invalid field of a policy, if it is one
    bool not_saved = false;  // the change is valid, but could not be written to disk
  };
  // Each raises the engine's generation.
  std::optional<ChangeError> put(Engine& engine, const std::string& name, std::string_view text);
  // False: no policy of that name was put.
  Result<bool, Error> remove(Engine& engine, const std::string& name);

  // Gives an order and sets its id. It replaces an order about the same. Its policy must exist. An
  // order that some limit of its policies, or of their overrides, cannot follow is an error.
  Result<GivenOrder, ChangeError> give(Engine& engine, GivenOrder order);
  // The overrides of its policy that an order does not change, although it is for some of their
  // keys.
  std::vector<std::string> not_reached(const GivenOrder& order) const;
  // Ends an order; false: no such order is in force.
  Result<bool, Error> lift(Engine& engine, std::uint64_t id);
  // The orders in force, by id.
  std::vector<GivenOrder> orders(Instant now) const;
  // The orders in force that concern a request.
  std::vector<GivenOrder> orders_for(const Request& request, Instant now) const;
  // The orders that have ended since the last call. To be called periodically: it also deletes
  // orders that ended a day ago.
  std::vector<GivenOrder> ended_orders(Engine& engine);

  static constexpr std::size_t kMaxOrders = 10'000;

  struct PolicyInfo {
    std::string name;
    policy::Policy policy;  // as written: without orders, and with some of its overrides
    std::size_t override_count = 0;
    bool is_put = false;
    std::vector<GivenOrder> orders{};  // in force, for this policy or for all
  };
  // All policies, each with at most `max_overrides` overrides.
  std::vector<PolicyInfo> list(Instant now, std::size_t max_overrides) const;
  std::optional<PolicyInfo> find(std::string_view name, Instant now) const;
  std::vector<std::string> names() const;
  std::size_t count() const;
  bool has(std::string_view name) const;
  policy::PolicySet in_force() const;

 private:
  static std::uint64_t next_id();
  struct PutPolicy {
    std::string text;
    policy::Policy policy;
  };
  using PutPolicies = std::map<std::string, PutPolicy, std::less<>>;

  using Orders = std::map<std::uint64_t, GivenOrder>;  // by id

  std::optional<Error> restore_puts();
  std::optional<Error> restore_orders();
  // The members below need `changing_`, or `mutex_` where they say so.
  policy::PolicySet merged(const Orders& orders) const;                        // either of them
  std::map<std::string_view, const policy::Policy*> written_policies() const;  // mutex_
  PolicyInfo info_of(std::string_view name, const policy::Policy& policy, Instant now,
                     std::size_t max_overrides) const;  // mutex_
  std::optional<Error> save(const PutPolicies& puts) const;
  std::optional<Error> save(const Orders& orders) const;
  std::optional<Error> use(Engine& engine, PutPolicies puts);
  std::optional<Error> use(Engine& engine, Orders orders);
  void replace(Engine& engine) const;

  const policy::Sharing sharing_;
  const std::string puts_path_;
  const std::string orders_path_;
  const std::uint64_t id_ = next_id();
  mutable std::mutex changing_;  // held from the start of a change to its end
  mutable std::mutex mutex_;     // held briefly: by readers, and to write the members below
  policy::PolicySet file_;
  PutPolicies puts_;
  Orders orders_;                 // also those that ended less than a day ago
  std::uint64_t last_order_ = 0;  // id; only with changing_
  Instant last_check_{};          // of ended_orders; only with changing_
};

}  // namespace weir::server
