#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/int128.h"
#include "base/saturating.h"
#include "core/decision.h"
#include "core/rate.h"
#include "core/window.h"

// Slow and obvious models, written from the documented behaviour of each algorithm and not from its
// code. They keep every admission and recompute everything each time.

namespace weir::core::model {

struct ModelAdmission {
  Instant at;
  Permits cost;
};

// The first instant in (from, to] at which `passes`. It must be false at `from` and stay true once
// it is.
inline Instant first_passing(Instant from, Instant to, const std::function<bool(Instant)>& passes) {
  std::int64_t no = ns(from);
  std::int64_t yes = ns(to);
  while (yes - no > 1) {
    const std::int64_t middle = no + (yes - no) / 2;
    (passes(instant(middle)) ? yes : no) = middle;
  }
  return instant(yes);
}

inline Decision impossible_answer(Decision so_far) {
  so_far.outcome = Outcome::impossible;
  so_far.retry_after = kNever;
  return so_far;
}

inline Decision refused_answer(Decision so_far, Nanos retry_after) {
  so_far.outcome = Outcome::limited;
  so_far.retry_after = retry_after;
  return so_far;
}

// A token bucket or queue. Time is counted in ticks, `count` of them in a nanosecond, so that a
// permit is a whole number of ticks at any rate.
class BucketModel {
 public:
  BucketModel(const Rate& rate, Permits capacity, Permits at_once, bool queue)
      : in_nano_(rate.count),
        permit_(Int128{rate.period.count()} * rate.scale),
        capacity_(capacity),
        at_once_(at_once),
        queue_(queue) {}

  Decision take(Instant now, const Ask& ask) {
    const Int128 longest = kLongestDebt.count() * in_nano_;
    const Int128 depth = std::min(capacity_ * permit_, longest);
    if (ask.cost < 0 || ask.cost > capacity_ || ask.cost * permit_ > depth) {
      return impossible_answer(describe(now));
    }
    const Int128 patience =
        std::min(std::max(ask.max_wait, Nanos{0}).count() * in_nano_, longest - depth);
    const Int128 owed = debt(now) + ask.cost * permit_;
    const Int128 early = queue_ ? turn(now, ask.cost) : owed - depth;
    const Int128 over = std::max(early - patience, queue_ ? owed - depth : early - patience);
    if (over > 0) return refused_answer(describe(now), in_nanos(over));
    if (ask.cost > 0) admitted_.push_back({now, ask.cost});
    Decision answer = describe(now);
    answer.wait = in_nanos(std::max<Int128>(early, 0));
    return answer;
  }

 private:
  // The wait of a call in the queue: until the debt is paid down to the undelayed part.
  Int128 turn(Instant now, Permits cost) const {
    return cost == 0 ? 0 : debt(now) - (at_once_ - 1) * permit_;
  }
  // The instant at which everything admitted is paid, one call after the other.
  Int128 paid_up() const {
    Int128 paid = 0;
    for (const ModelAdmission& a : admitted_) {
      paid = std::max(paid, ns(a.at) * in_nano_) + a.cost * permit_;
    }
    return paid;
  }
  Int128 debt(Instant now) const { return std::max<Int128>(paid_up() - ns(now) * in_nano_, 0); }
  Nanos in_nanos(Int128 ticks) const { return Nanos{to_int64((ticks + in_nano_ - 1) / in_nano_)}; }
  Decision describe(Instant now) const {
    const Int128 room = capacity_ * permit_ - debt(now);
    return {.limit = capacity_,
            .remaining = static_cast<Permits>(std::max<Int128>(room, 0) / permit_),
            .reset_after = in_nanos(debt(now))};
  }

  Int128 in_nano_;
  Int128 permit_;
  Permits capacity_;
  Permits at_once_;
  bool queue_;
  std::vector<ModelAdmission> admitted_;
};

// A model of nginx's limit_req, written after its source code. Every call costs one permit.
class NginxModel {
 public:
  NginxModel(std::int64_t milli_rate, std::int64_t burst, std::int64_t delay)
      : rate_(milli_rate), burst_(burst * 1000), delay_(delay * 1000) {}

  Decision take(Instant now, Nanos max_wait) {
    const std::int64_t ms = ns(now) / 1'000'000;
    if (const auto excess = account(ms); accepts(excess, max_wait)) {
      store(ms, excess);
      Decision answer = describe(now);
      answer.wait = delay_of(excess);
      return answer;
    }
    const std::int64_t then = search(ms, [&](auto t) { return accepts(account(t), max_wait); });
    return refused_answer(describe(now), between(now, instant(then * 1'000'000)));
  }

 private:
  std::int64_t elapsed(std::int64_t now) const {
    const std::int64_t ms = now - last_;
    return ms < -60'000 ? 1 : std::max<std::int64_t>(ms, 0);
  }
  std::int64_t account(std::int64_t now) const {
    if (!known_) return 0;
    return std::max<std::int64_t>(excess_ - rate_ * elapsed(now) / 1000 + 1000, 0);
  }
  bool accepts(std::int64_t excess, Nanos max_wait) const {
    return excess <= burst_ && delay_of(excess) <= max_wait;
  }
  Nanos delay_of(std::int64_t excess) const {
    if (excess <= delay_) return Nanos{0};
    return std::chrono::milliseconds{(excess - delay_) * 1000 / rate_};
  }
  void store(std::int64_t now, std::int64_t excess) {
    if (!known_ || elapsed(now) != 0) last_ = now;
    known_ = true;
    excess_ = excess;
  }
  // The first millisecond after `now` at which `passes`.
  template <typename Passes>
  std::int64_t search(std::int64_t now, Passes passes) const {
    std::int64_t no = now;
    std::int64_t yes = std::max(now, last_) + (excess_ + 2000) * 1000 / rate_ + 1;
    while (yes - no > 1) {
      const std::int64_t middle = no + (yes - no) / 2;
      (passes(middle) ? yes : no) = middle;
    }
    return yes;
  }
  // At rest a request would find a negative debt.
  bool rests(std::int64_t now) const {
    return !known_ || excess_ + 1000 - rate_ * std::max<std::int64_t>(now - last_, 0) / 1000 <= 0;
  }
  Decision describe(Instant now) const {
    const std::int64_t ms = ns(now) / 1'000'000;
    Permits left = 0;
    if (!known_) {
      left = burst_ / 1000 + 1;
    } else if (account(ms) <= burst_) {
      left = (burst_ - std::max<std::int64_t>(account(ms), 0)) / 1000 + 1;
    }
    const Instant rest =
        rests(ms) ? now : instant(search(ms, [&](auto t) { return rests(t); }) * 1'000'000);
    return {.limit = burst_ / 1000 + 1, .remaining = left, .reset_after = until(now, rest)};
  }

  std::int64_t rate_;
  std::int64_t burst_;
  std::int64_t delay_;
  bool known_ = false;
  std::int64_t excess_ = 0;
  std::int64_t last_ = 0;
};

// Permits in windows. `span_of` gives the bounds of a window; without it the first call opens one.
class WindowModel {
 public:
  using SpanOf = std::function<Span(Instant)>;
  WindowModel(Permits count, SpanOf span_of) : count_(count), span_of_(std::move(span_of)) {}
  WindowModel(Permits count, Nanos from_first) : count_(count), from_first_(from_first) {}

  Decision take(Instant now, const Ask& ask) {
    if (ask.cost < 0 || ask.cost > count_) return impossible_answer(describe(now));
    const Instant t = std::max(now, furthest_);
    const Span span = window_at(t);
    if (used(span) + ask.cost > count_) return refused_answer(describe(now), span.end - now);
    if (ask.cost > 0) {
      if (from_first_) opened_ = span;
      furthest_ = from_first_ ? span.start : t;
      admitted_.push_back({t, ask.cost});
    }
    return describe(now);
  }

 private:
  Span window_at(Instant t) const {
    if (!from_first_) return span_of_(t);
    if (opened_ && t < opened_->end) return *opened_;
    return {t, later(t, *from_first_)};
  }
  Permits used(Span span) const {
    Permits sum = 0;
    for (const ModelAdmission& a : admitted_) {
      if (a.at >= span.start && a.at < span.end) sum += a.cost;
    }
    return sum;
  }
  Decision describe(Instant now) const {
    const Instant t = std::max(now, furthest_);
    const Nanos reset =
        admitted_.empty() ? Nanos{0} : until(now, window_at(admitted_.back().at).end);
    const Permits in_use = used(window_at(t));
    return {.limit = count_,
            .remaining = count_ - in_use,
            .reset_after = in_use == 0 ? Nanos{0} : reset};
  }

  Permits count_;
  SpanOf span_of_;
  std::optional<Nanos> from_first_;
  std::optional<Span> opened_;
  Instant furthest_{};
  std::vector<ModelAdmission> admitted_;
};

// previous × share still covered + current + cost ≤ count.
class SlidingModel {
 public:
  SlidingModel(Permits count, Nanos period) : count_(count), period_(period.count()) {}

  Decision take(Instant now, const Ask& ask) {
    if (ask.cost < 0 || ask.cost > count_) return impossible_answer(describe(now));
    const Instant t = std::max(now, furthest_);
    if (!fits(t, ask.cost)) {
      const Instant then = first_passing(t, later(t, Nanos{2 * period_}),
                                         [&](Instant at) { return fits(at, ask.cost); });
      return refused_answer(describe(now), then - now);
    }
    if (ask.cost > 0) {
      furthest_ = t;
      admitted_.push_back({t, ask.cost});
    }
    return describe(now);
  }

 private:
  std::int64_t index(Instant t) const { return ns(t) / period_; }
  Permits used(std::int64_t window) const {
    Permits sum = 0;
    for (const ModelAdmission& a : admitted_) sum += index(a.at) == window ? a.cost : 0;
    return sum;
  }
  bool fits(Instant t, Permits cost) const {
    const Int128 covered = period_ - ns(t) % period_;
    return used(index(t) - 1) * covered + Int128{used(index(t)) + cost} * period_ <=
           Int128{count_} * period_;
  }
  Decision describe(Instant now) const {
    const Instant t = std::max(now, furthest_);
    Permits left = count_;
    while (left > 0 && !fits(t, left)) --left;
    const Instant over = admitted_.empty() ? Instant{} : instant((index(furthest_) + 2) * period_);
    return {.limit = count_, .remaining = left, .reset_after = until(now, over)};
  }

  Permits count_;
  std::int64_t period_;
  Instant furthest_{};
  std::vector<ModelAdmission> admitted_;
};

// A plain list of admissions. An admission at t counts until just before t + period.
class LogModel {
 public:
  LogModel(Permits count, Nanos period) : count_(count), period_(period) {}

  Decision take(Instant now, const Ask& ask) {
    if (ask.cost < 0 || ask.cost > count_) return impossible_answer(describe(now));
    const Instant t = std::max(now, furthest_);
    if (used(t) + ask.cost > count_) {
      Instant then = t;
      for (const ModelAdmission& a : admitted_) {
        if (used(then) + ask.cost > count_) then = std::max(then, a.at + period_);
      }
      return refused_answer(describe(now), then - now);
    }
    if (ask.cost > 0) {
      furthest_ = t;
      admitted_.push_back({t, ask.cost});
    }
    return describe(now);
  }

 private:
  Permits used(Instant t) const {
    Permits sum = 0;
    for (const ModelAdmission& a : admitted_) sum += t < a.at + period_ ? a.cost : 0;
    return sum;
  }
  Decision describe(Instant now) const {
    const Nanos reset = admitted_.empty() ? Nanos{0} : until(now, furthest_ + period_);
    return {.limit = count_,
            .remaining = count_ - used(std::max(now, furthest_)),
            .reset_after = reset};
  }

  Permits count_;
  Nanos period_;
  Instant furthest_{};
  std::vector<ModelAdmission> admitted_;
};

// The holders, with the end of each lease.
class HoldersModel {
 public:
  HoldersModel(Permits count, Nanos lease) : count_(count), lease_(lease) {}

  Decision enter(Instant now, Permits cost, std::uint64_t who) {
    for (ModelHolder& holder : holders_) {
      if (holder.who == who && now < holder.until) {
        holder.until = std::max(holder.until, now + lease_);
        forget_expired(now);
        return describe(now);
      }
    }
    if (cost < 0 || cost > count_) return impossible_answer(describe(now));
    if (held(now) + cost > count_) {
      Instant then = kLatest;
      for (const ModelHolder& holder : holders_) {
        if (held(holder.until) + cost <= count_) then = std::min(then, holder.until);
      }
      return refused_answer(describe(now), then - now);
    }
    if (cost > 0) {
      forget_expired(now);
      holders_.push_back({who, now + lease_, cost});
    }
    return describe(now);
  }

  bool leave(Instant now, std::uint64_t who) {
    return std::erase_if(holders_, [&](const ModelHolder& holder) {
             return holder.who == who && now < holder.until;
           }) > 0;
  }

  Permits held(Instant now) const {
    Permits sum = 0;
    for (const ModelHolder& holder : holders_) sum += now < holder.until ? holder.permits : 0;
    return sum;
  }

 private:
  struct ModelHolder {
    std::uint64_t who;
    Instant until;
    Permits permits;
  };
  void forget_expired(Instant now) {
    std::erase_if(holders_, [&](const ModelHolder& holder) { return holder.until <= now; });
  }
  Decision describe(Instant now) const {
    Instant last{};
    for (const ModelHolder& holder : holders_) last = std::max(last, holder.until);
    return {.limit = count_, .remaining = count_ - held(now), .reset_after = until(now, last)};
  }

  Permits count_;
  Nanos lease_;
  std::vector<ModelHolder> holders_;
};

}  // namespace weir::core::model
