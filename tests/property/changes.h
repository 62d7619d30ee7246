#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "engine/policy_set_access.h"
#include "property.h"
#include "weir/engine.h"

// Random changes of limits, and a reference that computes the permits granted at each moment.

namespace weir::changes {

using policy::Order;

// A rate and a burst of this many permits in a minute.
using PerMinute = std::int64_t;

inline constexpr const char* kKeys[] = {"ab", "ac", "b", "c"};

// The content of the policy file, and the orders.
struct Settings {
  bool present = true;  // true if the policy is in the file
  PerMinute usual = 1000;
  PerMinute at_night = 0;                  // limit from 00:00 to 06:00 UTC; 0: no schedule
  std::map<std::string, PerMinute> own{};  // overrides by key
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

inline rc::Gen<Step> step() {
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

inline std::ostream& operator<<(std::ostream& out, const Step& step) {
  static constexpr const char* ops[] = {"take",     "wait",          "usual",  "schedule",
                                        "override", "lift override", "boost",  "squeeze",
                                        "lift",     "leave",         "restart"};
  return out << ops[static_cast<int>(step.op)] << " " << step.key << " " << step.number;
}

// All rates are multiples of a thousand, so that orders divide them without a remainder.
inline PerMinute rate_of(const Step& step) { return 1000 * (1 + step.number % 9); }

// From milliseconds to hours.
inline Nanos time_of(const Step& step) {
  return Nanos{static_cast<std::int64_t>(1e6 * std::pow(1.017, step.number))};
}

// As in the daemon, an order replaces an earlier one for the same subject.
inline void add_order(Settings& settings, Order order, std::int64_t millionths, Instant until) {
  order.change = {.millionths = millionths};
  order.until = until;
  std::erase_if(settings.orders,
                [&](const Order& old) { return old.verb == order.verb && old.who == order.who; });
  settings.orders.push_back(order);
}

// Applies the effect of a step at `now` to the settings. Returns false for steps that change no
// setting.
inline bool change(Settings& settings, const Step& step, Instant now) {
  using Op = Step::Op;
  const std::string key = kKeys[step.key];
  const Instant until = now + std::chrono::seconds{1 + step.number * 3};
  switch (step.op) {
    case Op::take:
    case Op::wait:
    case Op::restart:
      return false;
    case Op::usual:
      settings.usual = rate_of(step);
      return true;
    case Op::schedule:
      settings.at_night = step.number % 3 == 0 ? 0 : rate_of(step);
      return true;
    case Op::override_key:
      settings.own[step.key == 1 ? "a*" : key] = rate_of(step);
      return true;
    case Op::lift_override:
      if (!settings.own.empty()) settings.own.erase(settings.own.begin());
      return true;
    case Op::boost:
      add_order(settings, {.verb = Order::Verb::boost, .who = key},
                (2 + step.number % 9) * policy::Change::kOne, until);
      return true;
    case Op::squeeze: {
      constexpr std::int64_t parts[] = {10, 100, 500};
      add_order(settings, {.verb = Order::Verb::squeeze},
                policy::Change::kOne / parts[step.number % 3], until);
      return true;
    }
    case Op::lift:
      if (!settings.orders.empty()) settings.orders.erase(settings.orders.begin());
      return true;
    case Op::leave:
      settings.present = !settings.present;
      return true;
  }
  return false;
}

// The settings as a policy `p`, whose limit has a `scope` if one is given.
inline PolicySet policies_under(const Settings& settings, std::string_view scope = {}) {
  const std::string more = scope.empty() ? "" : ", scope: " + std::string{scope};
  std::string text = "policies: { other: { limits: [ { limit: 1/s, scope: node } ] }";
  if (settings.present) {
    const auto limit = [&](PerMinute rate) {
      return "limits: [ { name: rate, limit: " + std::to_string(rate) + "/min" + more + " } ]";
    };
    text += ", p: { on_store_failure: closed, " + limit(settings.usual);
    if (!settings.own.empty()) {
      text += ", overrides: {";
      for (const auto& [who, rate] : settings.own) {
        text += " \"" + who + "\": { " + limit(rate) + " },";
      }
      text += " }";
    }
    if (settings.at_night > 0) {
      text += ", schedule: [ { hours: 00:00-06:00, " + limit(settings.at_night) + " } ]";
    }
    text += " }";
  }
  text += " }";
  auto parsed = PolicySet::parse(text);
  if (!parsed) throw std::logic_error(parsed.error().message + " in " + text);
  policy::PolicySet set = policies_of(*parsed);
  if (settings.present) set.find("p")->second.orders = settings.orders;
  return policy_set_of(std::move(set));
}

// The rate of each key under the settings. While a policy is missing, its states continue under
// their last rates.
class Rates {
 public:
  void set(const Settings& settings, Instant now) {
    settings_ = settings;
    follow(now);
  }
  // Must be called whenever time has passed.
  void follow(Instant now) {
    if (!settings_.present) return;
    for (const char* key : kKeys) last_[key] = at(key, now);
  }

  PerMinute at(const std::string& key, Instant now) const {
    if (!settings_.present) return last_.at(key);
    PerMinute rate = settings_.usual;
    if (settings_.at_night > 0 && hours(now) % 24 < 6) rate = settings_.at_night;
    const auto own = settings_.own.find(key);
    const auto prefix = settings_.own.find("a*");
    if (own != settings_.own.end()) {
      rate = own->second;
    } else if (prefix != settings_.own.end() && key.starts_with("a")) {
      rate = prefix->second;
    }
    for (const Order& order : settings_.orders) {
      if (order.until <= now || (!order.who.empty() && order.who != key)) continue;
      rate = rate * order.change.millionths / policy::Change::kOne;
    }
    return rate;
  }

  // The instants at which a rate may change by schedule or expiry of an order.
  Instant next_change(Instant now) const {
    Instant next = instant((hours(now) + 1) * kHour);
    for (const Order& order : settings_.orders) {
      if (order.until > now) next = std::min(next, order.until);
    }
    return next;
  }

  const Settings& settings() const { return settings_; }

 private:
  static constexpr std::int64_t kHour = 3'600'000'000'000;
  static std::int64_t hours(Instant now) { return ns(now) / kHour; }

  Settings settings_{};
  std::map<std::string, PerMinute> last_{};
};

// The permits granted at each moment, computed without the engine: used permits drain at the rate
// of each moment. Where nodes have different rates at the same time, the fastest one counts.
class Reference {
 public:
  // For a node that has this share of each rate.
  using Part = std::function<PerMinute(PerMinute)>;
  explicit Reference(
      Instant now, Part part = [](PerMinute all) { return all; })
      : now_(now), part_(std::move(part)) {}

  // Advances to `now` under settings that were in force all the time.
  void advance(const std::vector<const Rates*>& nodes, Instant now) {
    while (now_ < now) {
      Instant next = now;
      for (const Rates* rates : nodes) next = std::min(next, rates->next_change(now_));
      for (const char* key : kKeys) {
        PerMinute rate = 0;
        for (const Rates* rates : nodes) rate = std::max(rate, part_(rates->at(key, now_)));
        long double& used = used_[key];
        const auto passed = static_cast<long double>((next - now_).count());
        used = std::max(used - static_cast<long double>(rate) * passed / 60e9L, 0.0L);
      }
      now_ = next;
    }
  }

  // The permits left under a limit of this many.
  long double left(PerMinute rate, const std::string& key) const {
    return static_cast<long double>(rate) - used_.at(key);
  }
  void take(const std::string& key, Permits permits) {
    used_[key] += static_cast<long double>(permits);
  }
  void forget(const std::string& key) { used_[key] = 0; }
  long double used(const std::string& key) const { return used_.at(key); }

 private:
  Instant now_;
  Part part_;
  std::map<std::string, long double> used_{{"ab", 0}, {"ac", 0}, {"b", 0}, {"c", 0}};
};

// Each change rounds a debt in permits up to a nanosecond.
inline constexpr long double kRounding = 1e-3L;

}  // namespace weir::changes
