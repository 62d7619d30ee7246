// Refunds on Redis while commands and replies are lost, delayed or repeated: a receipt refunds each
// permit at most once, and after a repeated settle exactly once.
//
// An engine on a real redis-server behind a faulty proxy is compared with an engine that counts in
// memory and has no faults.

#include <algorithm>
#include <array>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "property.h"
#include "store/redis/link.h"
#include "support/faulty_proxy.h"
#include "support/redis_server.h"
#include "weir/engine.h"

namespace weir {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test_support::Fault;
using test_support::FaultyProxy;
using test_support::RedisServer;

constexpr std::int64_t kFirstSecond = 1'767'225'600;

class InjectedClock final : public Clock {
 public:
  Instant now() const noexcept override { return instant(kFirstSecond * 1'000'000'000) + passed; }
  bool sleep_until(Instant, std::stop_token) const override { return false; }

  Nanos passed{0};
};

// A link that queries keys of tests, at the time of a given clock.
class TestLink final : public Link, public store::SharedStore {
 public:
  TestLink(const store::redis::LinkOptions& options, const Clock& clock, std::string run)
      : link_(options, std::make_shared<store::redis::LinkCounts>(), 1),
        clock_(clock),
        run_(std::move(run)) {}

  int descriptor() const noexcept override { return link_.descriptor(); }
  void run_ready() override { link_.run_ready(); }
  void flush() override { link_.flush(); }
  void wait(Nanos longest) override { link_.wait(longest); }

  void ask(const store::StoreRequest& question, store::StoreCallback& asker) override {
    auto* const asked = new PendingAsk(question, asker, run_);
    asked->question.now = clock_.now();
    link_.ask(asked->question, *asked);
  }
  void request_lease(const store::LeaseRequest& question, store::LeaseCallback& borrower) override {
    link_.request_lease(question, borrower);
  }
  Nanos timeout() const override { return link_.timeout(); }

 private:
  // Lives until it is answered.
  struct PendingAsk final : public store::StoreCallback {
    PendingAsk(const store::StoreRequest& original, store::StoreCallback& by,
               const std::string& run)
        : question(original), items(original.items.begin(), original.items.end()), asker(by) {
      constexpr std::string_view head = "weir1:";
      for (store::StoreItem& item : items) {
        names.push_back(std::make_unique<std::string>(
            std::string(head).append("test:").append(run).append(":")));
        item.key = names.back()->append(item.key.substr(head.size()));
      }
      question.items = items;
    }
    void on_response(store::StoreResponse& answer) override {
      asker.on_response(answer);
      delete this;
    }

    store::StoreRequest question;
    std::vector<store::StoreItem> items;
    std::vector<std::unique_ptr<std::string>> names;
    store::StoreCallback& asker;
  };

  store::SharedStore& store() noexcept override { return *this; }

  store::redis::RedisLink link_;
  const Clock& clock_;
  const std::string run_;
};

class TestFleet final : public Fleet {
 public:
  TestFleet(const std::string& socket, const Clock& clock) : clock_(clock) {
    static int runs = 0;
    run_ = "refunds" + std::to_string(++runs);
    options_.address.path = socket;
    options_.make_codec = store::redis::make_script_codec;
    options_.caches_denials = false;
    // An answer delayed for another reason than the proxy is only one more fault.
    options_.connection.timeout = milliseconds{5};
    options_.connection.max_silence = milliseconds{10};
    options_.connection.connect_timeout = seconds{10};
    options_.connection.min_back_off = Nanos{2};
    options_.connection.max_back_off = milliseconds{1};
    options_.connection.breaker_threshold = ~std::uint32_t{0};
  }
  std::unique_ptr<Link> connect() override {
    return std::make_unique<TestLink>(options_, clock_, run_);
  }

 private:
  const Clock& clock_;
  std::string run_;
  store::redis::LinkOptions options_;
};

enum class Kind {
  bucket,
  undone,      // refunds only if nothing has happened since the take
  counted,     // permits refunded later leave the same state as those refunded earlier
  from_first,  // counted, but with more usage more may remain later
};
struct TestLimit {
  const char* text;
  Kind kind;
  // For a limit of which more may remain after more usage: a limit of which never less remains, and
  // for which that does not hold.
  const char* bound = nullptr;

  bool is_counted() const { return kind == Kind::counted || kind == Kind::from_first; }
};
constexpr std::array kLimits{
    TestLimit{"{ limit: 100/min burst 60 }", Kind::bucket},
    TestLimit{"{ limit: 7/s burst 60 }", Kind::bucket},
    TestLimit{"{ limit: 60/min queue 60 }", Kind::bucket},
    TestLimit{"{ limit: 60/min queue 60 nodelay }", Kind::bucket},
    TestLimit{"{ limit: 600/min queue 60, like: nginx }", Kind::undone},
    TestLimit{"{ limit: 10/s smooth }", Kind::undone},
    // More usage warms the limit up. A permit costs at least as much as in a limit that is always
    // warm.
    TestLimit{"{ limit: 10/s warmup 4s }", Kind::undone, "{ limit: 10/s warmup 0s }"},
    TestLimit{"{ limit: 60/min window }", Kind::counted},
    TestLimit{"{ limit: 60/min window from first }", Kind::from_first},
    TestLimit{"{ limit: 60/min sliding }", Kind::counted},
    TestLimit{"{ limit: 60/min sliding exact }", Kind::counted},
    TestLimit{"{ limit: 60/day in Asia/Shanghai }", Kind::counted},
};
constexpr std::array kModes{"open", "closed", "local"};

// A limit of a policy. A limit of scope node is refunded without a query to Redis.
struct Rule {
  std::size_t limit = 0;
  bool is_of_node = false;

  const TestLimit& text() const { return kLimits[limit]; }
};

std::string policy_of(const char* limit) {
  return std::string("policies: { p: { limits: [ ") + limit + " ] } }";
}
std::string policy_of(const std::vector<Rule>& rules, std::size_t mode) {
  std::string text = "policies: { p: { limits: [ ";
  for (const Rule& rule : rules) {
    text += rule.text().text;
    if (rule.is_of_node) text.insert(text.size() - 1, ", scope: node ");
    text += ", ";
  }
  return text + "], on_store_failure: " + kModes[mode] + " } }";
}

FaultyProxy& the_proxy() {
  static FaultyProxy proxy(RedisServer::shared().socket());
  return proxy;
}

// The engine on Redis, and for each limit one in memory that has no other limit.
class Comparison {
 public:
  Comparison(std::vector<Rule> rules, std::size_t mode)
      : rules_(std::move(rules)),
        fleet_(the_proxy().socket(), clock),
        policies_(*PolicySet::parse(policy_of(rules_, mode))),
        redis_(policies_,
               {.memory = {.bytes = std::size_t{1} << 18}, .clock = &clock, .fleet = &fleet_}),
        references_(reference_engines()) {
    the_proxy().rewrite_held([this](const std::string& command) { return at_this_time(command); });
  }
  ~Comparison() {
    the_proxy().plan({});
    the_proxy().release();
    the_proxy().rewrite_held({});
  }

  struct Taken {
    Receipt redis{};
    std::vector<Receipt> references{};
    std::vector<Permits> given{};  // refunded to the references since the last answered settle
    Nanos at{0};
    Permits permits = 0;
    Permits settled = 0;  // by answered settles
    // decided by the fleet, and not by a node that could not reach the store
    bool is_shared = false;
    bool is_unknown = false;  // true if a settle was not answered
    Permits asked = 0;        // by the settles since the last answered one
  };

  // Permits of a caller that refunds some of them later.
  void take(Permits permits, const std::vector<Fault>& faults) {
    on_use();
    Taken taken{.at = clock.passed, .permits = permits};
    the_proxy().plan(faults);
    const Verdict verdict = redis_.take(ask(permits), taken.redis);
    the_proxy().plan({});
    // (Redis may have counted it any number of times.)
    const bool is_certain = !verdict.degraded && faults.empty();
    if (!is_certain) is_exact_ = false;
    taken.is_shared = verdict && !verdict.degraded;
    if (taken.is_shared) take_from_references(permits, taken);
    if (verdict) all_.push_back(std::move(taken));
  }

  void settle(std::size_t which, Permits back, const std::vector<Fault>& faults) {
    if (all_.empty()) return;
    Taken& taken = all_[which % all_.size()];
    on_use(&taken);
    the_proxy().plan(faults);
    const Verdict verdict = redis_.settle(ask(-back), taken.redis);
    the_proxy().plan({});
    if (!taken.is_shared) return;
    settle_references(back, taken);
    if (!verdict.degraded && back < taken.asked) is_exact_ = false;
    if (!verdict.degraded) taken.settled += std::max(back, taken.asked);
    taken.asked = verdict.degraded ? std::max(back, taken.asked) : 0;
    taken.is_unknown = verdict.degraded;
    if (!verdict.degraded) taken.given.assign(rules_.size(), 0);
  }

  void pass(Nanos time) {
    if (time > Nanos{0} && has_unknown()) is_exact_ = false;
    clock.passed += time;
  }

  // Repeats every unanswered command until it is answered.
  void repeat_all() {
    the_proxy().plan({});
    the_proxy().release();
    for (std::size_t i = 0; i < all_.size(); ++i) {
      while (all_[i].is_unknown) settle(i, all_[i].asked, {});
    }
  }

  void compare() {
    // A command that was held may have run meanwhile.
    for (Taken& taken : all_) {
      if (taken.is_unknown) settle_references(taken.asked, taken);
    }
    auto found = redis_.explain(ask(1));
    while (!found) found = redis_.explain(ask(1));
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      const TestLimit& limit = rules_[i].text();
      const Permits left = (*found)[i].decision.remaining;
      const Permits most = state_of(i).remaining;
      if (!is_exact_ && limit.kind == Kind::from_first) continue;
      if (left > most && left > most_left(i))
        throw std::runtime_error(std::string(limit.text) + " has minted permits");
      if (!is_exact_ || has_unknown()) continue;
      if (left < most) throw std::runtime_error(std::string(limit.text) + " has lost permits");
    }
  }

  InjectedClock clock;

 private:
  static Request ask(Permits permits) {
    return {.policy = "p", .key = "k", .permits = permits, .max_wait = seconds{30}};
  }
  // A command that is released later carries the time at which it runs.
  std::string at_this_time(const std::string& command) const {
    static const std::regex told(R"(\$\d+\r\n\d+ \d+ (\d+)\r\n)");
    std::smatch found;
    if (!std::regex_search(command, found, told)) return command;
    constexpr std::int64_t second = 1'000'000'000;
    const std::int64_t now = ns(clock.now());
    const std::string time =
        std::to_string(now / second) + " " + std::to_string(now % second) + " " + found[1].str();
    return found.prefix().str() + "$" + std::to_string(time.size()) + "\r\n" + time + "\r\n" +
           found.suffix().str();
  }

  std::vector<std::unique_ptr<Engine>> reference_engines() const {
    std::vector<std::unique_ptr<Engine>> engines;
    for (const Rule& rule : rules_) {
      engines.push_back(std::make_unique<Engine>(
          *PolicySet::parse(policy_of({rule}, 0)),
          EngineOptions{.memory = {.bytes = std::size_t{1} << 18}, .clock = &clock}));
    }
    return engines;
  }
  Decision state_of(std::size_t i) { return references_[i]->peek(ask(1)).decision; }

  // As if the refunded permits had never been taken. (A bucket refunded in another order may refund
  // more.) If Redis may have counted more than the references, only the bound is certain.
  Permits most_left(std::size_t i) const {
    InjectedClock then;
    const TestLimit& limit = rules_[i].text();
    const bool is_bounded = !is_exact_ && limit.bound != nullptr;
    Engine engine(*PolicySet::parse(policy_of(is_bounded ? limit.bound : limit.text)),
                  {.memory = {.bytes = std::size_t{1} << 18}, .clock = &then});
    for (const Taken& taken : all_) {
      const Permits kept = taken.permits - taken.settled - taken.asked;
      if (!taken.is_shared || kept <= 0) continue;
      then.passed = taken.at;
      (void)engine.take(ask(kept));
    }
    then.passed = clock.passed;
    return engine.peek(ask(1)).decision.remaining;
  }

  void take_from_references(Permits permits, Taken& taken) {
    taken.references.resize(rules_.size());
    taken.given.resize(rules_.size());
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (references_[i]->take(ask(permits), taken.references[i])) continue;
      throw std::runtime_error("Redis has admitted what the limit does not admit");
    }
  }
  // A refund that was impossible at first may be possible later.
  void settle_references(Permits back, Taken& taken) {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      const Decision before = state_of(i);
      const Permits wanted = std::max<Permits>(back - taken.given[i], 0);
      (void)references_[i]->settle(ask(-wanted), taken.references[i]);
      const Decision after = state_of(i);
      const bool is_undone = rules_[i].text().kind == Kind::undone && after != before;
      taken.given[i] += is_undone ? wanted : after.remaining - before.remaining;
    }
  }

  bool has_unknown(const Taken* but = nullptr) const {
    return std::ranges::any_of(
        all_, [but](const Taken& taken) { return &taken != but && taken.is_unknown; });
  }
  // A refund after other takes may be smaller.
  void on_use(const Taken* settled = nullptr) {
    const bool all_count =
        std::ranges::all_of(rules_, [](const Rule& rule) { return rule.text().is_counted(); });
    if (!all_count && has_unknown(settled)) is_exact_ = false;
  }

  const std::vector<Rule> rules_;
  TestFleet fleet_;
  const PolicySet policies_;
  Engine redis_;
  const std::vector<std::unique_ptr<Engine>> references_;
  std::vector<Taken> all_;
  bool is_exact_ = true;  // both sides have the same state once all settles are answered
};

struct Act {
  enum class Op { take, settle, pass, repeat, release };

  Op op = Op::take;
  Permits permits = 1;
  std::size_t which = 0;
  std::vector<Fault> faults{};
  std::int64_t micros = 0;
};

std::ostream& operator<<(std::ostream& out, const Act& act) {
  static constexpr std::array ops{"take", "settle", "pass", "repeat", "release"};
  out << ops[static_cast<std::size_t>(act.op)] << " " << act.permits << " of " << act.which
      << " after " << act.micros << "us, faults";
  for (const Fault fault : act.faults) out << " " << static_cast<int>(fault);
  return out;
}

// Each is equally likely, for any size of the case.
template <typename T>
rc::Gen<T> any_of(T first, T last) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(first, last + 1));
}

// For most queries the first command has a fault; for some, a second one.
rc::Gen<std::vector<Fault>> faults() {
  const auto any = rc::gen::map(any_of(0, static_cast<int>(Fault::silence_running)),
                                [](int fault) { return static_cast<Fault>(fault); });
  return rc::gen::mapcat(
      rc::gen::weightedElement<std::size_t>({{2, 0}, {4, 1}, {2, 2}, {1, 3}}),
      [any](std::size_t count) { return rc::gen::container<std::vector<Fault>>(count, any); });
}

rc::Gen<Act> act() {
  using Op = Act::Op;
  const auto no_faults = rc::gen::just(std::vector<Fault>{});
  const auto op = rc::gen::weightedElement<Op>(
      {{8, Op::take}, {16, Op::settle}, {3, Op::pass}, {3, Op::repeat}, {3, Op::release}});
  return rc::gen::mapcat(op, [no_faults](Op drawn) {
    const auto wrong =
        drawn == Op::settle
            ? faults()
            : rc::gen::weightedOneOf<std::vector<Fault>>({{12, no_faults}, {1, faults()}});
    return rc::gen::build<Act>(
        rc::gen::set(&Act::op, rc::gen::just(drawn)),
        rc::gen::set(&Act::permits, any_of<Permits>(1, 11)),
        rc::gen::set(&Act::which, any_of<std::size_t>(0, 3)), rc::gen::set(&Act::faults, wrong),
        rc::gen::set(&Act::micros, rc::gen::weightedOneOf<std::int64_t>(
                                       {{2, any_of<std::int64_t>(1, 2'000'000)},
                                        {1, any_of<std::int64_t>(1'000'000, 90'000'000)}})));
  });
}

void perform(Comparison& worlds, const Act& act) {
  switch (act.op) {
    case Act::Op::take:
      return worlds.take(act.permits, act.faults);
    case Act::Op::settle:
      return worlds.settle(act.which, act.permits, act.faults);
    case Act::Op::pass:
      return worlds.pass(std::chrono::microseconds{act.micros});
    case Act::Op::repeat:
      return worlds.repeat_all();
    case Act::Op::release:
      return the_proxy().release();
  }
}

void check_on(std::size_t first, std::size_t last, int cases) {
  core::check(
      [=] {
        const auto limit = any_of(first, last);
        const auto mode = *any_of<std::size_t>(0, kModes.size() - 1);
        std::vector<Rule> rules{{*limit}};
        const int others = *rc::gen::weightedElement<int>({{3, 0}, {2, 1}, {1, 2}});
        for (int i = 0; i < others; ++i) {
          rules.push_back({.limit = *limit, .is_of_node = *any_of(0, 2) == 0});
        }
        Comparison worlds(rules, mode);
        RC_LOG() << policy_of(rules, mode);
        for (const Act& what : *rc::gen::scale(0.4, rc::gen::container<std::vector<Act>>(act()))) {
          perform(worlds, what);
          worlds.compare();
        }
        worlds.repeat_all();
        worlds.compare();
      },
      cases);
}

TEST(RedisRefundProperty, BucketsAndQueuesGiveBackOnce) { check_on(0, 3, 30); }
TEST(RedisRefundProperty, NginxAndSmoothLimitsGiveBackOnce) { check_on(4, 6, 20); }
TEST(RedisRefundProperty, WindowsGiveBackOnce) { check_on(7, 11, 30); }
TEST(RedisRefundProperty, AllLimitsTogetherGiveBackOnce) { check_on(0, 11, 30); }

class LostAnswers : public testing::TestWithParam<std::size_t> {};

// One receipt, settled repeatedly while replies are late.
TEST_P(LostAnswers, GiveTakenPermitsBackOnce) {
  for (std::size_t mode = 0; mode < kModes.size(); ++mode) {
    Comparison worlds({{.limit = GetParam()}}, mode);
    worlds.take(30, {});
    worlds.take(10, {});
    for (int i = 0; i < 3; ++i) worlds.settle(1, 10, {Fault::late_reply});
    worlds.settle(1, 10, {});
    worlds.repeat_all();
    worlds.compare();
  }
}

INSTANTIATE_TEST_SUITE_P(OfEachLimit, LostAnswers, testing::Range(std::size_t{0}, kLimits.size()));

}  // namespace
}  // namespace weir
