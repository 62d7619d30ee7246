#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/given.h"
#include "envoy/service.h"
#include "envoy/statistics.h"
#include "envoy/walk.h"

namespace weir::envoy {

// A set of rules, its options and its counters. Immutable; shared by all threads.
struct RulesSnapshot {
  std::shared_ptr<const RuleSet> rules;
  ServiceOptions options;
  Statistics::ByRuleNumber statistics;
};

// The state of one descriptor during the evaluation.
struct DescriptorState {
  // Null if nothing is decided: there is no limit, or another rule replaces it.
  const DescriptorRule* rule = nullptr;
  bool unlimited = false;
  bool replaced = false;
  std::unique_ptr<DescriptorRule> own{};  // a limit of the request
  RuleStatistics* statistics = nullptr;
  std::string counted_as{};  // name of metrics that only requests name, if `statistics` is null
  Permits hits = 1;
  bool gives_back = false;
  std::size_t key_start = 0;  // its counter's key is in key_names_
  std::size_t key_end = 0;
  // The result.
  core::Decision decision{};
  bool over = false;
  Nanos until_reset{0};
};

// The parts of the service that an evaluation needs.
struct EvaluationContext {
  Engine* engine = nullptr;
  Statistics* statistics = nullptr;
};

// The evaluation of one request.
//
// By default it is one decision: all limits are charged or none. Limits under quota_mode are
// charged if they admit the request, and refuse it only if all of them refuse. One decision has at
// most core::kMaxLimits limits with different counters; more are decided in several batches. If a
// later batch refuses, the earlier ones are refunded by receipt.
//
// In envoyproxy/ratelimit's mode each limit is charged on its own, whatever the others decide.
//
// Reused for the next request with its buffers: a usual request allocates only its response. Not
// thread-safe.
class RequestEvaluation {
 public:
  using FinishedCallback = void (*)(RequestEvaluation&, void* context);

  // Resets the state of the previous request.
  void begin(const EvaluationContext& context, std::shared_ptr<const RulesSnapshot> snapshot);

  // Finds the limits of a request. Returns an error if the request is invalid.
  std::optional<ServiceError> prepare(const RateLimitRequest& call);

  // Starts the decisions. Calls `finished` exactly once, perhaps before it returns. A peek takes
  // nothing.
  void start(Link& link, bool peek, FinishedCallback finished, void* context);

  // Valid when it is finished.
  Result<RateLimitResponse, ServiceError> answer();
  const std::vector<DescriptorState>& states() const { return states_; }
  const std::string& failure_text() const { return failure_; }
  bool is_degraded() const { return degraded_; }
  // True if it would be refused without the service's shadow_mode.
  bool passes_as_shadow() const { return options().shadow_mode && is_over(); }
  // True if there are rules for the request's domain.
  bool knows_domain() const { return knows_domain_; }
  std::string_view key_of(const DescriptorState& state) const {
    return std::string_view(key_names_).substr(state.key_start, state.key_end - state.key_start);
  }

  // For the starter's use.
  RateLimitService::ResponseCallback done{};

 private:
  // Limits of one decision: a range of order_.
  struct LimitBatch {
    std::size_t first = 0;
    std::size_t last = 0;
    bool gives_back = false;  // these descriptors return hits
    bool charged = false;
  };
  // Deciding; then refunding what a refused request was charged; then returning the hits that the
  // request gives back. A return needs a receipt of what is counted: getting_receipts takes it
  // first.
  enum class ChargePhase { deciding, refunding, getting_receipts, returning };

  void find_limit(const RateLimitRequest& call, const Domain& domain, std::size_t i);
  std::optional<ServiceError> use_override(const RateLimitRequest& call, const Domain& domain,
                                           std::size_t i);
  void replace_rules();
  void copy_metadata(const RateLimitRequest& call);
  void make_batches(bool that_give_back);

  void advance();
  bool ask_next_batch();
  bool find_next_batch();
  void ask(engine::Operation verb);
  void on_answer(engine::GivenAnswer& answer);
  void store_decisions(const engine::GivenAnswer& answer);
  void on_decided(engine::GivenAnswer& answer);
  void on_failure();
  void set_remaining_after_refunds();

  const ServiceOptions& options() const { return snapshot_->options; }
  bool is_peek() const;
  bool wants_receipts() const;
  DescriptorState& member(std::size_t position) { return states_[order_[position]]; }
  bool is_quota(const DescriptorState& state) const {
    return options().quota_mode || (state.rule != nullptr && state.rule->quota);
  }
  bool quotas_refuse() const;
  bool is_over() const;
  void count();
  DescriptorStatus status_of(const DescriptorState& state) const;
  void add_headers(RateLimitResponse& answer) const;
  void add_metadata(RateLimitResponse& answer) const;

  EvaluationContext context_{};
  std::shared_ptr<const RulesSnapshot> snapshot_;
  std::string key_names_;
  std::vector<DescriptorState> states_;
  std::vector<std::size_t> order_;  // indexes of the descriptors with a decision
  std::vector<LimitBatch> batches_;
  std::vector<engine::GivenReceipt> receipts_;  // by position in order_
  // remaining permits after a refund, by counter
  std::unordered_map<std::string_view, Permits> remaining_after_refund_;
  std::string question_metadata_;
  bool has_quota_ = false;

  Link* link_ = nullptr;
  FinishedCallback finished_ = nullptr;
  void* finished_context_ = nullptr;
  bool peek_ = false;
  bool refused_ = false;
  ChargePhase phase_ = ChargePhase::deciding;
  std::size_t batch_ = 0;
  bool asking_ = false;
  bool answered_ = false;
  std::vector<engine::GivenLimit> limits_;
  std::vector<core::Limit> changed_limits_;
  std::string failure_;
  bool misconfigured_ = false;  // the failure is a configuration error, not an outage
  bool degraded_ = false;
  bool knows_domain_ = false;
};

}  // namespace weir::envoy
