#include "generators.h"

#include <algorithm>
#include <ostream>
#include <sstream>
#include <type_traits>

#include "calendar.h"

namespace weir::core {

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const Nanos kYear = hours{24 * 365};

template <typename L>
L good(Result<L, Flaw> made) {
  RC_ASSERT(static_cast<bool>(made));
  return *made;
}

template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

rc::Gen<Nanos> period() {
  return rc::gen::element<Nanos>(seconds{1}, seconds{60}, milliseconds{250}, hours{1}, Nanos{1000},
                                 Nanos{7'000'000'013}, hours{24});
}

rc::Gen<Rate> plain_rate() {
  return rc::gen::map(rc::gen::pair(rc::gen::inRange(1, 2000), period()), [](const auto& drawn) {
    return Rate{.count = drawn.first, .period = drawn.second};
  });
}

rc::Gen<Rate> whole_rate(int most) {
  return rc::gen::map(rc::gen::pair(rc::gen::inRange(1, most), period()), [](const auto& drawn) {
    return Rate{.count = drawn.first, .period = drawn.second};
  });
}

rc::Gen<Permits> places(Permits least) {
  return rc::gen::weightedOneOf<Permits>({{6, rc::gen::inRange<Permits>(least, 8)},
                                          {3, rc::gen::inRange<Permits>(least, 200)},
                                          {1, rc::gen::inRange<Permits>(least, 1'000'000)}});
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const NamedLimit& named) { return out << named.text; }

std::ostream& operator<<(std::ostream& out, const Rate& rate) {
  return out << rate.count << "/" << rate.scale << " per " << rate.period.count() << "ns";
}

std::ostream& operator<<(std::ostream& out, const Decision& d) {
  return out << "{outcome " << static_cast<int>(d.outcome) << ", limit " << d.limit
             << ", remaining " << d.remaining << ", retry " << d.retry_after.count() << ", reset "
             << d.reset_after.count() << ", wait " << d.wait.count() << "}";
}

rc::Gen<Rate> exact_rate() {
  return rc::gen::oneOf(
      rc::gen::element<Rate>(Rate{1, 1, seconds{1}}, Rate{10, 1, seconds{1}},
                             Rate{20, 1, seconds{1}}, Rate{3, 1, seconds{1}},
                             Rate{7, 1, minutes{1}}, Rate{3, 10, seconds{1}},
                             Rate{1000003, 1, seconds{1}}, Rate{1'000'000'000, 1, seconds{1}},
                             Rate{1'000'000'000'000, 1, seconds{1}}, Rate{1, 1, kYear},
                             Rate{5, 1, seconds{3}}, Rate{123, 1, Nanos{7'000'000'013}}),
      plain_rate());
}

rc::Gen<Rate> any_rate() {
  return rc::gen::weightedOneOf<Rate>(
      {{4, exact_rate()},
       {1, rc::gen::element<Rate>(Rate{999'999'937, 1, seconds{1}},
                                  Rate{1'234'567'891, 1'000, milliseconds{7}},
                                  Rate{123'456'789'011, 1, seconds{1}})}});
}

rc::Gen<NamedLimit> bucket() {
  return rc::gen::map(rc::gen::pair(any_rate(), places(1)), [](const auto& drawn) {
    return NamedLimit{text("bucket ", drawn.first, " burst ", drawn.second),
                      good(Bucket::make(drawn.first, drawn.second))};
  });
}

rc::Gen<NamedLimit> queue() {
  return rc::gen::map(rc::gen::tuple(any_rate(), places(0), places(0)), [](const auto& drawn) {
    const auto& [rate, waiting, undelayed] = drawn;
    return NamedLimit{text("queue ", rate, " places ", waiting, " undelayed ", undelayed),
                      good(Bucket::make_queue(rate, waiting, undelayed))};
  });
}

rc::Gen<NamedLimit> nginx() {
  const auto rate = rc::gen::map(
      rc::gen::tuple(rc::gen::inRange(1, 3000), rc::gen::element<Nanos>(seconds{1}, minutes{1})),
      [](const auto& drawn) {
        return Rate{.count = std::get<0>(drawn), .period = std::get<1>(drawn)};
      });
  return rc::gen::map(rc::gen::tuple(rate, places(0), places(0)), [](const auto& drawn) {
    const auto& [r, waiting, undelayed] = drawn;
    return NamedLimit{text("nginx ", r, " burst=", waiting, " delay=", undelayed),
                      good(NginxQueue::make(r, waiting, undelayed))};
  });
}

rc::Gen<Rate> smooth_rate() {
  return rc::gen::suchThat(
      any_rate(), [](const Rate& rate) { return rate.count / rate.scale <= rate.period.count(); });
}

rc::Gen<NamedLimit> smooth() {
  return rc::gen::map(smooth_rate(), [](const Rate& rate) {
    return NamedLimit{text("smooth ", rate), good(Smooth::make(rate))};
  });
}

rc::Gen<NamedLimit> warming() {
  const auto warmup =
      rc::gen::element<Nanos>(seconds{4}, seconds{10}, Nanos{0}, Nanos{1}, Nanos{777}, hours{4});
  return rc::gen::map(rc::gen::pair(smooth_rate(), warmup), [](const auto& drawn) {
    return NamedLimit{text("smooth ", drawn.first, " warmup ", drawn.second.count(), "ns"),
                      good(Smooth::make_warming(drawn.first, drawn.second))};
  });
}

rc::Gen<NamedLimit> window() {
  return rc::gen::map(
      rc::gen::pair(whole_rate(200), rc::gen::arbitrary<bool>()), [](const auto& drawn) {
        return NamedLimit{text("window ", drawn.first, drawn.second ? " from first" : ""),
                          good(Window::make(drawn.first, drawn.second))};
      });
}

rc::Gen<NamedLimit> sliding() {
  return rc::gen::map(whole_rate(200), [](const Rate& rate) {
    return NamedLimit{text("sliding ", rate), good(SlidingCounter::make(rate))};
  });
}

rc::Gen<NamedLimit> quota() {
  return rc::gen::map(rc::gen::inRange<Permits>(1, 50), [](Permits count) {
    return NamedLimit{text("quota ", count, "/day"),
                      good(CalendarWindow::make(count, uneven_days()))};
  });
}

rc::Gen<NamedLimit> exact_log() {
  return rc::gen::map(whole_rate(20), [](const Rate& rate) {
    return NamedLimit{text("exact log ", rate), good(SlidingLog::make(rate))};
  });
}

rc::Gen<NamedLimit> concurrency() {
  const auto lease = rc::gen::element<Nanos>(seconds{30}, Nanos{10}, hours{1});
  return rc::gen::map(
      rc::gen::pair(rc::gen::inRange<Permits>(1, 12), lease), [](const auto& drawn) {
        return NamedLimit{text(drawn.first, " concurrent lease ", drawn.second.count()),
                          good(Concurrency::make(drawn.first, drawn.second))};
      });
}

rc::Gen<NamedLimit> any_limit() {
  return rc::gen::oneOf(bucket(), queue(), nginx(), smooth(), warming(), window(), sliding(),
                        quota(), exact_log(), concurrency());
}

std::ostream& operator<<(std::ostream& out, const Step& step) {
  static constexpr const char* moves[] = {"stay",         "ticks",   "beats",       "to_retry",
                                          "before_retry", "to_rest", "before_rest", "back"};
  static constexpr const char* sizes[] = {"one",      "few",  "share",   "all",
                                          "too many", "none", "negative"};
  static constexpr const char* patiences[] = {"none", "beats", "forever"};
  return out << "{" << moves[static_cast<int>(step.move)] << " " << step.amount << ", "
             << sizes[static_cast<int>(step.size)] << " " << step.part << ", patience "
             << patiences[static_cast<int>(step.patience)] << " " << step.patience_amount << "}";
}

rc::Gen<Step> step(ClockOptions clock_options) {
  using Move = Step::Move;
  using Size = Step::Size;
  using Patience = Step::Patience;
  const std::size_t back = clock_options.steps_back ? 1 : 0;
  const std::size_t waits = clock_options.waits ? 1 : 0;
  return rc::gen::build<Step>(
      rc::gen::set(&Step::move, rc::gen::weightedElement<Move>({{6, Move::stay},
                                                                {2, Move::ticks},
                                                                {6, Move::beats},
                                                                {3, Move::to_retry},
                                                                {2, Move::before_retry},
                                                                {1, Move::to_rest},
                                                                {1, Move::before_rest},
                                                                {back, Move::back}})),
      rc::gen::set(&Step::amount, rc::gen::inRange(1, 30)),
      rc::gen::set(&Step::size, rc::gen::weightedElement<Size>({{12, Size::one},
                                                                {6, Size::few},
                                                                {4, Size::share},
                                                                {2, Size::all},
                                                                {1, Size::too_many},
                                                                {1, Size::none},
                                                                {1, Size::negative}})),
      rc::gen::set(&Step::part, rc::gen::inRange(1, 1000)),
      rc::gen::set(
          &Step::patience,
          rc::gen::weightedElement<Patience>(
              {{3, Patience::none}, {waits, Patience::beats}, {waits, Patience::forever}})),
      rc::gen::set(&Step::patience_amount, rc::gen::inRange(0, 40)));
}

rc::Gen<std::vector<Step>> steps(ClockOptions clock_options) {
  return rc::gen::scale(0.6, rc::gen::container<std::vector<Step>>(step(clock_options)));
}

Instant start() {
  return instant(*rc::gen::element<std::int64_t>(1'767'225'600'000'000'000,
                                                 1'767'225'601'234'567'891, 1, 3'000'001));
}

Nanos beat(const Limit& limit) {
  const auto of = [](const auto& l) -> Nanos {
    using L = std::decay_t<decltype(l)>;
    if constexpr (std::is_same_v<L, Bucket> || std::is_same_v<L, Smooth>) {
      return Nanos{to_int64(ceil_div(l.interval.price, l.interval.parts))};
    } else if constexpr (std::is_same_v<L, NginxQueue>) {
      return Nanos{1'000'000'000'000 / l.milli_rate};
    } else if constexpr (std::is_same_v<L, Concurrency>) {
      return l.hold_time / 8;
    } else if constexpr (std::is_same_v<L, CalendarWindow>) {
      return hours{3};
    } else if constexpr (std::is_same_v<L, RedisCell>) {
      return l.price;
    } else {
      return l.period / 8;
    }
  };
  return std::max(std::visit(of, limit), Nanos{1});
}

Instant moved(const Step& step, const Limit& limit, Instant now, const Decision& last) {
  const Nanos eighths{to_int64(Int128{beat(limit).count()} * step.amount / 8)};
  const auto by = [&]() -> Nanos {
    switch (step.move) {
      case Step::Move::stay:
        return Nanos{0};
      case Step::Move::ticks:
        return Nanos{step.amount};
      case Step::Move::beats:
        return eighths;
      case Step::Move::to_retry:
        return std::max(last.retry_after, Nanos{0});
      case Step::Move::before_retry:
        return std::max(last.retry_after - Nanos{1}, Nanos{0});
      case Step::Move::to_rest:
        return last.reset_after;
      case Step::Move::before_rest:
        return std::max(last.reset_after - Nanos{1}, Nanos{0});
      case Step::Move::back:
        return -eighths;
    }
    return Nanos{0};
  };
  return std::clamp(later(now, by()), kEarliest, kHorizon);
}

Ask ask_of(const Step& step, const Limit& limit) {
  const Permits all = capacity(limit);
  const auto cost = [&]() -> Permits {
    switch (step.size) {
      case Step::Size::one:
        return 1;
      case Step::Size::few:
        return 1 + step.part % 5;
      case Step::Size::share:
        return std::max<Permits>(all * step.part / 1000, 1);
      case Step::Size::all:
        return all;
      case Step::Size::too_many:
        return all + 1;
      case Step::Size::none:
        return 0;
      case Step::Size::negative:
        return -step.part;
    }
    return 1;
  };
  const auto patience = [&]() -> Nanos {
    switch (step.patience) {
      case Step::Patience::none:
        return Nanos{0};
      case Step::Patience::beats:
        return Nanos{to_int64(Int128{beat(limit).count()} * step.patience_amount / 8)};
      case Step::Patience::forever:
        return kForever;
    }
    return Nanos{0};
  };
  return {.cost = cost(), .max_wait = patience()};
}

}  // namespace weir::core
