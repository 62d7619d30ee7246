#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/saturating.h"
#include "timeline/world.h"

namespace weir::timeline {

namespace {

// The results of a step's arrivals.
struct StepResults {
  std::int64_t allowed = 0;
  std::vector<Nanos> waits;
  ArrivalResult last;
};

StepResults run_step(World& world, const Step& step, Instant now) {
  StepResults outcomes;
  for (std::int64_t i = 0; i < step.n; ++i) {
    outcomes.last = world.apply(step, now);
    if (!outcomes.last.error.empty()) break;
    if (!outcomes.last.decision) continue;
    ++outcomes.allowed;
    if (step.expected.waits) outcomes.waits.push_back(outcomes.last.decision.wait);
  }
  return outcomes;
}

// ---- Comparing

std::string seconds_text(Nanos duration) {
  const std::string text = fmt::format("{}.{:09}", duration.count() / 1'000'000'000,
                                       std::abs(duration.count() % 1'000'000'000));
  const std::size_t last = text.find_last_not_of('0');
  return text.substr(0, text[last] == '.' ? last : last + 1) + " s";
}

std::string retry_text(Nanos retry) {
  return retry == core::kNever ? "never" : seconds_text(retry);
}

std::string waits_text(const std::vector<Nanos>& waits) {
  constexpr std::size_t shown = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(waits.size(), shown); ++i) {
    text += (i == 0 ? "" : ", ") + seconds_text(waits[i]);
  }
  if (waits.size() > shown) text += fmt::format(", … ({} in all)", waits.size());
  return text.empty() ? "none" : text;
}

std::string_view outcome_text(core::Outcome outcome) {
  switch (outcome) {
    case core::Outcome::allowed:
      return "allowed";
    case core::Outcome::limited:
      return "limited";
    case core::Outcome::impossible:
      return "impossible";
  }
  return {};
}

bool near(Nanos a, Nanos b, Nanos tolerance) {
  // "Never" has no tolerance.
  if (a < Nanos{0} || b < Nanos{0}) return a == b;
  return std::max(a, b) - std::min(a, b) <= tolerance;
}

class Comparison {
 public:
  Comparison(const Case& test, std::size_t step, std::vector<Mismatch>& mismatches)
      : case_(test), step_(step), mismatches_(mismatches) {}

  void check(const StepResults& actual, const std::string& limited_by) {
    const Expected& expected = case_.steps[step_].expected;
    const core::Decision& last = actual.last.decision;
    const auto close = [&](Nanos a, Nanos b) { return near(a, b, case_.tolerance); };
    const auto whole = [](std::int64_t n) { return fmt::format("{}", n); };

    compare("allowed", expected.allowed, actual.allowed, std::equal_to<>{}, whole);
    const auto all_close = [&](const auto& a, const auto& b) {
      return std::ranges::equal(a, b, close);
    };
    compare("waits", expected.waits, actual.waits, all_close, waits_text);
    compare("remaining", expected.remaining, last.remaining, std::equal_to<>{}, whole);
    compare("retry_after", expected.retry_after, last.retry_after, close, retry_text);
    compare("reset_after", expected.reset_after, last.reset_after, close, seconds_text);
    compare("outcome", expected.outcome, last.outcome, std::equal_to<>{}, outcome_text);
    const std::string position = fmt::format("{}", actual.last.tightest);
    const auto names_it = [&](const std::string& wanted, const std::string& name) {
      return wanted == name || wanted == position;
    };
    compare("limited_by", expected.limited_by, limited_by, names_it,
            [](const std::string& name) { return name; });
  }

 private:
  template <typename T, typename Matches, typename Text>
  void compare(std::string_view what, const std::optional<T>& expected, const T& actual,
               Matches matches, Text text) {
    if (!expected || matches(*expected, actual)) return;
    mismatches_.push_back({.place = case_.steps[step_].place,
                           .step = step_ + 1,
                           .what = std::string{what},
                           .expected = std::string{text(*expected)},
                           .actual = std::string{text(actual)}});
  }

  const Case& case_;
  std::size_t step_;
  std::vector<Mismatch>& mismatches_;
};

std::unique_ptr<World> make_world(const Case& test, Store store) {
  return store == Store::core ? make_core_world(test) : make_engine_world(test);
}

// A limit's name, or its position.
std::string name_of(const ArrivalResult& answer) {
  return answer.name.empty() ? fmt::format("{}", answer.tightest) : std::string{answer.name};
}

std::vector<Mismatch> run_on(World& world, const Case& test) {
  std::vector<Mismatch> mismatches;
  for (std::size_t i = 0; i < test.steps.size(); ++i) {
    const Step& step = test.steps[i];
    const StepResults outcomes = run_step(world, step, later(test.epoch, step.at));
    if (!outcomes.last.error.empty()) {
      mismatches.push_back({.place = step.place,
                            .step = i + 1,
                            .what = "store",
                            .expected = "an answer",
                            .actual = outcomes.last.error});
      break;
    }
    Comparison(test, i, mismatches).check(outcomes, name_of(outcomes.last));
  }
  return mismatches;
}

}  // namespace

std::vector<Mismatch> run(const Case& test, Store store) {
  return run_on(*make_world(test, store), test);
}

std::vector<Mismatch> run(const Case& test, SharedStoreAccess way) {
  return run_on(*make_shared_world(test, std::move(way)), test);
}

}  // namespace weir::timeline
