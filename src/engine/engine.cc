#include "weir/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "engine/engine_access.h"
#include "engine/engine_impl.h"
#include "engine/price_note.h"
#include "engine/throttle.h"
#include "limiter/limit_access.h"
#include "policy/limit_text.h"
#include "weir/async_engine.h"

namespace weir {
inline namespace v0 {

using engine::CompiledPolicy;
using engine::error_verdict;
using engine::Items;
using engine::Operation;
using engine::Planned;
using engine::Rules;
using engine::Throttle;

Receipt::Receipt() noexcept = default;
Receipt::~Receipt() = default;
Receipt::Receipt(Receipt&& other) noexcept = default;
std::size_t Receipt::memory() const noexcept {
  return impl_ ? sizeof(Impl) + impl_->entries.capacity() * sizeof(Impl::ReceiptEntry) : 0;
}
Receipt& Receipt::operator=(Receipt&& other) noexcept = default;

namespace {

std::uint64_t next_engine_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// The rules that this thread used last. While they are current, the thread needs no lock and no
// shared reference count.
struct CachedRules {
  std::uint64_t engine = 0;
  std::uint64_t edition = 0;
  std::shared_ptr<const Rules> rules;
  const CompiledPolicy* policy = nullptr;  // of the last request, in these rules
};
thread_local CachedRules cached_rules;

bool is_intact(const store::StateFileReport& opened) {
  return opened.set_aside.empty() && !opened.after_power_cut && opened.dropped == 0 &&
         opened.rejected_clock_lead == Nanos{0};
}

std::string opening_note_of(const store::StateFileReport& opened, const std::string& path,
                            Nanos lead) {
  if (path.empty() || !opened.note.empty()) return opened.note;
  if (!opened.restored) return path + " is new: nothing is remembered yet";
  std::string note = path + " was opened again";
  if (opened.after_power_cut) {
    note += "; the system went down in between, and changes that were not on disk may be missing";
  }
  if (lead > Nanos{0}) {
    note += fmt::format(
        "; the system clock is {} s behind the time in this file: time continues from the file's "
        "time until the clock has caught up. If the clock was wrong when the file was written, "
        "move the file away and start again",
        std::chrono::duration_cast<std::chrono::seconds>(lead).count());
  }
  if (opened.rejected_clock_lead > Nanos{0}) {
    note += fmt::format(
        "; its time is {} days ahead of the system clock and is ignored: keys that were used then "
        "may be refused until that time. If the clock was wrong when the file was written, move "
        "the file away; if it is wrong now, set it; then start again",
        std::chrono::duration_cast<std::chrono::days>(opened.rejected_clock_lead).count());
  }
  if (opened.dropped > 0) {
    note += "; " + std::to_string(opened.dropped) + " damaged entries were dropped";
  }
  return note;
}

}  // namespace

Engine::Impl::Impl(std::unique_ptr<store::Table> the_table, const EngineOptions& options,
                   const store::StateFileReport& opened)
    : table(std::move(the_table)),
      time(*options.clock, table->resumes_at()),
      sink(options.sink),
      fleet(options.fleet),
      opening_text(opening_note_of(opened, options.memory.state_file, time.lead())),
      state_intact(is_intact(opened) && time.lead() == Nanos{0}),
      id(next_engine_id()),
      target{.seed = table->seed(),
             .sharing_mode = fleet != nullptr ? policy::Sharing::fleet : policy::Sharing::none,
             .registry = &registry} {}

const Rules& Engine::Impl::current_rules(Instant now) {
  const std::uint64_t newest = edition.load(std::memory_order_acquire);
  if (cached_rules.engine != id || cached_rules.edition != newest) [[unlikely]]
    refresh_cached_rules();
  if (!policy::holds_at(cached_rules.rules->span, now)) [[unlikely]] {
    if (follow_schedule(now)) refresh_cached_rules();
  }
  if (cached_rules.rules->has_split &&
      cached_rules.rules->fleet_position.version != fleet->membership_version()) [[unlikely]] {
    follow_membership(now);
    refresh_cached_rules();
  }
  return *cached_rules.rules;
}

void Engine::Impl::refresh_cached_rules() {
  const std::lock_guard lock(mutex);
  cached_rules = {.engine = id, .edition = rules->edition, .rules = rules};
}

std::shared_ptr<const Rules> Engine::Impl::rules_of_last_plan() const { return cached_rules.rules; }

Planned Engine::Impl::plan(const Request& request, Operation operation, Instant now, Items& items) {
  Planned planned = plan_on_node(request, operation, now, items);
  while (planned.limits != nullptr && planned.limits->has_split) {
    // Read the status first and the version second: a node that is a member again may have missed
    // steps in between.
    const auto status = fleet->is_member()          ? engine::MembershipStatus::member
                        : fleet->is_misconfigured() ? engine::MembershipStatus::misconfigured
                                                    : engine::MembershipStatus::cut_off;
    if (cached_rules.rules->fleet_position.version == fleet->membership_version()) {
      engine::plan_split(planned, items, operation, status, now);
      break;
    }
    items.clear();
    planned = plan_on_node(request, operation, now, items);
  }
  return planned;
}

Planned Engine::Impl::plan_on_node(const Request& request, Operation operation, Instant now,
                                   Items& items) {
  const Rules& current = current_rules(now);
  Planned planned =
      engine::plan(current, request, operation, target.seed, items, cached_rules.policy);
  if (planned.policy != nullptr) cached_rules.policy = planned.policy;
  return planned;
}

core::HolderId Engine::Impl::holder_id(std::string_view holder) const {
  const store::Hash128 hash = store::hash_of(holder, target.seed);
  return {.high = hash.high, .low = hash.low};
}

Engine::Impl::Resets Engine::Impl::resets_of(std::span<const store::Item> items) const {
  Resets resets{};
  for (std::size_t i = 0; i < items.size(); ++i) resets[i] = table->resets_of(items[i].key);
  return resets;
}

void Engine::Impl::decide(const Planned& planned, const Items& items, const Request& request,
                          Instant now, const core::HolderId& holder, core::Receipt* receipts,
                          Verdict& verdict) {
  if (planned.has_verdict()) [[unlikely]] {
    verdict = engine::early_verdict(planned, now);
  } else {
    const std::span<core::Receipt> each(receipts, receipts != nullptr ? items.size() : 0);
    engine::judge(*planned.limits, table->take(items, now, holder, each), verdict);
    if (planned.limits->has_split) engine::apply_split(verdict, planned.split);
  }
  notify_sink(*planned.policy, *planned.limits, request, verdict);
}

Verdict Engine::Impl::decide(const Planned& planned, const Items& items, const Request& request,
                             Instant now, const core::HolderId& holder, core::Receipt* receipts) {
  Verdict verdict;
  decide(planned, items, request, now, holder, receipts, verdict);
  return verdict;
}

void Engine::Impl::notify_sink(const CompiledPolicy& policy, const engine::RuleGroup& limits,
                               const Request& request, const Verdict& verdict) const {
  if (sink == nullptr) return;
  sink->on_decision({.policy = policy.name,
                     .request = request,
                     .verdict = verdict,
                     .limits = limits.names,
                     .permits = request.permits});
}

core::Verdict Engine::Impl::settle(std::span<const store::Item> items, Instant now,
                                   Receipt::Impl* receipt) {
  CoreReceipts receipts{};
  Resets resets{};
  Items corrections;
  const auto entry_of = [&](std::size_t i) -> Receipt::Impl::ReceiptEntry* {
    Receipt::Impl::ReceiptEntry* const entry = receipt ? receipt->find(items[i].key) : nullptr;
    return entry != nullptr && !entry->by_fleet ? entry : nullptr;
  };
  const auto is_needed = [&](std::size_t i, const Receipt::Impl::ReceiptEntry* entry) {
    return entry != nullptr && entry->receipt.left_of(items[i].ask.cost) != 0;
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    store::Item& correction = corrections.emplace_back(items[i]);
    const auto* entry = entry_of(i);
    if (!is_needed(i, entry)) continue;
    correction.ask.cost = entry->receipt.left_of(correction.ask.cost);
    receipts[i] = entry->receipt.receipt;
    resets[i] = entry->resets;
  }
  const core::Verdict verdict =
      table->settle(corrections, now, std::span(receipts).first(items.size()), resets);
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto* entry = entry_of(i);
    if (is_needed(i, entry)) entry->receipt.update(receipts[i]);
  }
  return verdict;
}

Verdict Engine::Impl::throttle(const Throttle& throttle, std::string_view key, bool degraded) {
  const auto item = throttle.item(target.seed, key);
  if (!item) return error_verdict({.fault = Fault::key, .error = item.error().message});
  Verdict verdict = engine::throttled(table->take({&*item, 1}, now()).decision);
  verdict.degraded = degraded;
  notify_sink(key, throttle.ask.cost, verdict);
  return verdict;
}

void Engine::Impl::notify_sink(std::string_view key, Permits permits,
                               const Verdict& verdict) const {
  if (sink == nullptr) return;
  static constexpr std::string_view name = "0";
  const Request request{.policy = {}, .key = key, .permits = permits};
  sink->on_decision({.policy = {},
                     .request = request,
                     .verdict = verdict,
                     .limits = {&name, 1},
                     .permits = permits});
}

// ---- Verbs for policies without limits in the fleet's store

Verdict Engine::Impl::take_on_node(const Planned& planned, const Items& items,
                                   const Request& request, Instant now, Receipt& receipt) {
  CoreReceipts receipts{};
  const Resets resets = resets_of(items);
  const Verdict verdict = decide(planned, items, request, now, {}, receipts.data());
  if (!verdict) return verdict;
  receipt.impl_ = std::make_unique<Receipt::Impl>();
  receipt.impl_->add(items, resets, receipts);
  return verdict;
}

Verdict Engine::Impl::peek_on_node(const Planned& planned, const Items& items, Instant now,
                                   std::string_view holder) const {
  if (planned.has_verdict()) return engine::early_verdict(planned, now);
  const core::HolderId who = holder.empty() ? core::HolderId{} : holder_id(holder);
  Verdict verdict = engine::judge(*planned.limits, table->peek(items, now, who));
  if (planned.limits->has_split) engine::apply_split(verdict, planned.split);
  return verdict;
}

Verdict Engine::Impl::settle_on_node(const Planned& planned, const Items& items, Instant now,
                                     Receipt* receipt) {
  Receipt::Impl* const entries = receipt != nullptr ? receipt->impl_.get() : nullptr;
  const core::Verdict verdict = settle(items, now, entries);
  if (entries != nullptr) entries->on_settled();
  return engine::judge(*planned.limits, verdict);
}

std::vector<LimitState> Engine::Impl::states_on_node(const Planned& planned, const Items& items,
                                                     Instant now) const {
  std::vector<LimitState> states;
  for (std::size_t i = 0; i < items.size(); ++i) {
    states.push_back(engine::state_of(*planned.limits, i, items[i].ask.cost,
                                      decision_of(planned.limits->rules[i], items[i], now)));
  }
  return states;
}

core::Decision Engine::Impl::decision_of(const engine::Rule& rule, store::Item item,
                                         Instant now) const {
  if (rule.is_closed()) return engine::closed_decision(rule, now);
  item.shadow = false;  // the limit's own decision
  return table->peek({&item, 1}, now).decision;
}

// ---- Construction

Engine::Engine(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

Engine::Engine(PolicySet policies, EngineOptions options) {
  if (!options.memory.state_file.empty()) {
    throw std::invalid_argument("weir: an Engine with a state file is made by Engine::open");
  }
  auto made = open(std::move(policies), std::move(options));
  if (!made) throw std::invalid_argument("weir: " + made.error().message);
  *this = *std::move(made);
}

Result<Engine, Error> Engine::open(PolicySet policies, EngineOptions options) {
  store::StateFileReport opened;
  const auto slower_noted = [](std::string_view note) {
    engine::StringPool strings;
    const auto noted = engine::read_price_note(note, strings);
    return noted ? std::make_shared<const store::SlowerLimits>(noted->slower) : nullptr;
  };
  auto table = store::Table::open(options.memory, options.clock->now(), opened, slower_noted);
  if (!table) return table.error();
  auto impl = std::make_unique<Impl>(*std::move(table), options, opened);
  impl->replace(std::move(policies));
  return Engine(std::move(impl));
}

Engine::~Engine() = default;
Engine::Engine(Engine&& other) noexcept = default;
Engine& Engine::operator=(Engine&& other) noexcept = default;

const std::string& Engine::opening_note() const noexcept { return impl_->opening_text; }

bool Engine::state_intact() const noexcept { return impl_->state_intact; }

void Engine::replace(PolicySet policies) { impl_->replace(std::move(policies)); }

std::uint64_t Engine::generation() const noexcept { return impl_->generation.load(); }

Instant Engine::now() const noexcept { return impl_->now(); }

LeaseUse Engine::leases() const { return impl_->leases(); }

MemoryUse Engine::memory() const { return impl_->table->use(impl_->now()); }

// ---- Deciding
//
// If some limits of a policy count in the fleet's store, each verb runs its asynchronous form to
// the end.

// Runs the asynchronous call `ask` to its end and returns its result.
template <typename Answer, typename Ask>
Answer Engine::Impl::wait_for_result(Engine& engine, const Ask& ask) {
  std::optional<Answer> answer;
  run_on_link([&](Link& link, bool& done) {
    ask(AsyncEngine(engine, link), [&](auto&&... given) {
      answer.emplace(std::forward<decltype(given)>(given)...);
      done = true;
    });
  });
  return *std::move(answer);
}

void Engine::Impl::take(Engine& engine, const Request& request, Verdict& verdict) {
  Items items;
  const Instant at = now();
  Planned planned = plan(request, Operation::take, at, items);
  if (planned.policy == nullptr) [[unlikely]] {
    verdict = error_verdict(std::move(planned));
  } else if (planned.asks_fleet() && !planned.has_verdict()) [[unlikely]] {
    verdict = wait_for_result<Verdict>(engine, [&](AsyncEngine async, auto done) {
      async.take(request, [done](const Verdict& answer) { done(answer); });
    });
  } else {
    decide(planned, items, request, at, {}, {}, verdict);
  }
}

Verdict Engine::take(const Request& request) {
  Verdict verdict;
  impl_->take(*this, request, verdict);
  return verdict;
}

Verdict Engine::take(const Request& request, Receipt& receipt) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Operation::take, now, items);
  if (planned.policy == nullptr) return error_verdict(std::move(planned));
  if (planned.asks_fleet() && !planned.has_verdict()) {
    return impl_->wait_for_result<Verdict>(*this, [&](AsyncEngine async, auto done) {
      async.take(request, [done, &receipt](const Verdict& verdict, Receipt given) {
        if (verdict) receipt = std::move(given);
        done(verdict);
      });
    });
  }
  return impl_->take_on_node(planned, items, request, now, receipt);
}

void Engine::take_all(std::span<const Request> requests, std::span<Verdict> verdicts) {
  if (requests.size() == 1 || impl_->fleet != nullptr) {
    for (std::size_t i = 0; i < requests.size(); ++i) impl_->take(*this, requests[i], verdicts[i]);
    return;
  }
  // About as many cache misses as a processor has in flight at once.
  constexpr std::size_t at_a_time = 16;
  const Instant now = impl_->now();
  // Move the cached rules out for this call. A sink that calls an engine, or a plan after a reload,
  // would else free them between plan and decision.
  const Rules& rules = impl_->current_rules(now);
  CachedRules moved = std::exchange(cached_rules, {});
  for (std::size_t first = 0; first < requests.size(); first += at_a_time) {
    const auto some = requests.subspan(first, std::min(at_a_time, requests.size() - first));
    std::array<Items, at_a_time> items;
    FixedVector<Planned, at_a_time> planned;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto plan = [&] {
        return engine::plan(rules, some[i], Operation::take, impl_->target.seed, items[i],
                            moved.policy);
      };
      moved.policy = planned.append(plan).policy;
      for (const store::Item& item : items[i]) impl_->table->prefetch(item.key);
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (planned[i].policy == nullptr) [[unlikely]] {
        verdicts[first + i] = error_verdict(std::move(planned[i]));
      } else {
        impl_->decide(planned[i], items[i], some[i], now, {}, {}, verdicts[first + i]);
      }
    }
  }
  cached_rules = std::move(moved);
}

Verdict Engine::peek(const Request& request, std::string_view holder) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Operation::peek, now, items);
  if (planned.policy == nullptr) return error_verdict(std::move(planned));
  if (planned.asks_fleet() && !planned.has_verdict()) {
    return impl_->wait_for_result<Verdict>(
        *this, [&](AsyncEngine async, auto done) { async.peek(request, holder, done); });
  }
  return impl_->peek_on_node(planned, items, now, holder);
}

Verdict Engine::Impl::settle(Engine& engine, const Request& request, Receipt* receipt) {
  Items items;
  const Instant at = now();
  Planned planned = plan(request, Operation::settle, at, items);
  if (planned.policy == nullptr) return error_verdict(std::move(planned));
  if (planned.asks_fleet()) {
    return wait_for_result<Verdict>(engine, [&](AsyncEngine async, auto done) {
      receipt != nullptr ? async.settle(request, *receipt, done) : async.settle(request, done);
    });
  }
  return settle_on_node(planned, items, at, receipt);
}

Verdict Engine::settle(const Request& request, Receipt& receipt) {
  return impl_->settle(*this, request, &receipt);
}

Verdict Engine::settle(const Request& request) { return impl_->settle(*this, request, nullptr); }

Verdict Engine::enter(const Request& request, std::string_view holder) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Operation::enter, now, items);
  if (planned.policy != nullptr && holder.empty())
    planned = {.fault = Fault::key, .error = "the holder is empty"};
  if (planned.policy == nullptr) return error_verdict(std::move(planned));
  if (planned.asks_fleet() && !planned.has_verdict()) {
    return impl_->wait_for_result<Verdict>(
        *this, [&](AsyncEngine async, auto done) { async.enter(request, holder, done); });
  }
  return impl_->decide(planned, items, request, now, impl_->holder_id(holder), {});
}

bool Engine::leave(const Request& request, std::string_view holder) {
  Items items;
  const Instant now = impl_->now();
  const Planned planned = impl_->plan(request, Operation::leave, now, items);
  if (planned.policy == nullptr || holder.empty()) return false;
  if (planned.asks_fleet()) {
    const auto left = impl_->wait_for_result<Result<bool, OperationError>>(
        *this, [&](AsyncEngine async, auto done) { async.leave(request, holder, done); });
    return left && *left;
  }
  return impl_->table->leave(items, now, impl_->holder_id(holder));
}

Verdict Engine::throttle(const Limit& limit, std::string_view key, Permits permits,
                         std::optional<Nanos> max_wait) {
  if (impl_->fleet != nullptr) {
    return impl_->wait_for_result<Verdict>(*this, [&](AsyncEngine async, auto done) {
      async.throttle(limit, key, permits, max_wait, done);
    });
  }
  const Throttle throttle = Throttle::of(core_limit_of(limit), permits, max_wait);
  if (!throttle.error.empty())
    return error_verdict({.fault = Fault::verb, .error = throttle.error});
  return impl_->throttle(throttle, key);
}

Verdict detail::EngineAccess::throttle(Engine& engine, const core::RedisCell& limit,
                                       std::string_view key, Permits permits) {
  return engine.impl_->throttle(Throttle::of(limit, permits), key);
}

std::optional<Error> Engine::reset(const Request& request) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Operation::reset, now, items);
  if (planned.policy == nullptr) return Error{std::move(planned.error)};
  if (planned.asks_fleet()) {
    const auto trouble = impl_->wait_for_result<std::optional<OperationError>>(
        *this, [&](AsyncEngine async, auto done) { async.reset(request, done); });
    return trouble ? std::optional(Error{trouble->message}) : std::nullopt;
  }
  impl_->table->reset(items, now);
  return std::nullopt;
}

Result<std::vector<LimitState>, Error> Engine::explain(const Request& request) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Operation::peek, now, items);
  if (planned.policy == nullptr) return Error{std::move(planned.error)};
  if (planned.asks_fleet()) {
    auto explanation = impl_->wait_for_result<Result<Explanation, OperationError>>(
        *this, [&](AsyncEngine async, auto done) { async.explain(request, done); });
    if (!explanation) return Error{explanation.error().message};
    return std::move(explanation->limits);
  }
  return impl_->states_on_node(planned, items, now);
}

std::vector<SplitLimit> Engine::split_limits() {
  const Instant now = impl_->now();
  (void)impl_->current_rules(now);
  const std::shared_ptr<const Rules> rules = impl_->rules_of_last_plan();
  std::vector<SplitLimit> limits;
  for (const auto& [name, policy] : rules->policies) {
    for (std::size_t i = 0; i < policy.defaults.rules.size(); ++i) {
      const auto& split = policy.defaults.rules[i].split;
      if (split == nullptr) continue;
      const engine::SplitShare& share = split->share;
      limits.push_back({.policy = std::string{name},
                        .name = std::string{policy.defaults.names[i]},
                        .limit = policy::to_text(split->whole),
                        .share = {.part = share.part, .whole = share.whole},
                        .granted = share.granted,
                        .grows_in = share.waits() ? until(now, share.grows_at) : Nanos{0}});
    }
  }
  return limits;
}

void detail::EngineAccess::start_with(Engine& engine, const Request& request, std::size_t position,
                                      const core::State& state) {
  Items items;
  const Instant now = engine.impl_->now();
  const Planned planned = engine.impl_->plan(request, Operation::peek, now, items);
  if (planned.policy == nullptr) return;
  core::State copy = state;
  const core::Charge charge{.limit = items[position].limit, .memory = &copy};
  engine.impl_->table->adopt(items[position].key, state,
                             store::RestTime::not_before(core::rest_at(charge, now)), now);
}

}  // namespace v0
}  // namespace weir
