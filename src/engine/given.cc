#include "engine/given.h"

#include <memory>

#include "core/node_share.h"
#include "engine/engine_access.h"
#include "engine/engine_impl.h"
#include "store/link_access.h"

namespace weir {
inline namespace v0 {

using engine::GivenAnswer;
using engine::GivenDone;
using engine::GivenLimit;
using engine::GivenQuestion;
using engine::GivenReceipt;
using engine::Items;
using engine::Operation;

namespace {

// (Keys are names of the fleet's: no two limits that are asked in different ways share one.)
std::uint64_t given_identity() {
  static const std::uint64_t identity = store::hash_of("given").low;
  return identity;
}

// An item for each limit, in a table with that seed.
void add_items(std::span<const GivenLimit> limits, std::uint64_t seed, Items& items) {
  for (const GivenLimit& limit : limits) {
    items.emplace_back(store::Item{
        .limit = limit.limit,
        .key = store::fingerprint(seed, given_identity(), store::KeyKind::whole, limit.key, false),
        .overflow_key =
            store::fingerprint(seed, limit.identity, store::KeyKind::overflow, {}, false),
        .ask = limit.ask,
        .shadow = limit.shadow});
  }
}

void settle_here(store::Table& table, const GivenQuestion& question, const Items& items,
                 GivenAnswer& answer) {
  FixedVector<core::Receipt, core::kMaxLimits> receipts;
  FixedVector<std::uint32_t, core::kMaxLimits> resets;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool given = i < question.receipts.size() && !question.receipts[i].shared;
    receipts.emplace_back(given ? question.receipts[i].receipt.receipt : core::Receipt{});
    resets.emplace_back(given ? question.receipts[i].resets : 0);
  }
  answer.verdict = table.settle(items, answer.now, receipts, resets, answer.decisions);
  for (std::size_t i = 0; i < question.receipts.size(); ++i) {
    if (!question.receipts[i].shared) question.receipts[i].receipt.receipt = receipts[i];
  }
}

void take_here(store::Table& table, const GivenQuestion& question, const Items& items,
               GivenAnswer& answer) {
  if (!question.wants_receipts) {
    answer.verdict = table.take(items, answer.now, {}, {}, answer.decisions);
    return;
  }
  std::array<core::Receipt, core::kMaxLimits> receipts{};
  FixedVector<std::uint32_t, core::kMaxLimits> resets;
  for (const store::Item& item : items) resets.emplace_back(table.resets_of(item.key));
  answer.verdict =
      table.take(items, answer.now, {}, std::span(receipts).first(items.size()), answer.decisions);
  if (!answer.verdict.decision) return;
  for (std::size_t i = 0; i < items.size(); ++i) {
    answer.receipts.push_back({.resets = resets[i], .receipt = {.receipt = receipts[i]}});
  }
}

// In the table of this node.
void decide_here(store::Table& table, const GivenQuestion& question, const Items& items,
                 Instant now, GivenAnswer& answer) {
  answer.now = now;
  answer.decisions.resize(items.size());
  switch (question.verb) {
    case Operation::settle:
      return settle_here(table, question, items, answer);
    case Operation::peek:
      answer.verdict = table.peek(items, now, {}, answer.decisions);
      return;
    default:
      return take_here(table, question, items, answer);
  }
}

// Whether it is about what this node admitted while the fleet was gone.
bool is_about_here(const GivenQuestion& question) {
  return question.verb == Operation::settle && !question.receipts.empty() &&
         !question.receipts.front().shared && question.receipts.front().receipt.receipt.taken > 0;
}

// A question to the fleet. Lives from the question to the answer.
class GivenCall final : public store::StoreCallback {
 public:
  static void start(store::Table& table, const Fleet& fleet, std::function<Instant()> time,
                    Link& link, const GivenQuestion& question, GivenDone done) {
    auto* call = new GivenCall(table, fleet, std::move(time), question, std::move(done));
    detail::LinkAccess::store(link).ask(call->asked_, *call);
  }

  void on_response(store::StoreResponse& answer) override {
    const std::unique_ptr<GivenCall> self(this);
    answer.kind == store::StoreResponse::Kind::decided ? follow(answer) : do_without(answer);
    done_(answer_);
  }

 private:
  GivenCall(store::Table& table, const Fleet& fleet, std::function<Instant()> time,
            const GivenQuestion& question, GivenDone done)
      : table_(table),
        fleet_(fleet),
        time_(std::move(time)),
        question_(question),
        done_(std::move(done)) {
    for (const GivenLimit& limit : question.limits) {
      items_.push_back(
          {.limit = limit.limit, .key = limit.key, .ask = limit.ask, .shadow = limit.shadow});
    }
    asked_ = {.verb = question.verb == Operation::settle ? store::StoreVerb::settle
                      : question.verb == Operation::peek ? store::StoreVerb::peek
                                                         : store::StoreVerb::take,
              .items = items_,
              .wants_receipts = question.wants_receipts};
    if (question.verb == Operation::settle) {
      receipts_.resize(items_.size());
      for (std::size_t i = 0; i < question.receipts.size(); ++i) {
        receipts_[i] = question.receipts[i].receipt;
      }
      asked_.receipts = receipts_;
    }
  }

  void follow(store::StoreResponse& answer) {
    answer_.now = answer.now;
    answer_.verdict = answer.verdict;
    answer_.decisions = answer.decisions;
    for (const store::StoreReceipt& receipt : answer.receipts) {
      if (!answer.verdict.decision) break;
      answer_.receipts.push_back({.shared = true, .receipt = receipt});
    }
    for (std::size_t i = 0; i < question_.receipts.size(); ++i) {
      question_.receipts[i].receipt = receipts_[i];
    }
  }

  void do_without(const store::StoreResponse& answer) {
    answer_.degraded = true;
    answer_.mistaken = answer.kind == store::StoreResponse::Kind::misconfigured;
    answer_.trouble = answer.error;
    if (!question_.may_be_local) return;
    std::vector<core::Limit> shares;
    shares.reserve(question_.limits.size());
    std::vector<GivenLimit> limits(question_.limits.begin(), question_.limits.end());
    for (GivenLimit& limit : limits) {
      limit.limit = &shares.emplace_back(core::divide_among(*limit.limit, fleet_.nodes()));
    }
    Items items;
    add_items(limits, table_.seed(), items);
    decide_here(table_, question_, items, time_(), answer_);
  }

  store::Table& table_;
  const Fleet& fleet_;
  const std::function<Instant()> time_;
  const GivenQuestion question_;
  const GivenDone done_;
  std::vector<store::StoreItem> items_;
  std::vector<store::StoreReceipt> receipts_;
  store::StoreRequest asked_{};
  GivenAnswer answer_{};
};

}  // namespace

void detail::EngineAccess::ask(Engine& engine, Link& link, const GivenQuestion& question,
                               GivenDone done) {
  Engine::Impl& impl = *engine.impl_;
  if (impl.fleet != nullptr && !is_about_here(question)) {
    return GivenCall::start(
        *impl.table, *impl.fleet, [&impl] { return impl.now(); }, link, question, std::move(done));
  }
  thread_local GivenAnswer answer;
  GivenAnswer told = std::exchange(answer, {});  // (whoever is told may ask again)
  told.decisions.clear();
  told.receipts.clear();
  Items items;
  add_items(question.limits, impl.target.seed, items);
  decide_here(*impl.table, question, items, impl.now(), told);
  done(told);
  answer = std::move(told);
}

}  // namespace v0
}  // namespace weir
