#include "weir/async_engine.h"

#include <array>

#include "core/share.h"
#include "engine/engine_access.h"
#include "engine/fleet_call.h"
#include "limiter/limit_access.h"
#include "store/key_name.h"
#include "store/link_access.h"

namespace weir {
inline namespace v0 {

using engine::error_of;
using engine::Items;
using engine::Planned;
using engine::Throttle;
using engine::Verb;

namespace {

Trouble trouble_of(Planned planned) {
  return {.message = std::move(planned.error), .fault = planned.fault};
}

}  // namespace

void AsyncEngine::take(const Request& request, Done done) {
  const auto verdict = take_now_or(request, [&done] { return std::move(done); });
  if (verdict) done(*verdict);
}

std::optional<Verdict> AsyncEngine::take_now_or(const Request& request,
                                                const std::function<Done()>& later) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Verb::take, now, items);
  if (planned.policy == nullptr) return error_of(std::move(planned));
  if (!planned.asks_fleet() || planned.is_decided()) {
    return engine.decide(planned, items, request, now, {}, {});
  }
  if (planned.limits->leases && !planned.limits->asks) {
    if (auto verdict = Call::at_once(engine, *link_, planned, items, now, request)) return verdict;
  }
  Call::start(engine, *link_, planned, items, now, {.verb = Verb::take, .request = request},
              later());
  return std::nullopt;
}

void AsyncEngine::take(const Request& request, std::function<void(const Verdict&, Receipt)> done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Verb::take, now, items);
  if (planned.policy == nullptr) return done(error_of(std::move(planned)), Receipt{});
  if (!planned.asks_fleet() || planned.is_decided()) {
    Receipt receipt;
    const Verdict verdict = engine.take_here(planned, items, request, now, receipt);
    return done(verdict, std::move(receipt));
  }
  Call::start(engine, *link_, planned, items, now,
              {.verb = Verb::take, .request = request, .wants_receipt = true},
              [done = std::move(done)](Call::Result& result) {
                Receipt receipt;
                receipt.impl_ = std::move(result.receipt);
                done(result.verdict, std::move(receipt));
              });
}

void AsyncEngine::peek(const Request& request, std::string_view holder, Done done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Verb::peek, now, items);
  if (planned.policy == nullptr) return done(error_of(std::move(planned)));
  if (!planned.asks_fleet() || planned.is_decided()) {
    return done(engine.peek_here(planned, items, now, holder));
  }
  Call::start(engine, *link_, planned, items, now,
              {.verb = Verb::peek, .request = request, .holder = holder}, std::move(done));
}

void AsyncEngine::settle(const Request& request, Receipt* receipt, Done done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Verb::settle, now, items);
  if (planned.policy == nullptr) return done(error_of(std::move(planned)));
  if (!planned.asks_fleet()) return done(engine.settle_here(planned, items, now, receipt));
  Call::start(engine, *link_, planned, items, now,
              {.verb = Verb::settle,
               .request = request,
               .receipt = receipt != nullptr ? receipt->impl_.get() : nullptr},
              std::move(done));
}

void AsyncEngine::settle(const Request& request, Receipt& receipt, Done done) {
  settle(request, &receipt, std::move(done));
}
void AsyncEngine::settle(const Request& request, Done done) {
  settle(request, nullptr, std::move(done));
}

void AsyncEngine::enter(const Request& request, std::string_view holder, Done done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Verb::enter, now, items);
  if (planned.policy != nullptr && holder.empty())
    planned = {.fault = Fault::key, .error = "the holder is empty"};
  if (planned.policy == nullptr) return done(error_of(std::move(planned)));
  if (!planned.asks_fleet() || planned.is_decided()) {
    return done(engine.decide(planned, items, request, now, engine.holder_id(holder), {}));
  }
  Call::start(engine, *link_, planned, items, now,
              {.verb = Verb::enter, .request = request, .holder = holder}, std::move(done));
}

Trouble AsyncEngine::no_answer(const std::string& why) {
  return {.message = "the store could not be asked: " + why, .fleet = true};
}

void AsyncEngine::leave(const Request& request, std::string_view holder,
                        std::function<void(Result<bool, Trouble>)> done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Verb::leave, now, items);
  if (planned.policy == nullptr) return done(trouble_of(std::move(planned)));
  if (holder.empty()) return done(false);
  if (!planned.asks_fleet()) {
    return done(engine.table->leave(items, now, engine.holder_id(holder)));
  }
  Call::start(engine, *link_, planned, items, now,
              {.verb = Verb::leave, .request = request, .holder = holder},
              [done = std::move(done)](Call::Result& result) {
                if (result.trouble.empty() || result.left) return done(result.left);
                done(no_answer(result.trouble));
              });
}

void AsyncEngine::reset(const Request& request, std::function<void(std::optional<Trouble>)> done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Verb::reset, now, items);
  if (planned.policy == nullptr) return done(trouble_of(std::move(planned)));
  if (!planned.asks_fleet()) {
    engine.table->reset(items, now);
    return done(std::nullopt);
  }
  Call::start(engine, *link_, planned, items, now, {.verb = Verb::reset, .request = request},
              [done = std::move(done)](Call::Result& result) {
                if (result.trouble.empty()) return done(std::nullopt);
                done(no_answer(result.trouble));
              });
}

void AsyncEngine::explain(const Request& request,
                          std::function<void(Result<Explanation, Trouble>)> done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Verb::peek, now, items);
  if (planned.policy == nullptr) return done(trouble_of(std::move(planned)));
  if (!planned.asks_fleet()) {
    return done(Explanation{engine.peek_here(planned, items, now, {}),
                            engine.states_here(planned, items, now)});
  }
  std::vector<Permits> costs;
  for (const store::Item& item : items) costs.push_back(item.ask.cost);
  const auto blocked_until = planned.blocked_until;
  const auto refusal = planned.split.refusal;
  Call::start(
      engine, *link_, planned, items, now, {.verb = Verb::peek, .request = request},
      [done = std::move(done), costs = std::move(costs), blocked_until, refusal, now,
       limits = planned.limits, rules = engine.used_rules()](Call::Result& result) {
        if (!result.trouble.empty()) return done(no_answer(result.trouble));
        Explanation told{.verdict = refusal.value_or(result.verdict)};
        if (blocked_until) told.verdict = engine::blocked(*blocked_until, now);
        for (std::size_t i = 0; i < costs.size(); ++i) {
          told.limits.push_back(engine::state_of(*limits, i, costs[i], result.decisions[i]));
        }
        done(std::move(told));
      });
}

void AsyncEngine::return_leases() { engine_->impl_->return_leases(*link_); }

// ---- Limits that come with a call

// Asks the fleet; without an answer this node decides.
class AsyncEngine::ThrottleCall final : public store::Asker {
 public:
  static void start(Engine::Impl& engine, Link& link, Throttle throttle, std::string_view key,
                    Done done) {
    auto* call = new ThrottleCall(engine, std::move(throttle), key, std::move(done));
    detail::LinkAccess::store(link).ask(call->question_, *call);
  }

  void on_answer(store::SharedAnswer& answer) override {
    const std::unique_ptr<ThrottleCall> self(this);
    if (answer.kind != store::SharedAnswer::Kind::decided) {
      throttle_.limit = core::share_of(throttle_.limit, engine_.fleet->nodes());
      return done_(engine_.throttle(throttle_, key_, true));
    }
    const Verdict verdict = engine::throttled(answer.verdict.decision);
    engine_.tell_sink(key_, throttle_.ask.cost, verdict);
    done_(verdict);
  }

 private:
  ThrottleCall(Engine::Impl& engine, Throttle throttle, std::string_view key, Done done)
      : engine_(engine), throttle_(std::move(throttle)), key_(key), done_(std::move(done)) {
    name_ = store::key_head({});
    store::append_whole(name_, key_);
    name_ += throttle_.tail;
    item_ = {.limit = &throttle_.limit, .key = name_, .ask = throttle_.ask};
    question_.items = {&item_, 1};
  }

  Engine::Impl& engine_;
  Throttle throttle_;
  const std::string key_;
  const Done done_;
  std::string name_;
  store::SharedItem item_{};
  store::SharedQuestion question_{};
};

void AsyncEngine::throttle(Engine::Impl& engine, Link& link, Throttle throttle,
                           std::string_view key, Done done) {
  if (!throttle.error.empty())
    return done(error_of({.fault = Fault::verb, .error = throttle.error}));
  if (engine.fleet == nullptr) return done(engine.throttle(throttle, key));
  if (const auto item = throttle.item(engine.place.seed, key); !item) {
    return done(error_of({.fault = Fault::key, .error = item.error().message}));
  }
  ThrottleCall::start(engine, link, std::move(throttle), key, std::move(done));
}

void AsyncEngine::throttle(const Limit& limit, std::string_view key, Permits permits,
                           std::optional<Nanos> max_wait, Done done) {
  throttle(*engine_->impl_, *link_, Throttle::of(rule_of(limit), permits, max_wait), key,
           std::move(done));
}

void detail::EngineAccess::throttle(AsyncEngine& async, const core::Cell& limit,
                                    std::string_view key, Permits permits, AsyncEngine::Done done) {
  AsyncEngine::throttle(*async.engine_->impl_, *async.link_, Throttle::of(limit, permits), key,
                        std::move(done));
}

}  // namespace v0
}  // namespace weir
