// The smooth limiter against Guava's rules, in Guava's terms: stored permits and microseconds as
// doubles. The two agree up to the rounding of doubles and whole nanoseconds.

#include <algorithm>
#include <cmath>

#include "generators.h"
#include "property.h"
#include "subject.h"

namespace weir::core {
namespace {

class Guava {
 public:
  Guava(const Rate& rate, double warmup_micros)  // negative: no warmup
      : interval_(static_cast<double>(rate.period.count()) / 1000 *
                  static_cast<double>(rate.scale) / static_cast<double>(rate.count)),
        warms_up_(warmup_micros >= 0) {
    if (warms_up_) {
      threshold_ = 0.5 * warmup_micros / interval_;
      max_ = threshold_ + 2 * warmup_micros / (interval_ + 3 * interval_);
      slope_ = max_ > threshold_ ? (3 * interval_ - interval_) / (max_ - threshold_) : 0;
      cooldown_ = max_ > 0 ? warmup_micros / max_ : interval_;
    } else {
      max_ = 1'000'000 / interval_;
      cooldown_ = interval_;
    }
    stored_ = max_;
  }

  double next() const { return next_; }
  double stored_at(double now) const {
    return std::min(max_, stored_ + std::max(now - next_, 0.0) / cooldown_);
  }
  double rests_at() const { return next_ + (max_ - stored_) * cooldown_; }

  // The wait of the caller.
  double acquire(double permits, double now) {
    stored_ = stored_at(now);
    next_ = std::max(next_, now);
    const double wait = next_ - now;
    const double spent = std::min(permits, stored_);
    next_ += cost_of_stored(spent) + (permits - spent) * interval_;
    stored_ -= spent;
    return wait;
  }

 private:
  double cost_of_stored(double take) const {
    if (!warms_up_) return 0;
    const double above = stored_ - threshold_;
    double cost = 0;
    if (above > 0) {
      const double cold = std::min(above, take);
      cost = cold * (2 * interval_ + (above + above - cold) * slope_) / 2;
      take -= cold;
    }
    return cost + take * interval_;
  }

  double interval_;
  bool warms_up_;
  double threshold_ = 0;
  double max_ = 0;
  double slope_ = 0;
  double cooldown_ = 1;
  double stored_ = 0;
  double next_ = 0;
};

constexpr double kTolerance = 0.5;  // microseconds

bool near(Nanos exact, double micros) {
  return std::abs(static_cast<double>(exact.count()) / 1000 - micros) <
         kTolerance + 1e-9 * std::abs(micros);
}

void follow(const Rate& rate, const Limit& limit, double warmup_micros) {
  const Instant origin = instant(1'767'225'600'000'000'000);
  Subject subject(limit);
  Guava guava(rate, warmup_micros);
  Instant now = origin;
  Decision last;
  for (const Step& arrival : *steps()) {
    now = std::max(moved(arrival, limit, now, last), origin);
    const Permits cost = 1 + arrival.part % (arrival.size == Step::Size::one ? 1 : 20);
    const Nanos patience = ask_of(arrival, limit).max_wait;
    const double micros = static_cast<double>((now - origin).count()) / 1000;
    const double wait = std::max(guava.next() - micros, 0.0);

    last = subject.take(now, {.cost = cost, .max_wait = patience});
    RC_ASSERT(last.outcome != Outcome::impossible);
    if (last) {
      RC_ASSERT(near(last.wait, guava.acquire(static_cast<double>(cost), micros)));
    } else {
      const double patient = static_cast<double>(patience.count()) / 1000;
      RC_ASSERT(near(last.retry_after, wait - patient));
    }
    RC_ASSERT(near(last.reset_after, std::max(guava.rests_at() - micros, 0.0)));
    const double early = guava.next() - micros;
    const double stored = guava.stored_at(micros);
    const bool clear = std::abs(stored - std::round(stored)) > 1e-6 && std::abs(early) > kTolerance;
    if (clear) {
      const double single = warmup_micros < 0 ? std::floor(stored) + 1 : 1;
      RC_ASSERT(last.remaining == (early > 0 ? 0 : static_cast<Permits>(single)));
    }
  }
}

Rate guava_rate() {
  return *rc::gen::element<Rate>(Rate{5, 1}, Rate{1, 1}, Rate{2, 1}, Rate{10, 1}, Rate{3, 1},
                                 Rate{1, 10}, Rate{1000, 1}, Rate{7, 1, std::chrono::minutes{1}},
                                 Rate{997, 1}, Rate{333, 100});
}

// Waits, refusals and savings of SmoothBursty.
TEST(Smooth, AgreesWithGuavasBurstyRules) {
  check(
      [] {
        const Rate rate = guava_rate();
        follow(rate, *Smooth::make(rate), -1);
      },
      1200);
}

// Waits, refusals and savings of SmoothWarmingUp with its cold factor of 3.
TEST(Smooth, AgreesWithGuavasWarmingUpRules) {
  check(
      [] {
        const Rate rate = guava_rate();
        const std::int64_t millis = *rc::gen::inRange(1, 20'000);
        follow(rate, *Smooth::make_warming(rate, std::chrono::milliseconds{millis}),
               static_cast<double>(millis) * 1000);
      },
      1200);
}

}  // namespace
}  // namespace weir::core
