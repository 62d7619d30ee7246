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

using engine::error_of;
using engine::Items;
using engine::Planned;
using engine::Policy;
using engine::Rules;
using engine::Throttle;
using engine::Verb;

Receipt::Receipt() noexcept = default;
Receipt::~Receipt() = default;
Receipt::Receipt(Receipt&& other) noexcept = default;
std::size_t Receipt::memory() const noexcept {
  return impl_ ? sizeof(Impl) + impl_->entries.capacity() * sizeof(Impl::Entry) : 0;
}
Receipt& Receipt::operator=(Receipt&& other) noexcept = default;

namespace {

std::uint64_t next_engine_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// The rules a thread has last used. While they are current it need not ask for them, which spares
// all threads from counting the users of one object.
struct LastUsed {
  std::uint64_t engine = 0;
  std::uint64_t edition = 0;
  std::shared_ptr<const Rules> rules;
  const Policy* policy = nullptr;  // the last one that was asked for, of these rules
};
thread_local LastUsed last_used;

bool is_well(const store::Opened& opened) {
  return opened.set_aside.empty() && !opened.after_power_cut && opened.dropped == 0 &&
         opened.disbelieved == Nanos{0};
}

std::string note_on(const store::Opened& opened, const std::string& path, Nanos lead) {
  if (path.empty() || !opened.note.empty()) return opened.note;
  if (!opened.restored) return path + " is new: nothing is remembered yet";
  std::string note = path + " was opened again";
  if (opened.after_power_cut) {
    note += "; the system went down meanwhile, and what it had not written to disk may be missing";
  }
  if (lead > Nanos{0}) {
    note += fmt::format(
        "; the clock is {} s behind it, and time goes on from where it was until the clock has "
        "caught up: if it was wrong then, move the file away",
        std::chrono::duration_cast<std::chrono::seconds>(lead).count());
  }
  if (opened.disbelieved > Nanos{0}) {
    note += fmt::format(
        "; it comes from {} days ahead of the clock, which is not believed: what was used then may "
        "be refused until that time comes. If the clock was wrong then, move the file away; if it "
        "is wrong now, put it right and start again",
        std::chrono::duration_cast<std::chrono::days>(opened.disbelieved).count());
  }
  if (opened.dropped > 0) {
    note += "; " + std::to_string(opened.dropped) + " damaged entries were dropped";
  }
  return note;
}

}  // namespace

Engine::Impl::Impl(std::unique_ptr<store::Table> the_table, const EngineOptions& options,
                   const store::Opened& opened)
    : table(std::move(the_table)),
      time(*options.clock, table->resumes_at()),
      sink(options.sink),
      fleet(options.fleet),
      note(note_on(opened, options.memory.state_file, time.lead())),
      opened_well(is_well(opened) && time.lead() == Nanos{0}),
      id(next_engine_id()),
      place{.seed = table->seed(),
            .sharing = fleet != nullptr ? policy::Sharing::fleet : policy::Sharing::none,
            .registry = &registry} {}

const Rules& Engine::Impl::current_rules(Instant now) {
  const std::uint64_t newest = edition.load(std::memory_order_acquire);
  if (last_used.engine != id || last_used.edition != newest) [[unlikely]]
    renew();
  if (!policy::holds_at(last_used.rules->span, now)) [[unlikely]] {
    if (change_hours(now)) renew();
  }
  if (last_used.rules->splits && last_used.rules->standing.version != fleet->membership_version())
      [[unlikely]] {
    follow_fleet(now);
    renew();
  }
  return *last_used.rules;
}

void Engine::Impl::renew() {
  const std::lock_guard lock(mutex);
  last_used = {.engine = id, .edition = rules->edition, .rules = rules};
}

std::shared_ptr<const Rules> Engine::Impl::used_rules() const { return last_used.rules; }

Planned Engine::Impl::plan(const Request& request, Verb verb, Instant now, Items& items) {
  Planned planned = plan_here(request, verb, now, items);
  while (planned.limits != nullptr && planned.limits->splits) {
    // In this order: who is a member again may have been left out meanwhile.
    const auto belonging = fleet->is_member()     ? engine::Belonging::member
                           : fleet->is_mistaken() ? engine::Belonging::mistaken
                                                  : engine::Belonging::cut_off;
    if (last_used.rules->standing.version == fleet->membership_version()) {
      engine::plan_split(planned, items, verb, belonging, now);
      break;
    }
    items.clear();
    planned = plan_here(request, verb, now, items);
  }
  return planned;
}

Planned Engine::Impl::plan_here(const Request& request, Verb verb, Instant now, Items& items) {
  const Rules& current = current_rules(now);
  Planned planned = engine::plan(current, request, verb, place.seed, items, last_used.policy);
  if (planned.policy != nullptr) last_used.policy = planned.policy;
  return planned;
}

core::HolderId Engine::Impl::holder_id(std::string_view holder) const {
  const store::Hash128 hash = store::hash_of(holder, place.seed);
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
  if (planned.is_decided()) [[unlikely]] {
    verdict = engine::decided(planned, now);
  } else {
    const std::span<core::Receipt> each(receipts, receipts != nullptr ? items.size() : 0);
    engine::judge(*planned.limits, table->take(items, now, holder, each), verdict);
    if (planned.limits->splits) engine::amend(verdict, planned.split);
  }
  tell_sink(*planned.policy, *planned.limits, request, verdict);
}

Verdict Engine::Impl::decide(const Planned& planned, const Items& items, const Request& request,
                             Instant now, const core::HolderId& holder, core::Receipt* receipts) {
  Verdict verdict;
  decide(planned, items, request, now, holder, receipts, verdict);
  return verdict;
}

void Engine::Impl::tell_sink(const Policy& policy, const engine::Together& limits,
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
  const auto of_limit = [&](std::size_t i) -> Receipt::Impl::Entry* {
    Receipt::Impl::Entry* const entry = receipt ? receipt->find(items[i].key) : nullptr;
    return entry != nullptr && !entry->shared ? entry : nullptr;
  };
  const auto is_needed = [&](std::size_t i, const Receipt::Impl::Entry* entry) {
    return entry != nullptr && entry->receipt.left_of(items[i].ask.cost) != 0;
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    store::Item& correction = corrections.emplace_back(items[i]);
    const auto* entry = of_limit(i);
    if (!is_needed(i, entry)) continue;
    correction.ask.cost = entry->receipt.left_of(correction.ask.cost);
    receipts[i] = entry->receipt.receipt;
    resets[i] = entry->resets;
  }
  const core::Verdict verdict =
      table->settle(corrections, now, std::span(receipts).first(items.size()), resets);
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto* entry = of_limit(i);
    if (is_needed(i, entry)) entry->receipt.update(receipts[i]);
  }
  return verdict;
}

Verdict Engine::Impl::throttle(const Throttle& throttle, std::string_view key, bool degraded) {
  const auto item = throttle.item(place.seed, key);
  if (!item) return error_of({.fault = Fault::key, .error = item.error().message});
  Verdict verdict = engine::throttled(table->take({&*item, 1}, now()).decision);
  verdict.degraded = degraded;
  tell_sink(key, throttle.ask.cost, verdict);
  return verdict;
}

void Engine::Impl::tell_sink(std::string_view key, Permits permits, const Verdict& verdict) const {
  if (sink == nullptr) return;
  static constexpr std::string_view name = "0";
  const Request request{.policy = {}, .key = key, .permits = permits};
  sink->on_decision({.policy = {},
                     .request = request,
                     .verdict = verdict,
                     .limits = {&name, 1},
                     .permits = permits});
}

// ---- What the verbs come to where nobody has to be asked

Verdict Engine::Impl::take_here(const Planned& planned, const Items& items, const Request& request,
                                Instant now, Receipt& receipt) {
  CoreReceipts receipts{};
  const Resets resets = resets_of(items);
  const Verdict verdict = decide(planned, items, request, now, {}, receipts.data());
  if (!verdict) return verdict;
  receipt.impl_ = std::make_unique<Receipt::Impl>();
  receipt.impl_->add(items, resets, receipts);
  return verdict;
}

Verdict Engine::Impl::peek_here(const Planned& planned, const Items& items, Instant now,
                                std::string_view holder) const {
  if (planned.is_decided()) return engine::decided(planned, now);
  const core::HolderId who = holder.empty() ? core::HolderId{} : holder_id(holder);
  Verdict verdict = engine::judge(*planned.limits, table->peek(items, now, who));
  if (planned.limits->splits) engine::amend(verdict, planned.split);
  return verdict;
}

Verdict Engine::Impl::settle_here(const Planned& planned, const Items& items, Instant now,
                                  Receipt* receipt) {
  Receipt::Impl* const entries = receipt != nullptr ? receipt->impl_.get() : nullptr;
  const core::Verdict verdict = settle(items, now, entries);
  if (entries != nullptr) entries->on_answered();
  return engine::judge(*planned.limits, verdict);
}

std::vector<LimitState> Engine::Impl::states_here(const Planned& planned, const Items& items,
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
  item.shadow = false;  // its own answer, not what comes of it
  return table->peek({&item, 1}, now).decision;
}

// ---- Making one

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
  store::Opened opened;
  const auto slower_noted = [](std::string_view note) {
    engine::Names names;
    const auto noted = engine::read_price_note(note, names);
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

const std::string& Engine::opening_note() const noexcept { return impl_->note; }

bool Engine::opened_well() const noexcept { return impl_->opened_well; }

void Engine::replace(PolicySet policies) { impl_->replace(std::move(policies)); }

std::uint64_t Engine::generation() const noexcept { return impl_->generation.load(); }

Instant Engine::now() const noexcept { return impl_->now(); }

LeaseUse Engine::leases() const { return impl_->leases(); }

MemoryUse Engine::memory() const { return impl_->table->use(impl_->now()); }

// ---- Deciding
//
// Where some limits of a policy count on the fleet, each verb waits for what its asynchronous form
// comes to.

// What `ask` is told in the end, of the engine on a link and the one to tell.
template <typename Answer, typename Ask>
Answer Engine::Impl::waited(Engine& engine, const Ask& ask) {
  std::optional<Answer> answer;
  wait_for([&](Link& link, bool& done) {
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
  Planned planned = plan(request, Verb::take, at, items);
  if (planned.policy == nullptr) [[unlikely]] {
    verdict = error_of(std::move(planned));
  } else if (planned.asks_fleet() && !planned.is_decided()) [[unlikely]] {
    verdict = waited<Verdict>(engine, [&](AsyncEngine async, auto tell) {
      async.take(request, [tell](const Verdict& answer) { tell(answer); });
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
  Planned planned = impl_->plan(request, Verb::take, now, items);
  if (planned.policy == nullptr) return error_of(std::move(planned));
  if (planned.asks_fleet() && !planned.is_decided()) {
    return impl_->waited<Verdict>(*this, [&](AsyncEngine async, auto tell) {
      async.take(request, [tell, &receipt](const Verdict& verdict, Receipt given) {
        if (verdict) receipt = std::move(given);
        tell(verdict);
      });
    });
  }
  return impl_->take_here(planned, items, request, now, receipt);
}

void Engine::take_all(std::span<const Request> requests, std::span<Verdict> verdicts) {
  if (requests.size() == 1 || impl_->fleet != nullptr) {
    for (std::size_t i = 0; i < requests.size(); ++i) impl_->take(*this, requests[i], verdicts[i]);
    return;
  }
  // As many as a processor fetches from memory at once, about.
  constexpr std::size_t at_a_time = 16;
  const Instant now = impl_->now();
  // The thread lends its rules to this call, or else somebody could take them away between plan and
  // decision: a sink that asks an engine, or the next plan when the policies have changed.
  const Rules& rules = impl_->current_rules(now);
  LastUsed lent = std::exchange(last_used, {});
  for (std::size_t first = 0; first < requests.size(); first += at_a_time) {
    const auto some = requests.subspan(first, std::min(at_a_time, requests.size() - first));
    std::array<Items, at_a_time> items;
    FixedVector<Planned, at_a_time> planned;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto plan = [&] {
        return engine::plan(rules, some[i], Verb::take, impl_->place.seed, items[i], lent.policy);
      };
      lent.policy = planned.append(plan).policy;
      for (const store::Item& item : items[i]) impl_->table->prefetch(item.key);
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (planned[i].policy == nullptr) [[unlikely]] {
        verdicts[first + i] = error_of(std::move(planned[i]));
      } else {
        impl_->decide(planned[i], items[i], some[i], now, {}, {}, verdicts[first + i]);
      }
    }
  }
  last_used = std::move(lent);
}

Verdict Engine::peek(const Request& request, std::string_view holder) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Verb::peek, now, items);
  if (planned.policy == nullptr) return error_of(std::move(planned));
  if (planned.asks_fleet() && !planned.is_decided()) {
    return impl_->waited<Verdict>(
        *this, [&](AsyncEngine async, auto tell) { async.peek(request, holder, tell); });
  }
  return impl_->peek_here(planned, items, now, holder);
}

Verdict Engine::Impl::settle(Engine& engine, const Request& request, Receipt* receipt) {
  Items items;
  const Instant at = now();
  Planned planned = plan(request, Verb::settle, at, items);
  if (planned.policy == nullptr) return error_of(std::move(planned));
  if (planned.asks_fleet()) {
    return waited<Verdict>(engine, [&](AsyncEngine async, auto tell) {
      receipt != nullptr ? async.settle(request, *receipt, tell) : async.settle(request, tell);
    });
  }
  return settle_here(planned, items, at, receipt);
}

Verdict Engine::settle(const Request& request, Receipt& receipt) {
  return impl_->settle(*this, request, &receipt);
}

Verdict Engine::settle(const Request& request) { return impl_->settle(*this, request, nullptr); }

Verdict Engine::enter(const Request& request, std::string_view holder) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Verb::enter, now, items);
  if (planned.policy != nullptr && holder.empty())
    planned = {.fault = Fault::key, .error = "the holder is empty"};
  if (planned.policy == nullptr) return error_of(std::move(planned));
  if (planned.asks_fleet() && !planned.is_decided()) {
    return impl_->waited<Verdict>(
        *this, [&](AsyncEngine async, auto tell) { async.enter(request, holder, tell); });
  }
  return impl_->decide(planned, items, request, now, impl_->holder_id(holder), {});
}

bool Engine::leave(const Request& request, std::string_view holder) {
  Items items;
  const Instant now = impl_->now();
  const Planned planned = impl_->plan(request, Verb::leave, now, items);
  if (planned.policy == nullptr || holder.empty()) return false;
  if (planned.asks_fleet()) {
    const auto left = impl_->waited<Result<bool, Trouble>>(
        *this, [&](AsyncEngine async, auto tell) { async.leave(request, holder, tell); });
    return left && *left;
  }
  return impl_->table->leave(items, now, impl_->holder_id(holder));
}

Verdict Engine::throttle(const Limit& limit, std::string_view key, Permits permits,
                         std::optional<Nanos> max_wait) {
  if (impl_->fleet != nullptr) {
    return impl_->waited<Verdict>(*this, [&](AsyncEngine async, auto tell) {
      async.throttle(limit, key, permits, max_wait, tell);
    });
  }
  const Throttle throttle = Throttle::of(rule_of(limit), permits, max_wait);
  if (!throttle.error.empty()) return error_of({.fault = Fault::verb, .error = throttle.error});
  return impl_->throttle(throttle, key);
}

Verdict detail::EngineAccess::throttle(Engine& engine, const core::Cell& limit,
                                       std::string_view key, Permits permits) {
  return engine.impl_->throttle(Throttle::of(limit, permits), key);
}

std::optional<Error> Engine::reset(const Request& request) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Verb::reset, now, items);
  if (planned.policy == nullptr) return Error{std::move(planned.error)};
  if (planned.asks_fleet()) {
    const auto trouble = impl_->waited<std::optional<Trouble>>(
        *this, [&](AsyncEngine async, auto tell) { async.reset(request, tell); });
    return trouble ? std::optional(Error{trouble->message}) : std::nullopt;
  }
  impl_->table->reset(items, now);
  return std::nullopt;
}

Result<std::vector<LimitState>, Error> Engine::explain(const Request& request) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Verb::peek, now, items);
  if (planned.policy == nullptr) return Error{std::move(planned.error)};
  if (planned.asks_fleet()) {
    auto told = impl_->waited<Result<Explanation, Trouble>>(
        *this, [&](AsyncEngine async, auto tell) { async.explain(request, tell); });
    if (!told) return Error{told.error().message};
    return std::move(told->limits);
  }
  return impl_->states_here(planned, items, now);
}

std::vector<SplitLimit> Engine::split_limits() {
  const Instant now = impl_->now();
  (void)impl_->current_rules(now);
  const std::shared_ptr<const Rules> rules = impl_->used_rules();
  std::vector<SplitLimit> limits;
  for (const auto& [name, policy] : rules->policies) {
    for (std::size_t i = 0; i < policy.usual.rules.size(); ++i) {
      const auto& split = policy.usual.rules[i].split;
      if (split == nullptr) continue;
      const engine::Share& share = split->share;
      limits.push_back({.policy = std::string{name},
                        .name = std::string{policy.usual.names[i]},
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
  const Planned planned = engine.impl_->plan(request, Verb::peek, now, items);
  if (planned.policy == nullptr) return;
  core::State copy = state;
  const core::Charge charge{.limit = items[position].limit, .memory = &copy};
  engine.impl_->table->adopt(items[position].key, state,
                             store::RestTime::not_before(core::rest_at(charge, now)), now);
}

}  // namespace v0
}  // namespace weir
