#include "engine/fleet_call.h"

#include <algorithm>

#include "core/node_share.h"
#include "policy/key.h"
#include "store/key_name.h"
#include "store/link_access.h"
#include "store/random_name.h"

namespace weir {
inline namespace v0 {

using engine::at_policy_positions;
using engine::LeasedLimits;
using engine::Operation;
using policy::OnStoreFailure;

namespace {

store::StoreVerb shared_verb(Operation operation) {
  switch (operation) {
    case Operation::take:
      return store::StoreVerb::take;
    case Operation::peek:
      return store::StoreVerb::peek;
    case Operation::settle:
      return store::StoreVerb::settle;
    case Operation::reset:
      return store::StoreVerb::reset;
    case Operation::enter:
      return store::StoreVerb::enter;
    case Operation::leave:
      break;
  }
  return store::StoreVerb::leave;
}

bool all_shadow(std::span<const store::Item> items) {
  return std::ranges::all_of(items, &store::Item::shadow);
}

struct SideVerdict {
  core::Verdict verdict;  // over the policy
  bool shadow = false;    // all of its limits are shadow limits
};

// Combines the verdicts of two sides as if they were one decision.
core::Verdict combined(const SideVerdict& a, const SideVerdict& b) {
  const bool in_order = a.verdict.tightest <= b.verdict.tightest;
  const SideVerdict& first = in_order ? a : b;
  const SideVerdict& second = in_order ? b : a;
  const std::array decisions{first.verdict.decision, second.verdict.decision};
  const std::array charges{core::Charge{.shadow = first.shadow},
                           core::Charge{.shadow = second.shadow}};
  core::Verdict verdict = core::judge(decisions, charges);
  verdict.tightest = (verdict.tightest == 0 ? first : second).verdict.tightest;
  verdict.refusing = a.verdict.refusing | b.verdict.refusing;
  return verdict;
}

// Finished calls of this thread, kept for reuse.
template <typename FleetCall>
std::vector<std::unique_ptr<FleetCall>>& spare_calls() {
  thread_local std::vector<std::unique_ptr<FleetCall>> calls;
  return calls;
}

}  // namespace

// ---- The question

void AsyncEngine::FleetCall::start(Engine::Impl& engine, Link& link, const engine::Planned& planned,
                                   const engine::Items& items, Instant now,
                                   const Question& question, ResultCallback finish) {
  FleetCall& call = reuse_or_new();
  call.finish_ = std::move(finish);
  call.begin(engine, link, planned, items, now, question);
}

void AsyncEngine::FleetCall::start(Engine::Impl& engine, Link& link, const engine::Planned& planned,
                                   const engine::Items& items, Instant now,
                                   const Question& question, VerdictCallback done) {
  FleetCall& call = reuse_or_new();
  call.done_ = std::move(done);
  call.begin(engine, link, planned, items, now, question);
}

AsyncEngine::FleetCall& AsyncEngine::FleetCall::reuse_or_new() {
  auto& spare = spare_calls<FleetCall>();
  if (spare.empty()) return *std::make_unique<FleetCall>().release();
  FleetCall& call = *spare.back().release();
  spare.pop_back();
  return call;
}

void AsyncEngine::FleetCall::begin(Engine::Impl& engine, Link& link, const engine::Planned& planned,
                                   const engine::Items& items, Instant now,
                                   const Question& question) {
  engine_ = &engine;
  now_ = now;
  started_ = engine.time.monotonic();
  rules_ = engine.rules_of_last_plan();
  link_ = &link;
  prepare(planned, items, question);
  advance();
}

void AsyncEngine::FleetCall::prepare(const engine::Planned& planned, const engine::Items& items,
                                     const Question& question) {
  policy_ = planned.policy;
  limits_ = planned.limits;
  split_ = planned.split;
  operation_ = question.operation;
  holder_ = question.holder;
  settled_receipt_ = question.receipt;
  wants_receipt_ = question.wants_receipt;
  // Reset field by field: the memory is reused.
  result_.verdict = {};
  result_.receipt.reset();
  result_.decisions.clear();
  result_.left = false;
  result_.failure.clear();
  lease_rounds_ = 0;
  for (Side* side : {&node_side_, &fleet_side_, &lease_side_}) {
    side->items.clear();
    side->positions.clear();
  }
  leases_.clear();
  // A peek asks the fleet about leased limits as well: it reports what remains for all nodes.
  const bool pays = operation_ == Operation::take || operation_ == Operation::settle;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const engine::Rule& rule = limits_->rules[i];
    const bool from_lease = rule.leased && pays;
    Side& side = from_lease ? lease_side_ : rule.on_fleet ? fleet_side_ : node_side_;
    side.items.push_back(items[i]);
    side.positions.push_back(i);
    if (from_lease) leases_.add(items[i], i);
  }
  copy_request(question.request);
  attach_histories();
  name_fleet_keys();
  if (!lease_side_.items.empty()) name_lease_keys();
}

// Order: first the limits of this node, then the leases, which no other call can use in between,
// then the fleet.
void AsyncEngine::FleetCall::advance() {
  if (!leases_.empty() && operation_ == Operation::take) {
    const LeasedLimits::Coverage coverage = leases_.check(engine_->lease_cache_of(*link_), now_);
    constexpr int max_rounds = 3;  // other calls may take the permits each time
    if (coverage == LeasedLimits::Coverage::lacking && lease_rounds_ < max_rounds)
      return request_leases();
    if (coverage != LeasedLimits::Coverage::covered) {
      result_.verdict =
          engine::judge(*limits_, leases_.refuse(engine_->lease_cache_of(*link_), now_));
      return deliver();
    }
  }
  if (!decide_on_node()) return deliver();
  if (!leases_.empty()) {
    if (operation_ == Operation::take) {
      lease_verdict_ = leases_.spend(engine_->lease_cache_of(*link_), now_);
    } else {
      settle_leases();
    }
  }
  if (!fleet_side_.items.empty()) return ask();
  if (wants_receipt_) keep_receipts(nullptr);
  set_verdict(nullptr);
  deliver();
}

std::optional<Verdict> AsyncEngine::FleetCall::at_once(Engine::Impl& engine, Link& link,
                                                       const engine::Planned& planned,
                                                       const engine::Items& items, Instant now,
                                                       const Request& request) {
  LeasedLimits leases;
  engine::Items node_items;
  std::array<std::size_t, core::kMaxLimits> positions{};
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (planned.limits->rules[i].leased) {
      leases.add(items[i], i);
    } else {
      positions[node_items.size()] = i;
      node_items.emplace_back(items[i]);
    }
  }
  store::lease::LeaseCache& cache = engine.lease_cache_of(link);
  const LeasedLimits::Coverage coverage = leases.check(cache, now);
  if (coverage == LeasedLimits::Coverage::lacking) return std::nullopt;
  core::Verdict verdict;
  if (coverage == LeasedLimits::Coverage::refused) {
    verdict = leases.refuse(cache, now);
  } else if (node_items.empty()) {
    verdict = leases.spend(cache, now);
  } else {
    verdict = at_policy_positions(engine.table->take(node_items, now),
                                  std::span(positions).first(node_items.size()));
    if (verdict.decision) {
      const SideVerdict lease_side{leases.spend(cache, now), leases.is_shadow()};
      verdict = combined({verdict, all_shadow(node_items)}, lease_side);
    }
  }
  Verdict answer = engine::judge(*planned.limits, verdict);
  engine::apply_split(answer, planned.split);
  engine.notify_sink(*planned.policy, *planned.limits, request, answer);
  return answer;
}

// Copies the texts of the request: the caller does not wait for the answer.
void AsyncEngine::FleetCall::copy_request(const Request& request) {
  const auto parts = request.parts.all();
  std::size_t bytes = request.key.size();
  for (const Part& part : parts) bytes += part.name.size() + part.value.size();
  request_text_.clear();
  request_text_.reserve(bytes);
  const auto copy = [this](std::string_view text) {
    const std::size_t at = request_text_.size();
    request_text_ += text;
    return std::string_view(request_text_).substr(at, text.size());
  };
  request_ = {.policy = policy_->name,
              .key = copy(request.key),
              .permits = request.permits,
              .max_wait = request.max_wait};
  for (const Part& part : parts) request_.parts.add({copy(part.name), copy(part.value)});
}

// The histories of the plan borrow the texts of the original request: make new ones.
void AsyncEngine::FleetCall::attach_histories() {
  prices_.clear();
  if (!policy_->has_changed) return;
  const policy::Subject subject{.key = request_.key, .parts = request_.parts.all()};
  prices_.reserve(limits_->rules.size());
  for (Side* side : {&node_side_, &fleet_side_, &lease_side_}) {
    for (std::size_t i = 0; i < side->items.size(); ++i) {
      const std::uint64_t identity = limits_->rules[side->positions[i]].identity;
      side->items[i].history = &prices_.emplace_back(*policy_, subject, identity);
    }
  }
}

void AsyncEngine::FleetCall::name_fleet_keys() {
  const policy::Subject subject{.key = request_.key, .parts = request_.parts.all()};
  thread_local std::vector<std::size_t> ends;
  ends.clear();
  key_names_.clear();
  for (const std::size_t position : fleet_side_.positions) {
    const engine::Rule& rule = limits_->rules[position];
    policy::append_name(key_names_, policy_->head, subject, rule.by, rule.tail);
    ends.push_back(key_names_.size());
  }
  fleet_items_.clear();
  std::size_t at = 0;
  for (std::size_t i = 0; i < ends.size(); at = ends[i++]) {
    const store::Item& item = fleet_side_.items[i];
    fleet_items_.push_back({.limit = item.limit,
                            .key = std::string_view(key_names_).substr(at, ends[i] - at),
                            .ask = item.ask,
                            .shadow = item.shadow,
                            .history = item.history});
  }
}

void AsyncEngine::FleetCall::name_lease_keys() {
  const policy::Subject subject{.key = request_.key, .parts = request_.parts.all()};
  lease_keys_.resize(lease_side_.positions.size());
  for (std::size_t i = 0; i < lease_side_.positions.size(); ++i) {
    const engine::Rule& rule = limits_->rules[lease_side_.positions[i]];
    lease_keys_[i].clear();
    policy::append_name(lease_keys_[i], policy_->head, subject, rule.by, rule.tail);
  }
}

// False if this node refuses the call. Then the result is set.
bool AsyncEngine::FleetCall::decide_on_node() {
  if (operation_ == Operation::settle) settle_on_node();
  if (node_side_.items.empty()) return true;
  store::Table& table = *engine_->table;
  const core::HolderId holder = holder_.empty() ? core::HolderId{} : engine_->holder_id(holder_);
  switch (operation_) {
    case Operation::take:
    case Operation::enter:
      resets_ = engine_->resets_of(node_side_.items);
      node_verdict_ = table.take(node_side_.items, now_, holder,
                                 std::span(receipts_).first(node_side_.items.size()));
      break;
    case Operation::peek:
      node_verdict_ = table.peek(node_side_.items, now_, holder);
      break;
    case Operation::settle:
      node_verdict_ = engine_->settle(node_side_.items, now_, settled_receipt_);
      break;
    case Operation::reset:
      table.reset(node_side_.items, now_);
      break;
    case Operation::leave:
      break;
  }
  if (!charges() || node_verdict_.decision) return true;
  result_.verdict =
      engine::judge(*limits_, at_policy_positions(node_verdict_, node_side_.positions));
  return false;
}

// Settles on this node what this node admitted while the fleet did not answer, and prepares the
// rest for the fleet.
void AsyncEngine::FleetCall::settle_on_node() {
  fleet_receipts_.assign(fleet_items_.size(), {});
  for (std::size_t i = 0; i < fleet_items_.size(); ++i) {
    const store::Item& item = fleet_side_.items[i];
    const Receipt::Impl::ReceiptEntry* entry =
        settled_receipt_ != nullptr ? settled_receipt_->find(item.key) : nullptr;
    if (entry == nullptr) continue;
    if (entry->by_fleet) {
      fleet_receipts_[i] = entry->receipt;
    } else {
      (void)engine_->settle({&item, 1}, now_, settled_receipt_);
      fleet_items_[i].ask.cost = 0;
    }
  }
}

// Settles what was paid from leases, in the lease cache.
void AsyncEngine::FleetCall::settle_leases() {
  store::lease::LeaseCache& cache = engine_->lease_cache_of(*link_);
  for (std::size_t i = 0; i < lease_side_.items.size(); ++i) {
    const store::Item& item = lease_side_.items[i];
    Receipt::Impl::ReceiptEntry* const entry =
        settled_receipt_ != nullptr ? settled_receipt_->find(item.key) : nullptr;
    Permits correction = entry != nullptr ? entry->receipt.left_of(item.ask.cost) : item.ask.cost;
    if (entry != nullptr && !entry->from_lease) {
      (void)engine_->settle({&item, 1}, now_, settled_receipt_);
      continue;
    }
    if (correction < 0) {
      core::Receipt left = entry != nullptr ? entry->receipt.receipt : core::Receipt{};
      correction = std::max(correction, -left.taken);
      left.taken += correction;
      if (entry != nullptr) entry->receipt.update(left);
    }
    if (correction == 0) continue;
    cache.settle({*item.limit, item.history, rules_->leased_edition}, item.key, lease_keys_[i],
                 correction, entry != nullptr ? entry->mark : 0);
  }
  lease_verdict_ = leases_.after_settle(cache, now_);
}

// ---- Leases that do not cover the call

void AsyncEngine::FleetCall::request_leases() {
  // A call that this node refuses costs no question to the store. It is only a peek: a take could
  // be admitted by a concurrent refund, and would be charged without a lease.
  if (!node_side_.items.empty()) {
    const core::Verdict verdict = engine_->table->peek(node_side_.items, now_);
    if (!verdict.decision) {
      result_.verdict = engine::judge(*limits_, at_policy_positions(verdict, node_side_.positions));
      return deliver();
    }
  }
  if (is_past_deadline()) return continue_without_leases();
  ++lease_rounds_;
  failure_.error.clear();
  failure_.kind = store::StoreResponse::Kind::decided;
  const auto items = leases_.items();
  pending_leases_ = 1;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].coverage != LeasedLimits::Coverage::lacking) continue;
    ++pending_leases_;
    engine_->lease_cache_of(*link_).ask(
        {*items[i].limit, lease_side_.items[i].history, rules_->leased_edition}, items[i].key,
        lease_keys_[i], items[i].cost, deadline(), *this);
  }
  on_lease_answer();
}

void AsyncEngine::FleetCall::on_lease_update(const store::LeaseResponse* failure) {
  // A configuration error is more informative than an outage.
  if (failure != nullptr && failure_.kind != store::StoreResponse::Kind::misconfigured) {
    failure_.kind = failure->kind;
    failure_.error = failure->error;
  }
  on_lease_answer();
}

void AsyncEngine::FleetCall::on_lease_answer() {
  if (--pending_leases_ > 0) return;
  now_ = engine_->now();
  if (failure_.kind == store::StoreResponse::Kind::decided) return advance();
  continue_without_leases();
}

// Without the store, leased limits are handled like other limits of the fleet.
void AsyncEngine::FleetCall::continue_without_leases() {
  for (std::size_t i = 0; i < lease_side_.items.size(); ++i) {
    fleet_side_.items.push_back(lease_side_.items[i]);
    fleet_side_.positions.push_back(lease_side_.positions[i]);
  }
  leases_.clear();
  if (!decide_on_node()) return deliver();
  on_response(failure_);
}

Nanos AsyncEngine::FleetCall::deadline() const {
  return started_ + detail::LinkAccess::store(*link_).timeout();
}

Nanos AsyncEngine::FleetCall::time_left() const { return deadline() - engine_->time.monotonic(); }

// True if the requests for leases have used up the timeout of the call.
bool AsyncEngine::FleetCall::is_past_deadline() {
  if (lease_rounds_ == 0 || time_left() > Nanos{0}) return false;
  failure_.kind = store::StoreResponse::Kind::unavailable;
  failure_.error = "no answer within the time of the call";
  return true;
}

void AsyncEngine::FleetCall::ask() {
  question_ = {.verb = shared_verb(operation_),
               .items = fleet_items_,
               .holder = holder_,
               .wants_receipts = wants_receipt_};
  if (operation_ == Operation::settle) name_receipts();
  if (lease_rounds_ > 0) {
    if (is_past_deadline()) return on_response(failure_);
    question_.within = time_left();
  }
  detail::LinkAccess::store(*link_).ask(question_, *this);
}

// Names the receipt of a refund, so that the refund can be repeated if its answer is lost.
void AsyncEngine::FleetCall::name_receipts() {
  question_.receipts = fleet_receipts_;
  for (std::size_t i = 0; i < fleet_items_.size(); ++i) {
    if (fleet_items_[i].ask.cost >= 0 || fleet_receipts_[i].receipt.taken == 0) continue;
    if (settled_receipt_->name.empty()) settled_receipt_->name = store::random_name();
    question_.receipt_name = settled_receipt_->name;
    return;
  }
}

// ---- The answer

void AsyncEngine::FleetCall::on_response(store::StoreResponse& answer) {
  if (operation_ == Operation::settle) update_receipts();
  if (answer.kind == store::StoreResponse::Kind::decided) {
    use_answer(answer);
  } else {
    decide_without_fleet(answer);
  }
  deliver();
}

void AsyncEngine::FleetCall::use_answer(store::StoreResponse& answer) {
  result_.left = answer.left;
  if (limits_->has_leased) update_leases(answer);
  if (operation_ == Operation::leave || operation_ == Operation::reset) return;
  if (charges() && !answer.verdict.decision) give_back();
  if (charges() && answer.verdict.decision && wants_receipt_) keep_receipts(&answer);
  if (operation_ == Operation::peek) {
    result_.decisions.resize(limits_->rules.size());
    for (std::size_t i = 0; i < node_side_.items.size(); ++i) {
      result_.decisions[node_side_.positions[i]] =
          engine_->decision_of(limits_->rules[node_side_.positions[i]], node_side_.items[i], now_);
    }
    for (std::size_t i = 0; i < answer.decisions.size(); ++i) {
      result_.decisions[fleet_side_.positions[i]] = answer.decisions[i];
    }
  }
  set_verdict(&answer.verdict);
}

// Adds the permits of this node's lease to the store's decisions: calls on this node can use them.
void AsyncEngine::FleetCall::update_leases(store::StoreResponse& answer) {
  store::lease::LeaseCache& cache = engine_->lease_cache_of(*link_);
  std::vector<core::Charge> charges(fleet_side_.items.size());
  for (std::size_t i = 0; i < fleet_side_.items.size(); ++i) {
    const store::Item& item = fleet_side_.items[i];
    charges[i].shadow = item.shadow;
    if (!limits_->rules[fleet_side_.positions[i]].leased) continue;
    if (operation_ == Operation::reset) cache.reopen(item.key);
    if (operation_ == Operation::peek && i < answer.decisions.size()) {
      cache.add_to(answer.decisions[i], item.key, item.ask.cost, engine_->now());
    }
  }
  if (operation_ == Operation::peek) answer.verdict = core::judge(answer.decisions, charges);
}

void AsyncEngine::FleetCall::keep_receipts(const store::StoreResponse* answer) {
  result_.receipt = std::make_unique<Receipt::Impl>();
  result_.receipt->add(node_side_.items, resets_, receipts_);
  for (const LeasedLimits::LeasedItem& item : leases_.items()) {
    if (item.coverage != LeasedLimits::Coverage::covered) continue;
    result_.receipt->entries.push_back({.key = item.key,
                                        .from_lease = true,
                                        .mark = item.mark,
                                        .receipt = {.receipt = {.at = now_, .taken = item.cost}}});
  }
  for (std::size_t i = 0; answer != nullptr && i < answer->receipts.size(); ++i) {
    result_.receipt->entries.push_back(
        {.key = fleet_side_.items[i].key, .by_fleet = true, .receipt = answer->receipts[i]});
  }
}

void AsyncEngine::FleetCall::update_receipts() {
  if (settled_receipt_ == nullptr) return;
  for (std::size_t i = 0; i < fleet_side_.items.size(); ++i) {
    Receipt::Impl::ReceiptEntry* const entry = settled_receipt_->find(fleet_side_.items[i].key);
    if (entry != nullptr && entry->by_fleet) entry->receipt = fleet_receipts_[i];
  }
}

// ---- Without an answer

void AsyncEngine::FleetCall::decide_without_fleet(const store::StoreResponse& answer) {
  result_.failure = answer.error;
  result_.verdict.degraded = true;
  const bool misconfigured = answer.kind == store::StoreResponse::Kind::misconfigured;
  const OnStoreFailure mode = engine::failure_mode(policy_->on_store_failure, misconfigured);
  switch (operation_) {
    case Operation::take:
    case Operation::enter:
    case Operation::peek:
      if (mode == OnStoreFailure::local) return decide_fallback();
      if (mode == OnStoreFailure::closed) return refuse();
      return set_verdict(nullptr);
    case Operation::settle:
      return mode == OnStoreFailure::local ? settle_fallback() : set_verdict(nullptr);
    case Operation::leave:
      if (mode == OnStoreFailure::local) {
        use_fallback_limits();
        result_.left = engine_->table->leave(fleet_side_.items, now_, engine_->holder_id(holder_));
      }
      return;
    case Operation::reset:
      return;
  }
}

// Replaces the fleet's limits by this node's part of them.
void AsyncEngine::FleetCall::use_fallback_limits() {
  const Permits nodes = engine_->fleet->nodes();
  fallback_limits_.clear();
  fallback_limits_.reserve(fleet_side_.items.size());
  fallback_prices_.clear();
  fallback_prices_.reserve(fleet_side_.items.size());
  if (nodes <= 1) return;
  for (store::Item& item : fleet_side_.items) {
    const auto* const whole = std::get_if<core::Bucket>(item.limit);
    item.limit = &fallback_limits_.emplace_back(core::divide_among(*item.limit, nodes));
    if (whole == nullptr) continue;
    auto& share = std::get<core::Bucket>(fallback_limits_.back());
    share = core::in_epoch(share, core::epoch_number(*whole));
    if (item.history == nullptr) continue;
    item.history = &fallback_prices_.emplace_back(*item.history, nodes);
  }
}

void AsyncEngine::FleetCall::decide_fallback() {
  use_fallback_limits();
  const core::HolderId holder = holder_.empty() ? core::HolderId{} : engine_->holder_id(holder_);
  store::Table& table = *engine_->table;
  if (operation_ == Operation::peek) {
    const core::Verdict verdict = table.peek(fleet_side_.items, now_, holder);
    return set_verdict(&verdict);
  }
  Engine::Impl::CoreReceipts receipts{};
  const Engine::Impl::Resets resets = engine_->resets_of(fleet_side_.items);
  const core::Verdict verdict = table.take(fleet_side_.items, now_, holder,
                                           std::span(receipts).first(fleet_side_.items.size()));
  if (!verdict.decision) {
    give_back();
  } else if (wants_receipt_) {
    keep_receipts(nullptr);
    result_.receipt->add(fleet_side_.items, resets, receipts);
  }
  set_verdict(&verdict);
}

// Counts debits on this node, as takes do. Refunds of what the fleet admitted stay with the fleet:
// given back on this node, they could be taken twice.
void AsyncEngine::FleetCall::settle_fallback() {
  use_fallback_limits();
  for (std::size_t i = 0; i < fleet_side_.items.size(); ++i) {
    fleet_side_.items[i].ask.cost = std::max<Permits>(fleet_items_[i].ask.cost, 0);
  }
  Engine::Impl::CoreReceipts none{};
  const core::Verdict verdict = engine_->table->settle(
      fleet_side_.items, now_, std::span(none).first(fleet_side_.items.size()));
  set_verdict(&verdict);
}

void AsyncEngine::FleetCall::refuse() {
  if (charges()) give_back();
  // No limit is named as refusing: none was decided.
  const core::Verdict verdict{
      .decision = {.outcome = Outcome::limited,
                   .limit = core::capacity(*fleet_side_.items.front().limit),
                   .retry_after = engine::kFleetRetryAfter}};
  result_.verdict = engine::judge(*limits_, at_policy_positions(verdict, fleet_side_.positions));
  result_.verdict.degraded = true;
}

// ---- The end

// Gives back what this node charged for a call that is refused elsewhere.
void AsyncEngine::FleetCall::give_back() {
  if (!leases_.empty()) leases_.give_back(engine_->lease_cache_of(*link_));
  if (node_side_.items.empty()) return;
  for (store::Item& item : node_side_.items) item.ask.cost = -item.ask.cost;
  (void)engine_->table->settle(node_side_.items, engine_->now(),
                               std::span(receipts_).first(node_side_.items.size()), resets_);
}

// Sets the verdict of all sides. A null `fleet` admits.
void AsyncEngine::FleetCall::set_verdict(const core::Verdict* fleet) {
  const bool degraded = result_.verdict.degraded;
  if (fleet != nullptr && node_side_.items.empty() && leases_.empty()) {
    // The common case: limits of the fleet only.
    result_.verdict = engine::judge(*limits_, at_policy_positions(*fleet, fleet_side_.positions));
    result_.verdict.degraded = degraded;
    return;
  }
  std::optional<SideVerdict> all;
  const auto add = [&all](const SideVerdict& side) {
    all = all ? SideVerdict{combined(*all, side), all->shadow && side.shadow} : side;
  };
  if (!node_side_.items.empty()) {
    add({at_policy_positions(node_verdict_, node_side_.positions), all_shadow(node_side_.items)});
  }
  if (!leases_.empty()) add({lease_verdict_, leases_.is_shadow()});
  if (fleet != nullptr) {
    add({at_policy_positions(*fleet, fleet_side_.positions), all_shadow(fleet_side_.items)});
  } else if (!all) {
    const core::Verdict unknown{
        .decision = {.limit = core::capacity(*fleet_side_.items.front().limit)}};
    add({at_policy_positions(unknown, fleet_side_.positions), all_shadow(fleet_side_.items)});
  }
  result_.verdict = engine::judge(*limits_, all->verdict);
  result_.verdict.degraded = degraded;
}

// Split limits may be degraded although the fleet's other limits are not.
void AsyncEngine::FleetCall::deliver() {
  const bool is_answered = !result_.verdict.degraded;
  if (operation_ == Operation::settle && settled_receipt_ != nullptr && is_answered)
    settled_receipt_->on_settled();
  engine::apply_split(result_.verdict, split_);
  if (charges()) engine_->notify_sink(*policy_, *limits_, request_, result_.verdict);
  finish();
}

void AsyncEngine::FleetCall::finish() {
  if (finish_) {
    std::exchange(finish_, nullptr)(result_);
  } else {
    std::exchange(done_, nullptr)(result_.verdict);
  }
  rules_ = nullptr;
  constexpr std::size_t max_spare = 1024;
  auto& spare = spare_calls<FleetCall>();
  std::unique_ptr<FleetCall> self(this);
  if (spare.size() < max_spare) spare.push_back(std::move(self));
}

}  // namespace v0
}  // namespace weir
