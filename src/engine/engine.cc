#include "weir/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "engine/engine_access.h"
#include "engine/plan.h"
#include "engine/policy_set_access.h"
#include "limiter/limit_access.h"
#include "policy/identity.h"
#include "policy/key.h"
#include "policy/limit_text.h"

namespace weir {
inline namespace v0 {

using engine::Items;
using engine::Planned;
using engine::Policy;
using engine::Rules;
using engine::Verb;

// What was taken under each limit, by the fingerprint of the limit and the key: the limit's
// position may be another one when the policies have changed since, and of another key, or in the
// table of another engine, nothing was taken.
struct Receipt::Impl {
  struct Entry {
    store::Fingerprint key;
    std::uint32_t resets;  // that its key had seen
    core::Receipt receipt;
  };
  std::vector<Entry> entries;
};

Receipt::Receipt() noexcept = default;
Receipt::~Receipt() = default;
Receipt::Receipt(Receipt&& other) noexcept = default;
Receipt& Receipt::operator=(Receipt&& other) noexcept = default;

namespace {

using CoreReceipts = std::array<core::Receipt, core::kMaxLimits>;
using Resets = std::array<std::uint32_t, core::kMaxLimits>;

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
};
thread_local LastUsed last_used;

Verdict error_of(Planned planned) {
  Verdict verdict{.decision = {.outcome = Outcome::impossible, .retry_after = kNever}};
  verdict.error = std::move(planned.error);
  return verdict;
}

// How far a state file's time is ahead of the clock, if that is too far to wait for: time goes on
// from there, since it must not go back, and cannot stand still for hours.
Nanos lead_over(Instant now, Instant earliest) {
  const Nanos lead = until(now, earliest);
  return lead > std::chrono::minutes{1} ? lead : Nanos{0};
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
        "; the clock is {} s behind it, and time goes on from where it was: if it was the clock "
        "that was wrong then, move the file away",
        std::chrono::duration_cast<std::chrono::seconds>(lead).count());
  }
  if (opened.dropped > 0) {
    note += "; " + std::to_string(opened.dropped) + " damaged entries were dropped";
  }
  return note;
}

}  // namespace

struct Engine::Impl {
  Impl(std::unique_ptr<store::Table> the_table, const EngineOptions& options, std::string the_note)
      : table(std::move(the_table)),
        clock(*options.clock),
        sink(options.sink),
        note(std::move(the_note)),
        earliest(table->resumes_at()),
        ahead(lead_over(options.clock->now(), earliest)) {}

  // A state file may know of a later time than the clock.
  Instant now() const noexcept { return std::max(later(clock.now(), ahead), earliest); }

  void replace(PolicySet next) {
    const std::lock_guard lock(changing);
    const Instant at = now();
    if (rules != nullptr) turn_to(at);
    policies = std::move(next);
    publish(engine::compile(policies_of(policies), rules.get(), table->seed(), at, names));
  }

  const Rules& current_rules(Instant now) {
    const std::uint64_t newest = edition.load(std::memory_order_acquire);
    if (last_used.engine != id || last_used.edition != newest) [[unlikely]]
      renew();
    if (!policy::holds_at(last_used.rules->span, now)) [[unlikely]]
      change_hours(now);
    return *last_used.rules;
  }

  Planned plan(const Request& request, Verb verb, Instant now, Items& items) {
    return engine::plan(current_rules(now), request, verb, table->seed(), items);
  }

  core::HolderId holder_id(std::string_view holder) const {
    const store::Hash128 hash = store::hash_of(holder, table->seed());
    return {.high = hash.high, .low = hash.low};
  }

  Verdict decide(const Planned& planned, const Items& items, const Request& request, Instant now,
                 const core::HolderId& holder, std::span<core::Receipt> receipts) {
    const Verdict verdict =
        planned.blocked_until
            ? engine::blocked(*planned.blocked_until, now)
            : engine::judge(*planned.limits, table->take(items, now, holder, receipts));
    if (sink != nullptr) {
      sink->on_decision({.policy = planned.policy->name,
                         .request = request,
                         .verdict = verdict,
                         .limits = planned.limits->names,
                         .permits = request.permits});
    }
    return verdict;
  }

  Verdict settle(const Request& request, Receipt::Impl* receipt) {
    Items items;
    const Instant now = this->now();
    Planned planned = plan(request, Verb::settle, now, items);
    if (planned.policy == nullptr) return error_of(std::move(planned));
    CoreReceipts receipts{};
    Resets resets{};
    const auto of_limit = [&](std::size_t i) -> Receipt::Impl::Entry* {
      if (receipt == nullptr) return nullptr;
      const auto entry =
          std::ranges::find(receipt->entries, items[i].key, &Receipt::Impl::Entry::key);
      return entry == receipt->entries.end() ? nullptr : &*entry;
    };
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (const auto* entry = of_limit(i)) {
        receipts[i] = entry->receipt;
        resets[i] = entry->resets;
      }
    }
    const core::Verdict verdict =
        table->settle(items, now, std::span(receipts).first(items.size()), resets);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (auto* entry = of_limit(i)) entry->receipt = receipts[i];
    }
    return engine::judge(*planned.limits, verdict);
  }

  // ---- Rules that follow others

  void publish(std::shared_ptr<const Rules> next) {
    const std::lock_guard lock(mutex);
    rules = std::move(next);
    generation.store(rules->generation, std::memory_order_release);
    edition.store(rules->edition, std::memory_order_release);
  }

  void renew() {
    const std::lock_guard lock(mutex);
    last_used = {.engine = id, .edition = rules->edition, .rules = rules};
  }

  // The first who comes at other hours makes the rules for them; who comes meanwhile goes on with
  // those there are.
  void change_hours(Instant now) {
    const std::unique_lock lock(changing, std::try_to_lock);
    if (!lock) return;
    turn_to(now);
    renew();
  }

  // With `changing` held. Somebody else may have been here before.
  void turn_to(Instant now) {
    const policy::PolicySet& written = policies_of(policies);
    const auto changes = policy::changes_until(policy::schedules_of(written), rules->span, now,
                                               policy::ends_of(written));
    if (changes.empty()) return;
    std::shared_ptr<const Rules> next = rules;
    for (const Instant at : changes) {
      next = engine::at_other_hours(written, *next, table->seed(), at, names);
    }
    publish(std::move(next));
  }

  Verdict throttle(const core::Limit& limit, std::uint64_t identity, std::string_view key,
                   const core::Ask& ask) {
    thread_local std::string unused;
    const auto checked = policy::key_of({.key = key, .parts = {}}, {}, unused);
    if (!checked) return error_of({.error = checked.error().message});
    const bool has_record = std::holds_alternative<core::ExactLog>(limit);
    const auto print = [&](store::KeyKind kind, std::string_view bytes) {
      return store::fingerprint(table->seed(), identity, kind, bytes, has_record);
    };
    const store::Item item{.limit = &limit,
                           .key = print(store::KeyKind::whole, checked->bytes),
                           .sharing = print(store::KeyKind::sharing, {}),
                           .ask = ask};
    static constexpr std::string_view name = "0";
    Verdict verdict{.decision = table->take({&item, 1}, now()).decision, .limited_by = name};
    if (!verdict.decision) verdict.refusing = 1;
    if (sink != nullptr) {
      const Request request{.policy = {}, .key = key, .permits = ask.cost};
      sink->on_decision({.policy = {},
                         .request = request,
                         .verdict = verdict,
                         .limits = {&name, 1},
                         .permits = ask.cost});
    }
    return verdict;
  }

  // Constant after construction.
  const std::unique_ptr<store::Table> table;
  const Clock& clock;
  DecisionSink* const sink;
  const std::string note;
  const Instant earliest;
  const Nanos ahead;
  const std::uint64_t id = next_engine_id();

  // Held by who makes other rules, which may take a while.
  std::mutex changing;
  PolicySet policies;
  engine::Names names;

  // Changed under both, read under either.
  std::mutex mutex;
  std::shared_ptr<const Rules> rules;

  std::atomic<std::uint64_t> generation{0};
  std::atomic<std::uint64_t> edition{0};
};

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
  auto table = store::Table::open(options.memory, options.clock->now(), opened);
  if (!table) return table.error();
  const Nanos lead = lead_over(options.clock->now(), (*table)->resumes_at());
  auto impl = std::make_unique<Impl>(*std::move(table), options,
                                     note_on(opened, options.memory.state_file, lead));
  impl->replace(std::move(policies));
  return Engine(std::move(impl));
}

Engine::~Engine() = default;
Engine::Engine(Engine&& other) noexcept = default;
Engine& Engine::operator=(Engine&& other) noexcept = default;

const std::string& Engine::opening_note() const noexcept { return impl_->note; }

void Engine::replace(PolicySet policies) { impl_->replace(std::move(policies)); }

std::uint64_t Engine::generation() const noexcept { return impl_->generation.load(); }

Instant Engine::now() const noexcept { return impl_->now(); }

MemoryUse Engine::memory() const { return impl_->table->use(impl_->now()); }

// ---- Deciding

Verdict Engine::take(const Request& request) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Verb::take, now, items);
  if (planned.policy == nullptr) return error_of(std::move(planned));
  return impl_->decide(planned, items, request, now, {}, {});
}

Verdict Engine::take(const Request& request, Receipt& receipt) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Verb::take, now, items);
  if (planned.policy == nullptr) return error_of(std::move(planned));
  CoreReceipts receipts{};
  Resets resets{};
  for (std::size_t i = 0; i < items.size(); ++i) resets[i] = impl_->table->resets_of(items[i].key);
  const Verdict verdict =
      impl_->decide(planned, items, request, now, {}, std::span(receipts).first(items.size()));
  if (!verdict) return verdict;
  receipt.impl_ = std::make_unique<Receipt::Impl>();
  receipt.impl_->entries.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    receipt.impl_->entries.push_back({items[i].key, resets[i], receipts[i]});
  }
  return verdict;
}

void Engine::take_all(std::span<const Request> requests, std::span<Verdict> verdicts) {
  if (requests.size() == 1) {
    verdicts[0] = take(requests[0]);
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
    std::array<Planned, at_a_time> planned;
    for (std::size_t i = 0; i < some.size(); ++i) {
      planned[i] = engine::plan(rules, some[i], Verb::take, impl_->table->seed(), items[i]);
      for (const store::Item& item : items[i]) impl_->table->prefetch(item.key);
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      verdicts[first + i] = planned[i].policy == nullptr
                                ? error_of(std::move(planned[i]))
                                : impl_->decide(planned[i], items[i], some[i], now, {}, {});
    }
  }
  last_used = std::move(lent);
}

Verdict Engine::peek(const Request& request, std::string_view holder) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Verb::peek, now, items);
  if (planned.policy == nullptr) return error_of(std::move(planned));
  if (planned.blocked_until) return engine::blocked(*planned.blocked_until, now);
  const core::HolderId id = holder.empty() ? core::HolderId{} : impl_->holder_id(holder);
  return engine::judge(*planned.limits, impl_->table->peek(items, now, id));
}

Verdict Engine::settle(const Request& request, Receipt& receipt) {
  return impl_->settle(request, receipt.impl_.get());
}

Verdict Engine::settle(const Request& request) { return impl_->settle(request, nullptr); }

Verdict Engine::enter(const Request& request, std::string_view holder) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Verb::enter, now, items);
  if (planned.policy != nullptr && holder.empty()) planned = {.error = "the holder is empty"};
  if (planned.policy == nullptr) return error_of(std::move(planned));
  return impl_->decide(planned, items, request, now, impl_->holder_id(holder), {});
}

bool Engine::leave(const Request& request, std::string_view holder) {
  Items items;
  const Instant now = impl_->now();
  const Planned planned = impl_->plan(request, Verb::leave, now, items);
  if (planned.policy == nullptr || holder.empty()) return false;
  return impl_->table->leave(items, now, impl_->holder_id(holder));
}

// (Identities of policies start with a number.)
Verdict Engine::throttle(const Limit& limit, std::string_view key, Permits permits,
                         std::optional<Nanos> max_wait) {
  const core::Limit& rule = rule_of(limit);
  if (std::holds_alternative<core::Concurrency>(rule)) {
    return error_of({.error = "a concurrent limit is entered and left: give it to a policy"});
  }
  const std::string known_by = "throttle" + policy::identities_of("", {{.rule = rule}}).front();
  const Nanos patience = core::is_queue(rule) ? kForever : Nanos{0};
  return impl_->throttle(rule, store::hash_of(known_by).low, key,
                         {.cost = permits, .max_wait = max_wait.value_or(patience)});
}

Verdict detail::EngineAccess::throttle(Engine& engine, const core::Cell& limit,
                                       std::string_view key, Permits permits) {
  static const std::uint64_t identity = store::hash_of("cl.throttle").low;
  return engine.impl_->throttle(limit, identity, key, {.cost = permits});
}

std::optional<Error> Engine::reset(const Request& request) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Verb::reset, now, items);
  if (planned.policy == nullptr) return Error{std::move(planned.error)};
  impl_->table->reset(items, now);
  return std::nullopt;
}

Result<std::vector<LimitState>, Error> Engine::explain(const Request& request) {
  Items items;
  const Instant now = impl_->now();
  Planned planned = impl_->plan(request, Verb::peek, now, items);
  if (planned.policy == nullptr) return Error{std::move(planned.error)};
  std::vector<LimitState> states;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const engine::Rule& rule = planned.limits->rules[i];
    store::Item item = items[i];
    item.shadow = false;  // its own answer, not what comes of it
    states.push_back({.name = std::string{planned.limits->names[i]},
                      .limit = policy::to_text(rule.limit),
                      .cost = item.ask.cost,
                      .shadow = rule.shadow,
                      .decision = impl_->table->peek({&item, 1}, now).decision});
  }
  return states;
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
