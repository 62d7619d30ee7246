#include "weir/async_engine.h"

#include <array>

#include "core/node_share.h"
#include "engine/engine_access.h"
#include "engine/fleet_call.h"
#include "limiter/limit_access.h"
#include "store/key_name.h"
#include "store/link_access.h"

namespace weir {
inline namespace v0 {

using engine::error_verdict;
using engine::Items;
using engine::Operation;
using engine::Planned;
using engine::Throttle;

namespace {

OperationError trouble_of(Planned planned) {
  return {.message = std::move(planned.error), .fault = planned.fault};
}

}  // namespace

void AsyncEngine::take(const Request& request, VerdictCallback done) {
  const auto verdict = take_now_or(request, [&done] { return std::move(done); });
  if (verdict) done(*verdict);
}

std::optional<Verdict> AsyncEngine::take_now_or(const Request& request,
                                                const std::function<VerdictCallback()>& later) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Operation::take, now, items);
  if (planned.policy == nullptr) return error_verdict(std::move(planned));
  if (!planned.asks_fleet() || planned.has_verdict()) {
    return engine.decide(planned, items, request, now, {}, {});
  }
  if (planned.limits->has_leased && !planned.limits->has_unleased) {
    if (auto verdict = FleetCall::at_once(engine, *link_, planned, items, now, request))
      return verdict;
  }
  FleetCall::start(engine, *link_, planned, items, now,
                   {.operation = Operation::take, .request = request}, later());
  return std::nullopt;
}

void AsyncEngine::take(const Request& request, std::function<void(const Verdict&, Receipt)> done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Operation::take, now, items);
  if (planned.policy == nullptr) return done(error_verdict(std::move(planned)), Receipt{});
  if (!planned.asks_fleet() || planned.has_verdict()) {
    Receipt receipt;
    const Verdict verdict = engine.take_on_node(planned, items, request, now, receipt);
    return done(verdict, std::move(receipt));
  }
  FleetCall::start(engine, *link_, planned, items, now,
                   {.operation = Operation::take, .request = request, .wants_receipt = true},
                   [done = std::move(done)](FleetCall::FleetCallResult& result) {
                     Receipt receipt;
                     receipt.impl_ = std::move(result.receipt);
                     done(result.verdict, std::move(receipt));
                   });
}

void AsyncEngine::peek(const Request& request, std::string_view holder, VerdictCallback done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Operation::peek, now, items);
  if (planned.policy == nullptr) return done(error_verdict(std::move(planned)));
  if (!planned.asks_fleet() || planned.has_verdict()) {
    return done(engine.peek_on_node(planned, items, now, holder));
  }
  FleetCall::start(engine, *link_, planned, items, now,
                   {.operation = Operation::peek, .request = request, .holder = holder},
                   std::move(done));
}

void AsyncEngine::settle(const Request& request, Receipt* receipt, VerdictCallback done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Operation::settle, now, items);
  if (planned.policy == nullptr) return done(error_verdict(std::move(planned)));
  if (!planned.asks_fleet()) return done(engine.settle_on_node(planned, items, now, receipt));
  FleetCall::start(engine, *link_, planned, items, now,
                   {.operation = Operation::settle,
                    .request = request,
                    .receipt = receipt != nullptr ? receipt->impl_.get() : nullptr},
                   std::move(done));
}

void AsyncEngine::settle(const Request& request, Receipt& receipt, VerdictCallback done) {
  settle(request, &receipt, std::move(done));
}
void AsyncEngine::settle(const Request& request, VerdictCallback done) {
  settle(request, nullptr, std::move(done));
}

void AsyncEngine::enter(const Request& request, std::string_view holder, VerdictCallback done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Operation::enter, now, items);
  if (planned.policy != nullptr && holder.empty())
    planned = {.fault = Fault::key, .error = "the holder is empty"};
  if (planned.policy == nullptr) return done(error_verdict(std::move(planned)));
  if (!planned.asks_fleet() || planned.has_verdict()) {
    return done(engine.decide(planned, items, request, now, engine.holder_id(holder), {}));
  }
  FleetCall::start(engine, *link_, planned, items, now,
                   {.operation = Operation::enter, .request = request, .holder = holder},
                   std::move(done));
}

OperationError AsyncEngine::no_answer(const std::string& why) {
  return {.message = "the store could not be asked: " + why, .fleet = true};
}

void AsyncEngine::leave(const Request& request, std::string_view holder,
                        std::function<void(Result<bool, OperationError>)> done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Operation::leave, now, items);
  if (planned.policy == nullptr) return done(trouble_of(std::move(planned)));
  if (holder.empty()) return done(false);
  if (!planned.asks_fleet()) {
    return done(engine.table->leave(items, now, engine.holder_id(holder)));
  }
  FleetCall::start(engine, *link_, planned, items, now,
                   {.operation = Operation::leave, .request = request, .holder = holder},
                   [done = std::move(done)](FleetCall::FleetCallResult& result) {
                     if (result.failure.empty() || result.left) return done(result.left);
                     done(no_answer(result.failure));
                   });
}

void AsyncEngine::reset(const Request& request,
                        std::function<void(std::optional<OperationError>)> done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Operation::reset, now, items);
  if (planned.policy == nullptr) return done(trouble_of(std::move(planned)));
  if (!planned.asks_fleet()) {
    engine.table->reset(items, now);
    return done(std::nullopt);
  }
  FleetCall::start(engine, *link_, planned, items, now,
                   {.operation = Operation::reset, .request = request},
                   [done = std::move(done)](FleetCall::FleetCallResult& result) {
                     if (result.failure.empty()) return done(std::nullopt);
                     done(no_answer(result.failure));
                   });
}

void AsyncEngine::explain(const Request& request,
                          std::function<void(Result<Explanation, OperationError>)> done) {
  Engine::Impl& engine = *engine_->impl_;
  Items items;
  const Instant now = engine.now();
  Planned planned = engine.plan(request, Operation::peek, now, items);
  if (planned.policy == nullptr) return done(trouble_of(std::move(planned)));
  if (!planned.asks_fleet()) {
    return done(Explanation{engine.peek_on_node(planned, items, now, {}),
                            engine.states_on_node(planned, items, now)});
  }
  std::vector<Permits> costs;
  for (const store::Item& item : items) costs.push_back(item.ask.cost);
  const auto blocked_until = planned.blocked_until;
  const auto refusal = planned.split.refusal;
  FleetCall::start(
      engine, *link_, planned, items, now, {.operation = Operation::peek, .request = request},
      [done = std::move(done), costs = std::move(costs), blocked_until, refusal, now,
       limits = planned.limits,
       rules = engine.rules_of_last_plan()](FleetCall::FleetCallResult& result) {
        if (!result.failure.empty()) return done(no_answer(result.failure));
        Explanation explanation{.verdict = refusal.value_or(result.verdict)};
        if (blocked_until) explanation.verdict = engine::blocked_verdict(*blocked_until, now);
        for (std::size_t i = 0; i < costs.size(); ++i) {
          explanation.limits.push_back(engine::state_of(*limits, i, costs[i], result.decisions[i]));
        }
        done(std::move(explanation));
      });
}

void AsyncEngine::return_leases() { engine_->impl_->return_leases(*link_); }

// ---- Ad-hoc limits

// Asks the fleet. Without an answer this node decides.
class AsyncEngine::ThrottleCall final : public store::StoreCallback {
 public:
  static void start(Engine::Impl& engine, Link& link, Throttle throttle, std::string_view key,
                    VerdictCallback done) {
    auto* call = new ThrottleCall(engine, std::move(throttle), key, std::move(done));
    detail::LinkAccess::store(link).ask(call->question_, *call);
  }

  void on_response(store::StoreResponse& answer) override {
    const std::unique_ptr<ThrottleCall> self(this);
    if (answer.kind != store::StoreResponse::Kind::decided) {
      throttle_.limit = core::divide_among(throttle_.limit, engine_.fleet->nodes());
      return done_(engine_.throttle(throttle_, key_, true));
    }
    const Verdict verdict = engine::throttled(answer.verdict.decision);
    engine_.notify_sink(key_, throttle_.ask.cost, verdict);
    done_(verdict);
  }

 private:
  ThrottleCall(Engine::Impl& engine, Throttle throttle, std::string_view key, VerdictCallback done)
      : engine_(engine), throttle_(std::move(throttle)), key_(key), done_(std::move(done)) {
    name_ = store::key_prefix({});
    store::append_whole_key(name_, key_);
    name_ += throttle_.tail;
    item_ = {.limit = &throttle_.limit, .key = name_, .ask = throttle_.ask};
    question_.items = {&item_, 1};
  }

  Engine::Impl& engine_;
  Throttle throttle_;
  const std::string key_;
  const VerdictCallback done_;
  std::string name_;
  store::StoreItem item_{};
  store::StoreRequest question_{};
};

void AsyncEngine::throttle(Engine::Impl& engine, Link& link, Throttle throttle,
                           std::string_view key, VerdictCallback done) {
  if (!throttle.error.empty())
    return done(error_verdict({.fault = Fault::verb, .error = throttle.error}));
  if (engine.fleet == nullptr) return done(engine.throttle(throttle, key));
  if (const auto item = throttle.item(engine.target.seed, key); !item) {
    return done(error_verdict({.fault = Fault::key, .error = item.error().message}));
  }
  ThrottleCall::start(engine, link, std::move(throttle), key, std::move(done));
}

void AsyncEngine::throttle(const Limit& limit, std::string_view key, Permits permits,
                           std::optional<Nanos> max_wait, VerdictCallback done) {
  throttle(*engine_->impl_, *link_, Throttle::of(core_limit_of(limit), permits, max_wait), key,
           std::move(done));
}

void detail::EngineAccess::throttle(AsyncEngine& async, const core::RedisCell& limit,
                                    std::string_view key, Permits permits,
                                    AsyncEngine::VerdictCallback done) {
  AsyncEngine::throttle(*async.engine_->impl_, *async.link_, Throttle::of(limit, permits), key,
                        std::move(done));
}

}  // namespace v0
}  // namespace weir
