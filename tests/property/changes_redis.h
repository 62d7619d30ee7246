#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "changes.h"
#include "support/redis_connection.h"
#include "support/redis_server.h"
#include "weir/clock.h"
#include "weir/fleet.h"

// Nodes that share a redis-server in virtual time. All keys have the prefix of tests, for which
// scripts take the time from the query and Redis expires no key within a case.

namespace weir::changes {

inline test_support::BlockingStore& the_store() {
  static test_support::BlockingStore store(test_support::RedisServer::shared().socket());
  return store;
}

// The keys of one case on Redis, and their expiry times.
class TestKeys {
 public:
  explicit TestKeys(const Clock& clock) : clock_(clock) {
    static int runs = 0;
    run_ = "weir1:test:changes" + std::to_string(++runs) + ":";
  }

  Instant now() const { return clock_.now(); }
  // Has the lifetime of this object.
  const std::string& name(std::string_view key) {
    return *names_.insert(run_ + std::string(key)).first;
  }

  // A query about `name` may write a bucket, whose time to live is this multiple of the time in
  // which it comes to rest.
  void note_rise(const std::string& name, const core::Limit& limit) {
    const auto* const bucket = std::get_if<core::Bucket>(&limit);
    if (bucket != nullptr) rises_[name] = bucket->known_rise;
  }

  // Removes buckets whose time to live has passed, as Redis does with keys outside tests. Returns
  // their names as the engine knows them.
  std::vector<std::string> expire() {
    std::vector<std::string> expired;
    for (const std::string& name : names_) {
      std::istringstream text(the_store().connection().say({"GET", name}));
      std::string form;
      std::int64_t price = 0, parts_of_price = 0, parts = 0, birth = 0, marks = 0, seconds = 0;
      std::int64_t parts_of_second = 0, written = 0;
      text >> form >> price >> parts_of_price >> parts >> birth >> marks >> seconds >>
          parts_of_second >> written;
      const Instant rest = instant((seconds + 1) * 1'000'000'000);
      const Instant from = instant(written * 1000);
      if (form != "1b" || later(from, (rest - from) * rises_[name]) > now()) continue;
      the_store().connection().say({"DEL", name});
      expired.push_back(name.substr(run_.size()));
    }
    return expired;
  }

  // The same for leases, all of which must have ended and drained.
  void expire_loans() {
    for (const std::string& name : names_) the_store().connection().say({"DEL", name + ":loans"});
  }

 private:
  const Clock& clock_;
  std::string run_;
  std::set<std::string, std::less<>> names_;
  std::map<std::string, std::int64_t> rises_;
};

// Called with every lease that is granted.
class LeaseObserver {
 public:
  virtual void on_lease(const store::LeaseRequest& question,
                        const store::LeaseResponse& answer) = 0;

 protected:
  ~LeaseObserver() = default;
};

// A link that queries keys of tests, and answers before it returns.
class TestLink final : public Link, public store::SharedStore {
 public:
  TestLink(TestKeys& keys, LeaseObserver* observer) : keys_(keys), observer_(observer) {}

  int descriptor() const noexcept override { return -1; }
  void run_ready() override {
    for (const AttachedTask& one : tasks) one.task->run_maintenance();
  }
  void flush() override {}
  void wait(Nanos) override {}

  void ask(const store::StoreRequest& question, store::StoreCallback& asker) override {
    std::vector<store::StoreItem> items(question.items.begin(), question.items.end());
    for (store::StoreItem& item : items) {
      const std::string& name = keys_.name(item.key);
      keys_.note_rise(name, *item.limit);
      item.key = name;
    }
    store::StoreRequest asked = question;
    asked.items = items;
    asked.now = keys_.now();
    store::StoreResponse answer = the_store().ask(asked);
    if (answer.kind != store::StoreResponse::Kind::decided) throw std::logic_error(answer.error);
    asker.on_response(answer);
  }
  void request_lease(const store::LeaseRequest& question, store::LeaseCallback& borrower) override {
    store::LeaseResponse answer;
    if (!is_cut_off) {
      store::LeaseRequest asked = question;
      asked.key = keys_.name(question.key);
      asked.now = keys_.now();
      answer = the_store().request_lease(asked);
      if (answer.kind != store::StoreResponse::Kind::decided) throw std::logic_error(answer.error);
      if (observer_ != nullptr) observer_->on_lease(question, answer);
    }
    borrower.on_lease(answer);
  }
  Nanos timeout() const override { return std::chrono::hours{1}; }

  bool is_cut_off = false;  // true: none of its queries reaches the server

 private:
  store::SharedStore& store() noexcept override { return *this; }

  TestKeys& keys_;
  LeaseObserver* const observer_;
};

// The links of an engine that is used by one thread: one link.
class TestFleet final : public Fleet {
 public:
  explicit TestFleet(TestKeys& keys, LeaseObserver* observer = nullptr)
      : keys_(keys), observer_(observer) {}
  std::unique_ptr<Link> connect() override {
    auto made = std::make_unique<TestLink>(keys_, observer_);
    link = made.get();
    return made;
  }
  std::uint32_t nodes() const noexcept override { return node_count; }

  std::uint32_t node_count = 1;
  TestLink* link = nullptr;  // of the engine, once it has requested one

 private:
  TestKeys& keys_;
  LeaseObserver* const observer_;
};

// One of the nodes, with its own view of the settings.
struct Node {
  Node(std::string of_limit, TestKeys& keys, const Clock& of_all, LeaseObserver* observer = nullptr)
      : scope(std::move(of_limit)), fleet(keys, observer), clock(of_all) {
    open();
  }

  void open() {
    close();
    engine.emplace(
        policies_under(settings, scope),
        EngineOptions{.memory = {.bytes = std::size_t{1} << 18}, .clock = &clock, .fleet = &fleet});
    rates.set(settings, clock.now());
  }
  void close() {
    engine.reset();
    fleet.link = nullptr;
  }
  void learn(const Settings& next) {
    settings = next;
    engine->replace(policies_under(settings, scope));
    rates.set(settings, clock.now());
  }

  const std::string scope;
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

}  // namespace weir::changes
