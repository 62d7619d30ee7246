#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/lease/ledger.h"
#include "store/memory/table.h"
#include "store/shared_store.h"
#include "store/why_not_shareable.h"
#include "weir/clock.h"
#include "weir/fleet.h"

namespace weir {

// A fake of a store that nodes share, in this process. It answers when it is told to, or not at
// all.
class FakeFleet final : public Fleet {
 public:
  // `loses`: the store executes the command, and its answer is lost.
  enum class Mode { answers, waits, unavailable, misconfigured, loses };

  std::unique_ptr<Link> connect() override { return std::make_unique<FakeLink>(*this); }

  std::uint32_t nodes() const noexcept override { return node_count; }
  std::uint32_t node_count = 1;

  bool is_member() const noexcept override { return member; }
  bool is_misconfigured() const noexcept override { return mistaken; }
  std::uint64_t membership_version() const noexcept override { return steps.size(); }
  Membership membership(std::uint64_t since) const override {
    return {.version = steps.size(),
            .steps = {steps.begin() + static_cast<long>(since), steps.end()}};
  }
  // Sets the position of this node among `nodes`, in force since `ago`.
  void stands(std::uint32_t rank, std::uint32_t nodes, Nanos ago = Nanos{0}) {
    stands({{.nodes = nodes, .rank = rank}}, ago);
  }
  void stands(std::vector<Membership::NodeRank> places, Nanos ago = Nanos{0}) {
    steps.push_back({.ago = ago, .places = std::move(places)});
    member = true;
  }
  bool member = false;
  bool mistaken = false;
  std::vector<Membership::Step> steps;

  // Answers the queries that were waiting.
  void deliver() {
    for (auto waiting = std::exchange(waiting_, {}); const auto& answer : waiting) answer();
  }
  std::size_t waiting() const { return waiting_.size(); }

  Nanos timeout = std::chrono::milliseconds{50};  // the timeout that it reports
  // The remaining time of each query; none: the full timeout.
  std::vector<std::optional<Nanos>> within;

  ManualClock clock;  // a private clock
  Mode mode = Mode::answers;
  std::vector<std::string> asked;     // the names of all queried keys
  std::vector<std::string> borrowed;  // the names of keys with lease queries

  // The leased and the remaining permits of a key, to inspect and to lose.
  std::map<std::string, store::lease::Ledger, std::less<>> ledgers;

 private:
  class FakeLink final : public Link, public store::SharedStore {
   public:
    explicit FakeLink(FakeFleet& fleet) : fleet_(fleet) {}
    int descriptor() const noexcept override { return -1; }
    void run_ready() override {
      for (const AttachedTask& one : tasks) {
        if (one.task->due_in() <= Nanos{0}) one.task->on_due();
        one.task->run_maintenance();
      }
    }
    void flush() override {}
    void wait(Nanos) override { fleet_.deliver(); }
    void ask(const store::StoreRequest& question, store::StoreCallback& asker) override {
      for (const store::StoreItem& item : question.items) fleet_.asked.emplace_back(item.key);
      fleet_.within.push_back(question.within);
      fleet_.soon([this, &question, &asker] { fleet_.answer(question, asker); });
    }
    void request_lease(const store::LeaseRequest& question,
                       store::LeaseCallback& borrower) override {
      fleet_.borrowed.emplace_back(question.key);
      fleet_.soon([this, &question, &borrower] { fleet_.answer(question, borrower); });
    }
    Nanos timeout() const override { return fleet_.timeout; }

   private:
    store::SharedStore& store() noexcept override { return *this; }
    FakeFleet& fleet_;
  };

  void soon(std::function<void()> answer) {
    if (mode == Mode::waits) {
      waiting_.push_back(std::move(answer));
    } else {
      answer();
    }
  }

  // The failure returned instead of an answer, if any.
  template <typename Answer>
  bool fails(Answer& answer) const {
    using Kind = store::StoreResponse::Kind;
    if (mode == Mode::answers || mode == Mode::waits) return false;
    answer = {};
    answer.kind = mode == Mode::misconfigured ? Kind::misconfigured : Kind::unavailable;
    answer.error = "it is not there";
    return true;
  }
  bool hears() const { return mode != Mode::unavailable && mode != Mode::misconfigured; }

  void answer(const store::StoreRequest& question, store::StoreCallback& asker) {
    store::StoreResponse answer;
    answer.kind = store::StoreResponse::Kind::decided;
    if (hears()) is_lent(question) ? decide_on_ledgers(question, answer) : decide(question, answer);
    fails(answer);
    asker.on_response(answer);
  }

  void answer(const store::LeaseRequest& question, store::LeaseCallback& borrower) {
    store::LeaseResponse answer;
    if (hears()) {
      answer = lend(*question.limit, ledgers[std::string(question.key)], clock.now(), question);
    }
    fails(answer);
    borrower.on_lease(answer);
  }

  // True if permits of this key are leased. (Then all other keys have ledgers as well.)
  bool is_lent(const store::StoreRequest& question) const {
    const auto has_ledger = [&](const store::StoreItem& item) {
      return ledgers.find(item.key) != ledgers.end();
    };
    const auto could_have = [](const store::StoreItem& item) {
      return !store::why_not_leasable(*item.limit);
    };
    return std::any_of(question.items.begin(), question.items.end(), has_ledger) &&
           std::all_of(question.items.begin(), question.items.end(), could_have);
  }

  // As a script without leases: works on the used permits.
  void decide_on_ledgers(const store::StoreRequest& question, store::StoreResponse& answer) {
    std::vector<core::Charge> charges;
    std::vector<core::Receipt> receipts(question.items.size());
    for (std::size_t i = 0; i < question.items.size(); ++i) {
      const store::StoreItem& item = question.items[i];
      charges.push_back({.limit = item.limit,
                         .memory = &ledgers[std::string(item.key)].state,
                         .ask = item.ask,
                         .shadow = item.shadow});
      if (i < question.receipts.size()) receipts[i] = question.receipts[i].receipt;
    }
    const Instant now = answer.now = clock.now();
    answer.decisions.resize(charges.size());
    switch (question.verb) {
      case store::StoreVerb::take:
      case store::StoreVerb::enter:
        answer.verdict = core::take(charges, now, {}, receipts, answer.decisions);
        for (const core::Receipt& receipt : receipts) answer.receipts.push_back({receipt, 1});
        break;
      case store::StoreVerb::settle:
        answer.verdict = core::settle(charges, now, receipts, answer.decisions);
        for (std::size_t i = 0; i < question.receipts.size(); ++i) {
          question.receipts[i].receipt = receipts[i];
        }
        break;
      case store::StoreVerb::reset:
        for (const core::Charge& charge : charges) core::reset(charge.memory);
        break;
      case store::StoreVerb::peek:
      case store::StoreVerb::leave:
      case store::StoreVerb::start:
        answer.verdict = core::peek(charges, now, {}, answer.decisions);
        break;
    }
  }

  void decide(const store::StoreRequest& question, store::StoreResponse& answer) {
    std::vector<store::Item> items;
    for (const store::StoreItem& item : question.items) {
      const bool has_record = std::holds_alternative<core::SlidingLog>(*item.limit) ||
                              std::holds_alternative<core::Concurrency>(*item.limit);
      items.push_back(
          {.limit = item.limit,
           .key = store::fingerprint(table_.seed(), 1, store::KeyKind::whole, item.key, has_record),
           .ask = item.ask,
           .shadow = item.shadow});
    }
    const Instant now = answer.now = clock.now();
    const store::Hash128 hash = store::hash_of(question.holder);
    const core::HolderId holder{.high = hash.high, .low = hash.low};
    std::vector<core::Receipt> receipts(items.size());
    for (std::size_t i = 0; i < question.receipts.size(); ++i) {
      receipts[i] = question.receipts[i].receipt;
    }
    switch (question.verb) {
      case store::StoreVerb::take:
      case store::StoreVerb::enter:
        answer.verdict = table_.take(items, now, holder, receipts);
        for (const core::Receipt& receipt : receipts) answer.receipts.push_back({receipt, 1});
        break;
      case store::StoreVerb::peek:
        answer.verdict = table_.peek(items, now, holder);
        break;
      case store::StoreVerb::settle:
        answer.verdict = table_.settle(items, now, receipts);
        for (std::size_t i = 0; i < receipts.size(); ++i) {
          question.receipts[i].receipt = receipts[i];
        }
        break;
      case store::StoreVerb::reset:
        table_.reset(items, now);
        break;
      case store::StoreVerb::leave:
        answer.left = table_.leave(items, now, holder);
        break;
      case store::StoreVerb::start:
        break;
    }
    for (store::Item item : items) {
      item.shadow = false;
      answer.decisions.push_back(table_.peek({&item, 1}, now, holder).decision);
    }
  }

  std::deque<std::function<void()>> waiting_;
  store::Table table_{*store::TableLayout::fitting(std::size_t{1} << 20, std::size_t{1} << 18)};
};

}  // namespace weir
