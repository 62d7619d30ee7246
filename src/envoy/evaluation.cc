#include "envoy/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/saturating.h"
#include "engine/engine_access.h"
#include "envoy/units.h"
#include "store/memory/fingerprint.h"
#include "store/why_not_shareable.h"

namespace weir::envoy {

using engine::GivenAnswer;
using engine::GivenLimit;
using engine::GivenReceipt;
using engine::Operation;
using policy::OnStoreFailure;

namespace {

// More than any regular request has. Each limit may be a round trip.
constexpr std::size_t kMaxLimitsPerRequest = 1024;

// A refund of the maximum refunds everything: this node's table may count more than a shared store
// can.
Permits permits_of(std::uint64_t hits, bool gives_back) {
  constexpr auto most = static_cast<std::uint64_t>(store::kMaxSharedCount);
  if (gives_back && hits >= most) return core::kMaxPermits;
  return static_cast<Permits>(std::min(hits, most));
}

std::string_view name_of(Unit unit) {
  const NamedUnit* known = find(unit);
  return known != nullptr ? known->capitals : "UNKNOWN";
}

Nanos period_of(const core::Limit& limit) {
  if (const auto* bucket = std::get_if<core::Bucket>(&limit)) return bucket->rate.period;
  if (const auto* sliding = std::get_if<core::SlidingCounter>(&limit)) return sliding->period;
  return Nanos{0};
}

// The time until a limit starts a new period, or admits again after a refusal. Idle windows report
// their end as well. An impossible request gets a period, so that its client does not retry at
// once.
Nanos until_reset(const core::Limit& limit, const core::Decision& decision, Instant now) {
  if (const auto* window = std::get_if<core::Window>(&limit)) {
    return until(now, core::aligned_span(window->period, now).end);
  }
  if (const auto* quota = std::get_if<core::CalendarWindow>(&limit)) {
    return until(now, quota->calendar->span_at(now).end);
  }
  if (decision.outcome == Outcome::impossible) return period_of(limit);
  return decision.outcome == Outcome::limited ? decision.retry_after : decision.reset_after;
}

// Whole seconds, rounded up: proxies drop the fraction.
Nanos in_seconds(Nanos duration) { return std::chrono::ceil<std::chrono::seconds>(duration); }

// The same limit for a refund. Debt beyond a bucket's depth is not a queue here: all of it can be
// refunded.
core::Limit without_queue(core::Limit limit) {
  if (auto* bucket = std::get_if<core::Bucket>(&limit)) {
    bucket->at_once = core::kMaxPermits;
    bucket->free = Int128{core::kLongestDebt.count()} * bucket->interval.parts;
  }
  return limit;
}

// A limit that never refuses, on the same states: a take of 0 gets a receipt from it.
core::Limit never_refusing(core::Limit limit) {
  if (auto* window = std::get_if<core::Window>(&limit)) window->count = core::kMaxPermits;
  if (auto* quota = std::get_if<core::CalendarWindow>(&limit)) quota->count = core::kMaxPermits;
  // The state has two counters of 32 bits.
  if (auto* sliding = std::get_if<core::SlidingCounter>(&limit)) sliding->count = Permits{1} << 33;
  return without_queue(std::move(limit));
}

// Turns a receipt for 0 permits into one for `permits`. What a window counts was taken in this
// window. A bucket does not know when its debt was taken: the receipt says now, at the current
// price, and not as the last operation.
void set_taken(core::Receipt& receipt, const core::Limit& limit, Permits permits) {
  receipt.taken = permits;
  const auto* bucket = std::get_if<core::Bucket>(&limit);
  if (bucket == nullptr) return;
  constexpr std::uint64_t of_no_state = std::uint64_t{1} << 63;
  receipt.at = kLatest;
  receipt.after.when |= of_no_state;
  receipt.after.what = (receipt.after.what & ~core::gcra::kStampMask) | bucket->stamp;
}

}  // namespace

// ---- The question

void RequestEvaluation::begin(const EvaluationContext& context,
                              std::shared_ptr<const RulesSnapshot> snapshot) {
  context_ = context;
  snapshot_ = std::move(snapshot);
  key_names_.clear();
  states_.clear();
  order_.clear();
  batches_.clear();
  receipts_.clear();
  remaining_after_refund_.clear();
  failure_.clear();
  misconfigured_ = false;
  has_quota_ = refused_ = degraded_ = false;
  phase_ = ChargePhase::deciding;
  batch_ = 0;
}

std::optional<ServiceError> RequestEvaluation::prepare(const RateLimitRequest& call) {
  if (call.domain.empty()) return ServiceError{"rate limit domain must not be empty"};
  if (call.descriptors.empty()) return ServiceError{"rate limit descriptor list must not be empty"};
  if (call.descriptors.size() > kMaxDescriptors) {
    return ServiceError{fmt::format("the call has more than {} descriptors", kMaxDescriptors)};
  }
  states_.resize(call.descriptors.size());
  const auto domain = snapshot_->rules->domains.find(call.domain);
  knows_domain_ = domain != snapshot_->rules->domains.end();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const RateLimitDescriptor& descriptor = call.descriptors[i];
    states_[i].hits = permits_of(descriptor.hits.value_or(std::max<std::uint32_t>(call.hits, 1)),
                                 descriptor.gives_back);
    states_[i].gives_back = descriptor.gives_back;
    if (!knows_domain_) continue;
    if (descriptor.limit) {
      if (auto failure = use_override(call, domain->second, i)) return failure;
    } else {
      find_limit(call, domain->second, i);
    }
  }
  replace_rules();
  if (options().dynamic_metadata) copy_metadata(call);
  make_batches(false);
  make_batches(true);
  if (order_.size() > kMaxLimitsPerRequest) {
    return ServiceError{
        fmt::format("{} descriptors of the call have limits: at most {} are allowed", order_.size(),
                    kMaxLimitsPerRequest)};
  }
  return std::nullopt;
}

void RequestEvaluation::find_limit(const RateLimitRequest& call, const Domain& domain,
                                   std::size_t i) {
  const auto& entries = call.descriptors[i].entries;
  const WalkResult walked = walk(domain, entries);
  if (walked.end != WalkEnd::limit) return;
  DescriptorState& state = states_[i];
  const DescriptorRule& rule = *walked.node->rule;
  state.rule = &rule;
  state.unlimited = rule.unlimited;
  if (rule.unlimited) return;
  if (rule.detailed || walked.node->metric_names_values) {
    state.counted_as = counted_as(call.domain, *walked.node, entries);
  } else {
    state.statistics = snapshot_->statistics[rule.number].get();
  }
  state.key_start = key_names_.size();
  append_counter(key_names_, domain, walked.node, entries, rule.tail);
  state.key_end = key_names_.size();
}

std::optional<ServiceError> RequestEvaluation::use_override(const RateLimitRequest& call,
                                                            const Domain& domain, std::size_t i) {
  const RateLimitDescriptor& descriptor = call.descriptors[i];
  DescriptorState& state = states_[i];
  const NamedUnit* unit = find(descriptor.limit->unit);
  if (unit == nullptr) {
    return ServiceError{
        "the limit of a descriptor has an unknown unit: use one from SECOND to YEAR"};
  }
  state.own = std::make_unique<DescriptorRule>();
  DescriptorRule& rule = *state.own;
  rule.requests_per_unit = descriptor.limit->requests_per_unit;
  rule.unit = descriptor.limit->unit;
  rule.limit = core::Window{.count = rule.requests_per_unit, .period = unit->length};
  rule.tail = counter_tail(rule.limit);
  rule.identity = store::hash_of(domain.head + rule.tail).low;
  state.rule = &rule;
  state.counted_as = counted_as(call.domain, descriptor.entries);
  state.key_start = key_names_.size();
  append_counter(key_names_, domain, nullptr, descriptor.entries, rule.tail);
  state.key_end = key_names_.size();
  return std::nullopt;
}

// Drops the rules that another rule of the request replaces. An unlimited rule stays, as in
// envoyproxy/ratelimit.
void RequestEvaluation::replace_rules() {
  std::vector<std::string_view> replaced;
  for (const DescriptorState& state : states_) {
    if (state.rule == nullptr) continue;
    for (const std::string& name : state.rule->replaces) replaced.push_back(name);
  }
  if (replaced.empty()) return;
  for (DescriptorState& state : states_) {
    if (state.rule == nullptr || state.unlimited || state.rule->name.empty()) continue;
    state.replaced = std::ranges::find(replaced, state.rule->name) != replaced.end();
    if (state.replaced) state.rule = nullptr;
  }
}

void RequestEvaluation::make_batches(bool that_give_back) {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const DescriptorState& state = states_[i];
    if (state.rule == nullptr || state.unlimited || state.gives_back != that_give_back) continue;
    has_quota_ = has_quota_ || is_quota(state);
    const auto fits = [&](const LimitBatch& batch) {
      if (batch.gives_back != that_give_back) return false;
      if (batch.last - batch.first == core::kMaxLimits) return false;
      return std::none_of(
          order_.begin() + static_cast<std::ptrdiff_t>(batch.first), order_.end(),
          [&](std::size_t other) { return key_of(states_[other]) == key_of(state); });
    };
    if (batches_.empty() || !fits(batches_.back())) {
      batches_.push_back(
          {.first = order_.size(), .last = order_.size(), .gives_back = that_give_back});
    }
    order_.push_back(i);
    ++batches_.back().last;
  }
}

// ---- Asking

void RequestEvaluation::start(Link& link, bool peek, FinishedCallback finished, void* context) {
  link_ = &link;
  peek_ = peek;
  finished_ = finished;
  finished_context_ = context;
  advance();
}

// A loop, since answers may arrive synchronously and must not recurse.
void RequestEvaluation::advance() {
  do {
    asking_ = true;
    answered_ = false;
    if (!ask_next_batch()) {
      if (!peek_ && failure_.empty()) count();
      return finished_(*this, finished_context_);
    }
    asking_ = false;
  } while (answered_);
}

// True if nothing more is charged.
bool RequestEvaluation::is_peek() const { return peek_ || (refused_ && !options().as_envoyproxy); }

// True if a charge may have to be refunded.
bool RequestEvaluation::wants_receipts() const {
  return phase_ == ChargePhase::getting_receipts || batches_.size() > 1 || has_quota_;
}

// True if there is a batch for this phase or a later one.
bool RequestEvaluation::find_next_batch() {
  if (phase_ == ChargePhase::deciding) {
    if (batch_ < batches_.size() && !batches_[batch_].gives_back) return true;
    if (!is_peek() && !options().as_envoyproxy && !options().shadow_mode) {
      refused_ = quotas_refuse();
    }
    phase_ = ChargePhase::refunding;
    batch_ = 0;
  }
  if (phase_ == ChargePhase::refunding) {
    const bool takes_back = refused_ || !failure_.empty();
    while (batch_ < batches_.size() && !(takes_back && batches_[batch_].charged)) ++batch_;
    if (batch_ < batches_.size()) return true;
    set_remaining_after_refunds();
    phase_ = is_peek() ? ChargePhase::returning : ChargePhase::getting_receipts;
    batch_ = 0;
  }
  while (batch_ < batches_.size() && !batches_[batch_].gives_back) ++batch_;
  return batch_ < batches_.size() && failure_.empty();
}

// False if all phases are done.
bool RequestEvaluation::ask_next_batch() {
  if (!find_next_batch()) return false;
  switch (phase_) {
    case ChargePhase::deciding:
      if (is_peek()) {
        ask(Operation::peek);
      } else {
        ask(options().as_envoyproxy ? Operation::settle : Operation::take);
      }
      break;
    case ChargePhase::refunding:
      ask(Operation::settle);
      break;
    case ChargePhase::getting_receipts:
      ask(Operation::take);
      break;
    case ChargePhase::returning:
      ask(is_peek() ? Operation::peek : Operation::settle);
      break;
  }
  return true;
}

void RequestEvaluation::ask(Operation operation) {
  const LimitBatch& batch = batches_[batch_];
  const bool notes = phase_ == ChargePhase::getting_receipts;
  const bool returns = operation == Operation::settle && phase_ == ChargePhase::returning;
  const bool gives_back = operation == Operation::settle && phase_ != ChargePhase::deciding;
  const bool costs = gives_back || phase_ == ChargePhase::deciding;
  const bool all_pass = options().shadow_mode;
  limits_.clear();
  changed_limits_.clear();
  if (notes || returns) changed_limits_.reserve(batch.last - batch.first);
  for (std::size_t k = batch.first; k < batch.last; ++k) {
    const DescriptorState& state = member(k);
    const Permits cost = costs ? state.hits : 0;
    const core::Limit* limit = &state.rule->limit;
    if (notes) limit = &changed_limits_.emplace_back(never_refusing(*limit));
    if (returns) limit = &changed_limits_.emplace_back(without_queue(*limit));
    limits_.push_back({.limit = limit,
                       .key = key_of(state),
                       .identity = state.rule->identity,
                       .ask = {.cost = gives_back ? -cost : cost},
                       .shadow = state.rule->shadow || is_quota(state) || all_pass});
  }
  if (receipts_.size() < batch.last) receipts_.resize(order_.size());
  const auto receipts = std::span(receipts_).subspan(batch.first, batch.last - batch.first);
  detail::EngineAccess::ask(
      *context_.engine, *link_,
      {.verb = operation,
       .limits = limits_,
       .wants_receipts = operation == Operation::take && wants_receipts(),
       .receipts = operation == Operation::settle ? receipts : std::span<GivenReceipt>{},
       .may_be_local = options().on_store_failure == OnStoreFailure::local},
      [this](GivenAnswer& answer) { on_answer(answer); });
}

// ---- Results

void RequestEvaluation::on_answer(GivenAnswer& answer) {
  degraded_ = degraded_ || answer.degraded;
  LimitBatch& batch = batches_[batch_];
  if (answer.decisions.empty()) {
    failure_ = answer.trouble.empty() ? "no answer" : answer.trouble;
    misconfigured_ = answer.mistaken;
    on_failure();
  } else if (phase_ == ChargePhase::deciding) {
    on_decided(answer);
  } else if (phase_ == ChargePhase::refunding) {
    for (std::size_t k = batch.first; k < batch.last; ++k) {
      remaining_after_refund_[key_of(member(k))] = answer.decisions[k - batch.first].remaining;
    }
    ++batch_;
  } else if (phase_ == ChargePhase::getting_receipts) {
    for (std::size_t k = 0; k < answer.receipts.size(); ++k) {
      const DescriptorState& state = member(batch.first + k);
      GivenReceipt& receipt = receipts_[batch.first + k] = answer.receipts[k];
      set_taken(receipt.receipt.receipt, state.rule->limit, state.hits);
    }
    phase_ = ChargePhase::returning;
  } else {
    store_decisions(answer);
    ++batch_;
    if (!is_peek()) phase_ = ChargePhase::getting_receipts;
  }
  answered_ = true;
  if (!asking_) advance();
}

// Continues with the refund of earlier charges, as far as the store answers.
void RequestEvaluation::on_failure() {
  if (phase_ == ChargePhase::deciding) {
    phase_ = ChargePhase::refunding;
    batch_ = 0;
  } else {
    ++batch_;
  }
}

// Batches with the same counter are refunded one after the other: only the last knows what remains.
void RequestEvaluation::set_remaining_after_refunds() {
  if (remaining_after_refund_.empty()) return;
  for (const std::size_t i : order_) {
    const auto left = remaining_after_refund_.find(key_of(states_[i]));
    if (left != remaining_after_refund_.end() && !states_[i].over)
      states_[i].decision.remaining = left->second;
  }
}

void RequestEvaluation::store_decisions(const GivenAnswer& answer) {
  const LimitBatch& batch = batches_[batch_];
  for (std::size_t k = batch.first; k < batch.last; ++k) {
    DescriptorState& state = member(k);
    state.decision = answer.decisions[k - batch.first];
    state.until_reset = until_reset(state.rule->limit, state.decision, answer.now);
  }
}

void RequestEvaluation::on_decided(GivenAnswer& answer) {
  store_decisions(answer);
  LimitBatch& batch = batches_[batch_];
  for (std::size_t k = batch.first; k < batch.last; ++k) {
    member(k).over = (answer.verdict.refusing >> (k - batch.first) & 1) != 0;
  }
  ++batch_;
  if (is_peek() || options().as_envoyproxy) return;
  refused_ = !answer.verdict.decision;
  batch.charged = !answer.receipts.empty();
  std::ranges::copy(answer.receipts, receipts_.begin() + static_cast<std::ptrdiff_t>(batch.first));
}

// ---- The answer

// Quotas refuse together. A quota that never refuses still counts as one with room: a shadow, or a
// descriptor without a limit when all are quotas.
bool RequestEvaluation::quotas_refuse() const {
  bool some = false;
  for (const DescriptorState& state : states_) {
    if (state.unlimited || state.gives_back || !is_quota(state)) continue;
    if (!state.over || state.rule->shadow) return false;
    some = true;
  }
  return some;
}

bool RequestEvaluation::is_over() const {
  const bool one_refuses = std::ranges::any_of(states_, [this](const DescriptorState& state) {
    return state.over && state.rule != nullptr && !is_quota(state) && !state.rule->shadow;
  });
  return one_refuses || quotas_refuse();
}

void RequestEvaluation::count() {
  for (const DescriptorState& state : states_) {
    if (state.rule == nullptr || state.unlimited || state.gives_back) continue;
    const core::Decision& decision = state.decision;
    const Permits used = std::max<Permits>(decision.limit - decision.remaining, 0);
    const bool counted = options().as_envoyproxy || !refused_;
    const Permits before = state.over || !counted ? used : std::max<Permits>(used - state.hits, 0);
    // A peek must not create metric names.
    RuleStatistics& statistics = state.statistics != nullptr
                                     ? *state.statistics
                                     : context_.statistics->named(state.counted_as);
    statistics.add({.hits = static_cast<std::uint64_t>(state.hits),
                    .limit = static_cast<std::uint64_t>(decision.limit),
                    .before = static_cast<std::uint64_t>(before),
                    .over = state.over,
                    .counts_when_over = options().as_envoyproxy},
                   state.rule->shadow);
  }
}

DescriptorStatus RequestEvaluation::status_of(const DescriptorState& state) const {
  if (state.rule == nullptr) return {};
  constexpr auto most = std::numeric_limits<std::uint32_t>::max();
  if (state.unlimited) return {.remaining = most};
  const DescriptorRule& rule = *state.rule;
  DescriptorStatus status{.code = state.over && !rule.shadow ? Code::over_limit : Code::ok,
                          .limit = CurrentLimit{.requests_per_unit = rule.requests_per_unit,
                                                .unit = rule.unit,
                                                .name = rule.name},
                          .until_reset = in_seconds(state.until_reset)};
  const bool nothing_left = state.over && options().as_envoyproxy;
  status.remaining =
      nothing_left
          ? 0
          : static_cast<std::uint32_t>(std::clamp<Permits>(state.decision.remaining, 0, most));
  return status;
}

Result<RateLimitResponse, ServiceError> RequestEvaluation::answer() {
  const OnStoreFailure mode = engine::failure_mode(options().on_store_failure, misconfigured_);
  if (!failure_.empty() && mode != OnStoreFailure::open && mode != OnStoreFailure::closed) {
    return ServiceError{"the store could not be asked: " + failure_, true};
  }
  RateLimitResponse answer;
  answer.statuses.reserve(states_.size());
  for (DescriptorState& state : states_) {
    if (!failure_.empty() && state.rule != nullptr && !state.unlimited) {
      state.over = mode == OnStoreFailure::closed;
      state.decision = {};
      state.until_reset = engine::kFleetRetryAfter;
    }
    answer.statuses.push_back(status_of(state));
  }
  answer.overall = is_over() && !options().shadow_mode ? Code::over_limit : Code::ok;
  if (options().response_headers) add_headers(answer);
  if (options().dynamic_metadata) add_metadata(answer);
  return answer;
}

// The headers describe the limit with the fewest remaining hits. A refusing limit wins, the last of
// several. Quotas refuse together, and come after limits that refuse. envoyproxy/ratelimit goes by
// the remaining hits, which are 0 then.
void RequestEvaluation::add_headers(RateLimitResponse& answer) const {
  const bool by_quotas = !options().as_envoyproxy && quotas_refuse();
  const DescriptorStatus* tightest = nullptr;
  int highest = 0;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const DescriptorStatus& status = answer.statuses[i];
    if (!status.limit) continue;
    const bool over = status.code == Code::over_limit;
    const int rank = !over ? 0 : !is_quota(states_[i]) ? 2 : by_quotas ? 1 : 0;
    const bool less = tightest == nullptr || status.remaining < tightest->remaining;
    if (rank < highest || (rank == 0 && !less)) continue;
    tightest = &status;
    highest = rank;
  }
  if (tightest == nullptr) return;
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(tightest->until_reset.value_or(Nanos{0}));
  const wire::HeaderNames& names = options().header_names;
  answer.response_headers = {{names.limit, std::to_string(tightest->limit->requests_per_unit)},
                             {names.remaining, std::to_string(tightest->remaining)},
                             {names.reset, std::to_string(seconds.count())}};
}

namespace {

// In the text format of Go's protobuf library, which omits a 0.
std::string text_of(const LimitOverride& limit) {
  const std::string unit = fmt::format("unit:{}", name_of(limit.unit));
  if (limit.requests_per_unit == 0) return unit;
  return fmt::format("requests_per_unit:{} {}", limit.requests_per_unit, unit);
}

// Adds missing fields. Objects with the same name are merged; else the first value wins.
void merge(nlohmann::json& all, const nlohmann::json& more) {
  for (const auto& [key, value] : more.items()) {
    const auto [there, is_new] = all.emplace(key, value);
    if (!is_new && there->is_object() && value.is_object()) merge(*there, value);
  }
}

}  // namespace

// Copies the request: it may be out of scope when the response is made.
void RequestEvaluation::copy_metadata(const RateLimitRequest& call) {
  using nlohmann::json;
  json question = {{"domain", call.domain}, {"descriptors", json::array()}};
  for (const RateLimitDescriptor& descriptor : call.descriptors) {
    json& described = question["descriptors"].emplace_back(json::object());
    described["entries"] = json::array();
    for (const DescriptorEntry& entry : descriptor.entries) {
      described["entries"].push_back(fmt::format("{}={}", entry.key, entry.value));
    }
    if (descriptor.limit) described["limit"] = text_of(*descriptor.limit);
    if (descriptor.hits) described["hitsAddend"] = *descriptor.hits;
  }
  if (call.hits != 0) question["hitsAddend"] = call.hits;
  question_metadata_ = question.dump(-1, ' ', false, json::error_handler_t::replace);
}

void RequestEvaluation::add_metadata(RateLimitResponse& answer) const {
  using nlohmann::json;
  json all = json::parse(question_metadata_, nullptr, false);
  json merged = json::object();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const DescriptorRule* rule = states_[i].rule;
    if (rule == nullptr || rule->unlimited || rule->metadata.empty()) continue;
    if (answer.statuses[i].code != Code::ok) continue;
    merge(merged, json::parse(rule->metadata, nullptr, false));
  }
  if (!merged.empty()) all["metadata"] = std::move(merged);
  answer.metadata = all.dump();
}

}  // namespace weir::envoy
