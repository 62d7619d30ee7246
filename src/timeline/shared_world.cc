#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "store/key_name.h"
#include "store/shared_store.h"
#include "store/why_not_shareable.h"
#include "timeline/case_limits.h"
#include "timeline/world.h"

namespace weir::timeline {

namespace {

// Waits for the store's answer.
class Awaited final : public store::StoreCallback {
 public:
  void on_response(store::StoreResponse& answer) override {
    answer_ = std::move(answer);
    has_come_ = true;
  }
  bool has_come() const { return has_come_; }
  store::StoreResponse& answer() { return answer_; }

 private:
  store::StoreResponse answer_;
  bool has_come_ = false;
};

// Runs a case on a shared store, under the test prefix, where the caller's time is honoured. There
// is one clock here, so that a changed limit knows the time of its change.
class SharedWorld final : public World {
 public:
  SharedWorld(const Case& test, SharedStoreAccess way)
      : case_(test), way_(std::move(way)), limits_(test) {}

  ArrivalResult apply(const Step& step, Instant now) override {
    if (step.op == Op::set_limit) {
      if (limits_.set_limit(step, now)) ++lives_[limits_.identity_at(step.limit_position)];
      return {};
    }
    limits_.advance(now);
    const LimitGroup& together = limits_.of(step.subject);
    const std::vector<std::string> keys = keys_of(step.subject, together);
    if (keys.size() < together.limits.size()) {
      return {.decision = {.outcome = core::Outcome::impossible, .retry_after = core::kNever}};
    }
    store::StoreResponse answer = decide(step, together, keys, now);
    if (answer.kind != store::StoreResponse::Kind::decided) {
      return {.error = answer.error.empty() ? "the store has not answered" : answer.error};
    }
    const auto& limits = case_.keyed_policy ? together.limits : case_.limits;
    return {.decision = answer.verdict.decision,
            .tightest = answer.verdict.tightest,
            .name = limits[answer.verdict.tightest].name};
  }

 private:
  std::vector<std::string> keys_of(const StepSubject& subject, const LimitGroup& together) {
    std::vector<std::string> keys;
    const Parts parts = subject.borrowed_parts();
    for (std::size_t i = 0; i < together.limits.size(); ++i) {
      std::string buffer;
      const auto key =
          policy::key_of({.key = subject.key, .parts = parts.all()}, together.limits[i].by, buffer);
      if (!key) return {};
      const std::string& identity = together.identities[i];
      std::string& name = keys.emplace_back(store::test_key_prefix(way_.run));
      store::append_whole_key(name, key->bytes);
      name += store::key_suffix(fmt::format("{} {}", lives_[identity], identity));
      begin(together.limits[i].limit, name);
    }
    return keys;
  }

  // Sets the initial state of a key when the case first uses it.
  void begin(const core::Limit& limit, const std::string& name) {
    const auto* smooth = std::get_if<core::Smooth>(&limit);
    if (!case_.start_empty || smooth == nullptr || smooth->warms_up()) return;
    if (!begun_.insert(name).second) return;
    const store::StoreItem item{
        .limit = &limit, .key = name, .start = core::created_empty(case_.epoch)};
    (void)ask({.verb = store::StoreVerb::start, .items = {&item, 1}, .now = case_.epoch});
  }

  store::StoreResponse decide(const Step& step, const LimitGroup& together,
                              const std::vector<std::string>& keys, Instant now) {
    std::vector<store::StoreItem> items;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const policy::Limit& limit = together.limits[i];
      items.push_back({.limit = &limit.limit,
                       .key = keys[i],
                       .ask = ask_of(step, limit),
                       .shadow = limit.shadow,
                       .history = limits_.history_of(together, i)});
    }
    const std::string holder = step.holder.empty() ? anonymous() : "named " + step.holder;
    switch (step.op) {
      case Op::take:
        return take(store::StoreVerb::take, items, {}, now);
      case Op::enter:
        return take(store::StoreVerb::enter, items, holder, now);
      case Op::peek:
        return ask({.verb = store::StoreVerb::peek, .items = items, .holder = holder, .now = now});
      case Op::settle:
        return settle(items, now);
      case Op::leave:
        return leave(items, holder, now);
      case Op::reset:
        return ask({.verb = store::StoreVerb::reset, .items = items, .now = now});
      case Op::set_limit:
        break;
    }
    return {};
  }

  store::StoreResponse take(store::StoreVerb verb, std::span<const store::StoreItem> items,
                            std::string_view holder, Instant now) {
    store::StoreResponse answer =
        ask({.verb = verb, .items = items, .holder = holder, .wants_receipts = true, .now = now});
    for (std::size_t i = 0; i < answer.receipts.size(); ++i) {
      receipts_[std::string{items[i].key}] = answer.receipts[i];
    }
    return answer;
  }

  store::StoreResponse settle(std::span<const store::StoreItem> items, Instant now) {
    std::vector<store::StoreReceipt> receipts;
    for (const auto& item : items) receipts.push_back(receipts_[std::string{item.key}]);
    store::StoreResponse answer =
        ask({.verb = store::StoreVerb::settle, .items = items, .receipts = receipts, .now = now});
    for (std::size_t i = 0; i < items.size(); ++i) {
      receipts_[std::string{items[i].key}] = receipts[i];
    }
    return answer;
  }

  store::StoreResponse leave(std::span<const store::StoreItem> items, std::string_view holder,
                             Instant now) {
    const store::StoreResponse gone =
        ask({.verb = store::StoreVerb::leave, .items = items, .holder = holder, .now = now});
    if (gone.kind != store::StoreResponse::Kind::decided) return gone;
    const std::string nobody = anonymous();
    store::StoreResponse answer =
        ask({.verb = store::StoreVerb::peek, .items = items, .holder = nobody, .now = now});
    answer.verdict.decision.outcome = gone.left ? core::Outcome::allowed : core::Outcome::limited;
    return answer;
  }

  store::StoreResponse ask(const store::StoreRequest& question) {
    Awaited awaited;
    way_.store->ask(question, awaited);
    while (!awaited.has_come()) way_.wait();
    return std::move(awaited.answer());
  }

  std::string anonymous() { return fmt::format("nobody {}", ++anonymous_); }

  const Case& case_;
  SharedStoreAccess way_;
  CaseLimits limits_;
  std::unordered_map<std::string, int> lives_;  // counts changes of algorithm, by limit
  std::unordered_map<std::string, store::StoreReceipt> receipts_;  // of the last take of each key
  std::unordered_set<std::string> begun_;
  std::uint64_t anonymous_ = 0;
};

std::optional<std::string> unfit_limit(const std::vector<policy::Limit>& limits) {
  for (const policy::Limit& limit : limits) {
    if (auto flaw = store::why_not_shareable(limit.limit)) return flaw;
  }
  return std::nullopt;
}

std::optional<std::string> unfit_policy(const policy::Policy& policy) {
  if (auto flaw = unfit_limit(policy.limits)) return flaw;
  for (const auto& own : policy.overrides) {
    if (auto flaw = unfit_limit(own.limits)) return flaw;
  }
  for (const auto& hours : policy.schedule) {
    if (auto flaw = unfit_limit(hours.limits)) return flaw;
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<World> make_shared_world(const Case& test, SharedStoreAccess way) {
  return std::make_unique<SharedWorld>(test, std::move(way));
}

std::optional<std::string> why_not_on_shared_store(const Case& test) {
  if (auto flaw = test.keyed_policy ? unfit_policy(*test.keyed_policy) : unfit_limit(test.limits))
    return flaw;
  for (const Step& step : test.steps) {
    if (step.op == Op::set_limit) {
      if (auto flaw = store::why_not_shareable(step.limit.limit)) return flaw;
    }
  }
  return std::nullopt;
}

}  // namespace weir::timeline
