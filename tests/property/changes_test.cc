// Whatever becomes of a limit, a key is admitted what the rates of each moment have granted: no
// more and no less. Limits change by reloads, overrides that come and go, hours, orders, policies
// that leave and return, and restarts; keys may not ask for any number of changes.

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/policy_set_access.h"
#include "property.h"
#include "support/folder.h"
#include "weir/clock.h"
#include "weir/engine.h"

namespace weir {
namespace {

using policy::Order;

// So many in a minute, as the rate and as the burst.
using PerMinute = std::int64_t;

constexpr const char* kKeys[] = {"ab", "ac", "b", "c"};

// What is written in the file, and what is ordered.
struct Settings {
  bool present = true;  // the policy is in the file
  PerMinute usual = 1000;
  PerMinute at_night = 0;                  // from 00:00 to 06:00 UTC; none: no schedule
  std::map<std::string, PerMinute> own{};  // overrides
  std::vector<Order> orders{};
};

struct Step {
  enum class Op {
    take,
    wait,
    usual,
    schedule,
    override_key,
    lift_override,
    boost,
    squeeze,
    lift,
    leave,
    restart
  };
  Op op = Op::take;
  int key = 0;
  int number = 0;
};

rc::Gen<Step> step() {
  using Op = Step::Op;
  return rc::gen::build<Step>(
      rc::gen::set(&Step::op, rc::gen::weightedElement<Op>({{10, Op::take},
                                                            {8, Op::wait},
                                                            {2, Op::usual},
                                                            {1, Op::schedule},
                                                            {2, Op::override_key},
                                                            {2, Op::lift_override},
                                                            {2, Op::boost},
                                                            {2, Op::squeeze},
                                                            {3, Op::lift},
                                                            {1, Op::leave},
                                                            {2, Op::restart}})),
      rc::gen::set(&Step::key, rc::gen::inRange(0, 4)),
      rc::gen::set(&Step::number, rc::gen::inRange(0, 1000)));
}

std::ostream& operator<<(std::ostream& out, const Step& step) {
  static constexpr const char* ops[] = {"take",     "wait",          "usual",  "schedule",
                                        "override", "lift override", "boost",  "squeeze",
                                        "lift",     "leave",         "restart"};
  return out << ops[static_cast<int>(step.op)] << " " << step.key << " " << step.number;
}

// What each moment grants, reckoned without the engine.
class Reference {
 public:
  explicit Reference(Instant now) : now_(now) {}

  // Moves on to `now` under settings that held all the time.
  void advance(const Settings& settings, Instant now) {
    while (now_ < now) {
      const Instant next = std::min(now, next_change(settings));
      for (const char* key : kKeys) {
        long double& used = used_[key];
        const auto passed = static_cast<long double>((next - now_).count());
        used = std::max(used - static_cast<long double>(rate_of(settings, key)) * passed / 60e9L,
                        0.0L);
      }
      now_ = next;
    }
  }

  PerMinute rate_of(const Settings& settings, const std::string& key) const {
    if (!settings.present) return last_rates_.at(key);
    PerMinute rate = settings.usual;
    if (settings.at_night > 0 && hour() < 6) rate = settings.at_night;
    const auto own = settings.own.find(key);
    const auto prefix = settings.own.find("a*");
    if (own != settings.own.end()) {
      rate = own->second;
    } else if (prefix != settings.own.end() && key.starts_with("a")) {
      rate = prefix->second;
    }
    for (const Order& order : settings.orders) {
      if (order.until <= now_ || (!order.who.empty() && order.who != key)) continue;
      rate = rate * order.change.millionths / policy::Change::kOne;
    }
    return rate;
  }

  // While a policy is not there its states go on as they were.
  void remember_rates(const Settings& settings) {
    if (!settings.present) return;
    for (const char* key : kKeys) last_rates_[key] = rate_of(settings, key);
  }

  long double left(const Settings& settings, const std::string& key) const {
    return static_cast<long double>(rate_of(settings, key)) - used_.at(key);
  }
  void take(const std::string& key, Permits permits) {
    used_[key] += static_cast<long double>(permits);
  }

 private:
  std::int64_t hour() const { return ns(now_) / 3'600'000'000'000 % 24; }
  Instant next_change(const Settings& settings) const {
    const std::int64_t hour_ends = (ns(now_) / 3'600'000'000'000 + 1) * 3'600'000'000'000;
    Instant next = instant(hour_ends);
    for (const Order& order : settings.orders) {
      if (order.until > now_) next = std::min(next, order.until);
    }
    return next;
  }

  Instant now_;
  std::map<std::string, long double> used_{{"ab", 0}, {"ac", 0}, {"b", 0}, {"c", 0}};
  std::map<std::string, PerMinute> last_rates_{};
};

class World {
 public:
  explicit World(bool on_file) : on_file_(on_file) {
    path_ = folder_ / "state";
    open();
    reference_.remember_rates(settings_);
  }

  void perform(const Step& step) {
    using Op = Step::Op;
    const std::string key = kKeys[step.key];
    // All are thousands: orders divide them without a rest.
    const PerMinute rate = 1000 * (1 + step.number % 9);
    switch (step.op) {
      case Op::take:
        return take(key, step.number);
      case Op::wait:
        return wait(step.number);
      case Op::usual:
        settings_.usual = rate;
        break;
      case Op::schedule:
        settings_.at_night = step.number % 3 == 0 ? 0 : rate;
        break;
      case Op::override_key:
        settings_.own[step.key == 1 ? "a*" : key] = rate;
        break;
      case Op::lift_override:
        if (!settings_.own.empty()) settings_.own.erase(settings_.own.begin());
        break;
      case Op::boost:
        return order({.verb = Order::Verb::boost, .who = key},
                     (2 + step.number % 9) * policy::Change::kOne, step.number);
      case Op::squeeze: {
        constexpr std::int64_t parts[] = {10, 100, 500};
        return order({.verb = Order::Verb::squeeze}, policy::Change::kOne / parts[step.number % 3],
                     step.number);
      }
      case Op::lift:
        if (!settings_.orders.empty()) settings_.orders.erase(settings_.orders.begin());
        break;
      case Op::leave:
        settings_.present = !settings_.present;
        break;
      case Op::restart:
        return restart(step.number, rate);
    }
    replace();
  }

 private:
  PolicySet policies() const {
    std::string text = "policies: { other: { limits: [ 1/s ] }";
    if (settings_.present) {
      const auto limit = [](PerMinute rate) {
        return "limits: [ { name: rate, limit: " + std::to_string(rate) + "/min } ]";
      };
      text += ", p: { " + limit(settings_.usual);
      if (!settings_.own.empty()) {
        text += ", overrides: {";
        for (const auto& [who, rate] : settings_.own) {
          text += " \"" + who + "\": { " + limit(rate) + " },";
        }
        text += " }";
      }
      if (settings_.at_night > 0) {
        text += ", schedule: [ { hours: 00:00-06:00, " + limit(settings_.at_night) + " } ]";
      }
      text += " }";
    }
    text += " }";
    auto parsed = PolicySet::parse(text);
    if (!parsed) throw std::logic_error(parsed.error().message + " in " + text);
    policy::PolicySet set = policies_of(*parsed);
    if (settings_.present) set.find("p")->second.orders = settings_.orders;
    return policy_set_of(std::move(set));
  }

  void open() {
    MemoryOptions memory{.bytes = std::size_t{1} << (on_file_ ? 22 : 18)};
    if (on_file_) memory.state_file = path_;
    auto opened = Engine::open(policies(), {.memory = memory, .clock = &clock_});
    if (!opened) throw std::logic_error(opened.error().message);
    engine_.emplace(*std::move(opened));
  }

  // A process ends or is killed. Time may pass until the next one starts, and the file may have
  // been edited meanwhile.
  void restart(int number, PerMinute rate) {
    if (!on_file_) return;
    const std::string left_behind = path_ + ".killed";
    const bool is_killed = number % 5 == 0;
    if (is_killed) std::filesystem::copy_file(path_, left_behind);
    engine_.reset();
    if (is_killed) std::filesystem::rename(left_behind, path_);
    // (Of an edited policy the next process cannot know when orders have ended before, unless the
    // last one has noted that. A rate that does not hold at the time may be edited unnoticed.)
    const bool shows = settings_.present && settings_.at_night == 0;
    const bool is_edited = number % 3 == 0 && !is_killed && shows;
    if (number % 2 == 0) pass_without_process(number, is_edited);
    if (is_edited) settings_.usual = rate == settings_.usual ? rate + 1000 : rate;
    open();
    reference_.remember_rates(settings_);
  }

  // Hours begin and orders end as they would have, unless the policy has been edited: then the
  // rates that held at the end go on.
  void pass_without_process(int number, bool is_edited) {
    Settings away = settings_;
    away.present = away.present && !is_edited;
    clock_.advance(time_of(number));
    reference_.advance(away, clock_.now());
  }

  void replace() {
    engine_->replace(policies());
    reference_.remember_rates(settings_);
  }

  // As the daemon does, an order takes the place of the one about the same.
  void order(Order order, std::int64_t millionths, int number) {
    order.change = {.millionths = millionths};
    order.until = clock_.now() + std::chrono::seconds{1 + number * 3};
    std::erase_if(settings_.orders,
                  [&](const Order& old) { return old.verb == order.verb && old.who == order.who; });
    settings_.orders.push_back(order);
    replace();
  }

  // From milliseconds to hours.
  static Nanos time_of(int number) {
    return Nanos{static_cast<std::int64_t>(1e6 * std::pow(1.017, number))};
  }

  void wait(int number) {
    clock_.advance(time_of(number));
    reference_.advance(settings_, clock_.now());
    reference_.remember_rates(settings_);
  }

  void take(const std::string& key, int number) {
    if (!settings_.present) return;
    const long double left = reference_.left(settings_, key);
    const Permits all = reference_.rate_of(settings_, key);
    const Permits permits = std::max<Permits>(all * (number + 1) / 1000, 1);
    const Verdict verdict = engine_->take({.policy = "p", .key = key, .permits = permits});
    RC_LOG() << key << " takes " << permits << " of " << static_cast<double>(left)
             << (verdict ? ": admitted" : ": refused") << "\n";
    // A debt in permits is rounded up to a nanosecond by each change.
    constexpr long double rounding = 1e-3L;
    if (verdict) {
      RC_ASSERT(static_cast<long double>(permits) <= left + rounding);
      reference_.take(key, permits);
    } else {
      RC_ASSERT(static_cast<long double>(permits) > left - rounding);
    }
  }

  const bool on_file_;
  support::Folder folder_;
  std::string path_;
  ManualClock clock_;
  Settings settings_{};
  Reference reference_{clock_.now()};
  std::optional<Engine> engine_;
};

void check_world(bool on_file, int cases) {
  core::check(
      [on_file] {
        World world(on_file);
        for (const Step& one :
             *rc::gen::scale(2.0, rc::gen::container<std::vector<Step>>(step()))) {
          world.perform(one);
        }
      },
      cases);
}

TEST(Changes, AdmitWhatTheRatesOfEachMomentGrant) { check_world(false, 1000); }

// The note in the state file tells the next process what held before.
TEST(Changes, AdmitWhatTheRatesOfEachMomentGrantOverRestarts) { check_world(true, 300); }

}  // namespace
}  // namespace weir
