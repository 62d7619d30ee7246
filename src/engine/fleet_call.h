#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_impl.h"
#include "engine/leased_limits.h"
#include "store/shared_store.h"
#include "weir/async_engine.h"

namespace weir {
inline namespace v0 {

// One request under limits some or all of which count in the fleet's store. Limits of this node are
// decided first, since that is free of I/O. The fleet is asked only about calls that they admit; if
// it refuses, their permits are given back. Without an answer, on_store_failure decides.
//
// Leased limits are paid from the lease cache. If a lease has too few permits, more are requested
// before anything else is decided.
//
// Lives from the question to the answer, and is reused by its thread.
class AsyncEngine::FleetCall final : public store::StoreCallback,
                                     private store::lease::LeaseWaiter {
 public:
  // The result of a call.
  struct FleetCallResult {
    Verdict verdict{};
    std::unique_ptr<Receipt::Impl> receipt{};  // of an admitted take that wanted one
    std::vector<core::Decision> decisions{};   // of a peek: one for each limit of the policy
    bool left = false;
    std::string failure{};  // why the fleet did not answer; empty: it did
  };
  using ResultCallback = std::function<void(FleetCallResult&)>;

  struct Question {
    engine::Operation operation = engine::Operation::take;
    const Request& request;
    std::string_view holder{};
    bool wants_receipt = false;
    Receipt::Impl* receipt = nullptr;  // of settle
  };

  // Starts a call. The plan must have limits in the fleet's store.
  static void start(Engine::Impl& engine, Link& link, const engine::Planned& planned,
                    const engine::Items& items, Instant now, const Question& question,
                    ResultCallback finish);
  // The same with a callback for the verdict only. Wrapped in a ResultCallback it would allocate.
  static void start(Engine::Impl& engine, Link& link, const engine::Planned& planned,
                    const engine::Items& items, Instant now, const Question& question,
                    VerdictCallback done);

  // Decides a take at once if its leases cover it or are known to refuse it, as for most calls
  // under leased limits. None: it must be started.
  static std::optional<Verdict> at_once(Engine::Impl& engine, Link& link,
                                        const engine::Planned& planned, const engine::Items& items,
                                        Instant now, const Request& request);

  void on_response(store::StoreResponse& answer) override;

 private:
  static FleetCall& reuse_or_new();
  void begin(Engine::Impl& engine, Link& link, const engine::Planned& planned,
             const engine::Items& items, Instant now, const Question& question);
  void prepare(const engine::Planned& planned, const engine::Items& items,
               const Question& question);
  void copy_request(const Request& request);
  void attach_histories();
  void name_fleet_keys();
  void name_lease_keys();
  void advance();
  bool decide_on_node();
  void settle_on_node();
  void settle_leases();
  void ask();
  void name_receipts();

  void request_leases();
  void on_lease_update(const store::LeaseResponse* failure) override;
  void on_lease_answer();
  void continue_without_leases();
  Nanos deadline() const;
  Nanos time_left() const;
  bool is_past_deadline();

  void use_answer(store::StoreResponse& answer);
  void update_leases(store::StoreResponse& answer);
  void keep_receipts(const store::StoreResponse* answer);
  void update_receipts();
  void decide_without_fleet(const store::StoreResponse& answer);
  void use_fallback_limits();
  void decide_fallback();
  void settle_fallback();
  void refuse();
  void give_back();
  void set_verdict(const core::Verdict* fleet);
  void deliver();
  void finish();

  bool charges() const {
    return operation_ == engine::Operation::take || operation_ == engine::Operation::enter;
  }

  Engine::Impl* engine_ = nullptr;
  Link* link_ = nullptr;
  std::shared_ptr<const engine::Rules> rules_;  // keep the limits alive
  const engine::CompiledPolicy* policy_ = nullptr;
  const engine::RuleGroup* limits_ = nullptr;
  engine::SplitEffect split_{};
  engine::Operation operation_ = engine::Operation::take;
  Instant now_{};    // of this node
  Nanos started_{};  // monotonic time; the store's timeout is for the whole call

  std::string request_text_;
  Request request_{};
  std::string holder_;

  // The limits of this node, and those of the fleet with their items for this node's table.
  struct Side {
    std::vector<store::Item> items;
    std::vector<std::size_t> positions;  // in the policy
  };
  Side node_side_;
  Side fleet_side_;
  std::vector<engine::KeyPrices> prices_;  // price histories of the items
  core::Verdict node_verdict_{};
  Engine::Impl::CoreReceipts receipts_{};
  Engine::Impl::Resets resets_{};

  // The limits that are paid from leases.
  Side lease_side_;
  engine::LeasedLimits leases_;
  std::vector<std::string> lease_keys_;
  core::Verdict lease_verdict_{};
  std::size_t pending_leases_ = 0;  // lease requests in flight
  int lease_rounds_ = 0;            // rounds of lease requests
  store::StoreResponse failure_{};

  // This node's parts of the fleet's limits, for when the store cannot be asked.
  std::vector<core::Limit> fallback_limits_;
  std::vector<engine::SharePrices> fallback_prices_;

  std::string key_names_;
  std::vector<store::StoreItem> fleet_items_;
  std::vector<store::StoreReceipt> fleet_receipts_;
  store::StoreRequest question_{};
  Receipt::Impl* settled_receipt_ = nullptr;  // the receipt that a settle corrects
  bool wants_receipt_ = false;

  FleetCallResult result_{};
  ResultCallback finish_;
  VerdictCallback done_;  // used if finish_ is empty
};

}  // namespace v0
}  // namespace weir
