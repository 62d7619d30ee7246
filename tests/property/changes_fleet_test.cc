// What changes_test.cc shows for one node in memory, for nodes that share a redis-server: whatever
// becomes of a limit, a key is admitted what the rates of each moment have granted.
//
// Time is virtual: all keys are under the prefix of tests, where scripts take the time from the
// question. There Redis lets no key expire within a case, so that is done here.

#include "changes.h"

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/redis_connection.h"
#include "support/redis_server.h"
#include "weir/clock.h"
#include "weir/fleet.h"

namespace weir::changes {
namespace {

using test_support::BlockingStore;
using test_support::RedisServer;

BlockingStore& the_store() {
  static BlockingStore store(RedisServer::shared().socket());
  return store;
}

// The names of one case's keys on Redis, and when they expire.
class TestKeys {
 public:
  explicit TestKeys(const Clock& clock) : clock_(clock) {
    static int runs = 0;
    run_ = "weir1:test:changes" + std::to_string(++runs) + ":";
  }

  Instant now() const { return clock_.now(); }
  // Lives as long as this.
  const std::string& name(std::string_view key) {
    return *names_.insert(run_ + std::string(key)).first;
  }

  // Removes buckets that have come to rest at the price they were last written at, as Redis does
  // with keys that are not of tests. Tells their names as the engine knows them.
  std::vector<std::string> expire() {
    std::vector<std::string> expired;
    for (const std::string& name : names_) {
      std::istringstream text(the_store().connection().say({"GET", name}));
      std::string form;
      std::int64_t price = 0, parts_of_price = 0, parts = 0, birth = 0, marks = 0, seconds = 0;
      text >> form >> price >> parts_of_price >> parts >> birth >> marks >> seconds;
      if (form != "1b" || instant((seconds + 1) * 1'000'000'000) > now()) continue;
      the_store().connection().say({"DEL", name});
      expired.push_back(name.substr(run_.size()));
    }
    return expired;
  }

 private:
  const Clock& clock_;
  std::string run_;
  std::set<std::string, std::less<>> names_;
};

// A link that asks about keys of tests, and answers before it returns.
class TestLink final : public Link, public store::SharedStore {
 public:
  explicit TestLink(TestKeys& keys) : keys_(keys) {}

  int descriptor() const noexcept override { return -1; }
  void run_ready() override {}
  void flush() override {}
  void wait(Nanos) override {}

  void ask(const store::SharedQuestion& question, store::Asker& asker) override {
    std::vector<store::SharedItem> items(question.items.begin(), question.items.end());
    for (store::SharedItem& item : items) item.key = keys_.name(item.key);
    store::SharedQuestion asked = question;
    asked.items = items;
    asked.now = keys_.now();
    store::SharedAnswer answer = the_store().ask(asked);
    if (answer.kind != store::SharedAnswer::Kind::decided) throw std::logic_error(answer.error);
    asker.on_answer(answer);
  }
  void borrow(const store::LoanQuestion& question, store::Borrower& borrower) override {
    store::LoanQuestion asked = question;
    asked.key = keys_.name(question.key);
    asked.now = keys_.now();
    store::LoanAnswer answer = the_store().borrow(asked);
    if (answer.kind != store::SharedAnswer::Kind::decided) throw std::logic_error(answer.error);
    borrower.on_loan(answer);
  }
  Nanos timeout() const override { return kForever; }

 private:
  store::SharedStore& store() noexcept override { return *this; }

  TestKeys& keys_;
};

class TestFleet final : public Fleet {
 public:
  explicit TestFleet(TestKeys& keys) : keys_(keys) {}
  std::unique_ptr<Link> connect() override { return std::make_unique<TestLink>(keys_); }

 private:
  TestKeys& keys_;
};

// One of the nodes, and what it knows of the settings.
struct Node {
  Node(TestKeys& keys, const Clock& of_all) : fleet(keys), clock(of_all) { open(); }

  void open() {
    engine.reset();
    engine.emplace(
        policies_under(settings, "fleet"),
        EngineOptions{.memory = {.bytes = std::size_t{1} << 18}, .clock = &clock, .fleet = &fleet});
    rates.set(settings, clock.now());
  }
  void learn(const Settings& next) {
    settings = next;
    engine->replace(policies_under(settings, "fleet"));
    rates.set(settings, clock.now());
  }

  TestFleet fleet;
  const Clock& clock;
  Settings settings{};
  Rates rates{};
  std::optional<Engine> engine{};
};

enum class Learning {
  together,  // all nodes learn of a change at the same instant
  late,      // the second node learns of changes later
};

// Whether Redis lets keys expire.
enum class Expiry { none, at_rest };

class FleetWorld {
 public:
  FleetWorld(int nodes, Learning learning, Expiry expiry) : learning_(learning), expiry_(expiry) {
    for (int i = 0; i < nodes; ++i) nodes_.push_back(std::make_unique<Node>(keys_, clock_));
  }

  void perform(const Step& step) {
    Node& node = *nodes_[static_cast<std::size_t>(step.number) % nodes_.size()];
    if (step.op == Step::Op::take) return take(node, kKeys[step.key], step.number);
    if (step.op == Step::Op::wait) return wait(time_of(step));
    if (step.op == Step::Op::restart) return restart(node, step);
    if (!change(settings_, step, clock_.now())) return;
    for (const auto& each : nodes_) {
      if (learning_ == Learning::together || each == nodes_.front()) each->learn(settings_);
    }
  }

 private:
  // The node forgets when limits have changed, but not what they are now. What it has not asked
  // about since the last change is only known at the price of then, so it asks about all keys.
  void restart(Node& node, const Step& step) {
    if (learning_ == Learning::late) return nodes_.back()->learn(settings_);
    if (!settings_.present) return;
    for (const char* key : kKeys) take(node, key, step.number);
    node.open();
  }

  // Scripts date what they write in microseconds.
  void wait(Nanos time) {
    clock_.advance(time / 1000 * 1000);
    std::vector<const Rates*> rates;
    for (const auto& node : nodes_) rates.push_back(&node->rates);
    reference_.advance(rates, clock_.now());
    for (const auto& node : nodes_) node->rates.follow(clock_.now());
    if (expiry_ == Expiry::none) return;
    for (const std::string& name : keys_.expire()) {
      for (const char* key : kKeys) {
        if (name.find(":" + std::string{key} + "}") != std::string::npos) reference_.forget(key);
      }
    }
  }

  void take(Node& node, const std::string& key, int number) {
    if (!node.settings.present) return;
    const Permits all = node.rates.at(key, clock_.now());
    const long double left = reference_.left(all, key);
    const Permits permits = std::max<Permits>(all * (number + 1) / 1000, 1);
    const Verdict verdict = node.engine->take({.policy = "p", .key = key, .permits = permits});
    RC_LOG() << key << " takes " << permits << " of " << static_cast<double>(left)
             << (verdict ? ": admitted" : ": refused") << "\n";
    RC_ASSERT(!verdict.degraded);
    if (verdict) {
      RC_ASSERT(static_cast<long double>(permits) <= left + kRounding);
      reference_.take(key, permits);
    } else if (learning_ == Learning::together) {
      RC_ASSERT(static_cast<long double>(permits) > left - kRounding);
    }
  }

  const Learning learning_;
  const Expiry expiry_;
  ManualClock clock_;
  TestKeys keys_{clock_};
  Settings settings_{};
  Reference reference_{clock_.now()};
  std::vector<std::unique_ptr<Node>> nodes_;
};

template <typename World>
void check_steps(const std::function<std::unique_ptr<World>()>& make, int cases) {
  core::check(
      [&] {
        const auto world = make();
        for (const Step& one :
             *rc::gen::scale(2.0, rc::gen::container<std::vector<Step>>(step()))) {
          world->perform(one);
        }
      },
      cases);
}

void check_fleet(int nodes, Learning learning, Expiry expiry = Expiry::none) {
  check_steps<FleetWorld>([=] { return std::make_unique<FleetWorld>(nodes, learning, expiry); },
                          300);
}

// ---- scope: fleet

TEST(ChangesOnRedis, AdmitWhatTheRatesOfEachMomentGrant) { check_fleet(1, Learning::together); }
TEST(ChangesOnRedis, AreTheSameOnTwoNodes) { check_fleet(2, Learning::together); }

// While the nodes have different limits, each admits up to its own, and what was used drains at the
// faster of both rates at most. (docs/redis.md: where a node finds a price that it did not have
// itself, the slower of both counts. What nodes write in between is dated, and drains from then
// on.)
TEST(ChangesOnRedis, ThatANodeLearnsLateGrantNoMoreThanTheFasterRate) {
  check_fleet(2, Learning::late);
}

// A key expires when it is at rest at the price it was last written at. If the limit has become
// slower since, and nobody has asked about the key, what would still be owed is forgotten.
TEST(ChangesOnRedis, ForgetWhatIsAtRestAtThePriceItWasWrittenAt) {
  check_fleet(2, Learning::together, Expiry::at_rest);
}

}  // namespace
}  // namespace weir::changes
