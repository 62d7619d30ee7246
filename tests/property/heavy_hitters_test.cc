// The sketch against exact counts: its bounds hold for any stream.

#include "base/heavy_hitters.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "property.h"

namespace weir {
namespace {

struct Arrival {
  std::uint64_t key;
  std::uint64_t weight;
};
using Arrivals = std::vector<Arrival>;
using Exact = std::map<std::uint64_t, std::uint64_t>;

// Some keys come often, most of them once. Hashes that share their low bits share a chain.
rc::Gen<Arrivals> arrivals() {
  const auto key = rc::gen::weightedOneOf<std::uint64_t>(
      {{3, rc::gen::inRange<std::uint64_t>(0, 5)},
       {2, rc::gen::map(rc::gen::inRange<std::uint64_t>(0, 20),
                        [](std::uint64_t i) { return i << 32; })},
       {1, rc::gen::arbitrary<std::uint64_t>()}});
  const auto weight = rc::gen::weightedElement<std::uint64_t>({{5, 1}, {1, 16}, {1, 0}, {1, 1000}});
  return rc::gen::scale(10.0, rc::gen::container<Arrivals>(
                                  rc::gen::map(rc::gen::pair(key, weight), [](const auto& pair) {
                                    return Arrival{pair.first, pair.second};
                                  })));
}

void count(const Arrivals& stream, HeavyHitters& sketch, Exact& exact) {
  for (const Arrival& each : stream) {
    exact[each.key] += each.weight;
    if (TruncatedText* text = sketch.add(each.key, each.weight)) {
      text->append(std::to_string(each.key));
    }
  }
}

std::uint64_t total_of(const Exact& exact) {
  std::uint64_t total = 0;
  for (const auto& [key, weight] : exact) total += weight;
  return total;
}

template <typename Hitters>
void check_bounds(const Hitters& found, const Exact& exact, std::size_t counters) {
  std::map<std::uint64_t, HeavyHitter> by_key;
  for (const HeavyHitter& each : found) {
    RC_ASSERT(exact.contains(each.hash));
    const std::uint64_t truth = exact.at(each.hash);
    RC_ASSERT(each.count >= truth);
    RC_ASSERT(each.error <= each.count);
    RC_ASSERT(each.count - each.error <= truth);
    RC_ASSERT(each.text.view() == std::to_string(each.hash));
    RC_ASSERT(by_key.emplace(each.hash, each).second);
  }
  const std::uint64_t total = total_of(exact);
  for (const auto& [key, truth] : exact) {
    if (truth * counters > total) RC_ASSERT(by_key.contains(key));
  }
}

TEST(HeavyHitters, ContainEveryFrequentKeyWithItsCount) {
  core::check([] {
    const auto counters = *rc::gen::inRange<std::size_t>(1, 20);
    HeavyHitters sketch(counters);
    Exact exact;
    count(*arrivals(), sketch, exact);
    RC_ASSERT(sketch.size() == std::min(counters, exact.size()));
    RC_ASSERT(sketch.total() == total_of(exact));
    for (const auto& [key, truth] : exact) {
      const auto is_it = [wanted = key](const HeavyHitter& each) { return each.hash == wanted; };
      if (std::ranges::none_of(sketch.all(), is_it))
        RC_ASSERT(truth <= sketch.max_untracked_count());
    }
    check_bounds(sketch.all(), exact, counters);
  });
}

TEST(HeavyHitters, AreExactWhileThereIsRoom) {
  core::check([] {
    HeavyHitters sketch(1000);
    Exact exact;
    const Arrivals stream = *arrivals();
    RC_PRE(stream.size() <= 1000);
    count(stream, sketch, exact);
    for (const HeavyHitter& each : sketch.all()) {
      RC_ASSERT(each.count == exact.at(each.hash));
      RC_ASSERT(each.error == 0u);
    }
  });
}

TEST(HeavyHitters, KeepTheirBoundsWhenMerged) {
  core::check([] {
    const auto counters = *rc::gen::inRange<std::size_t>(1, 20);
    std::vector<HeavyHitters> sketches;
    Exact exact;
    const int several = *rc::gen::inRange(0, 5);
    for (int i = 0; i < several; ++i) {
      count(*arrivals(), sketches.emplace_back(counters), exact);
    }
    const auto all = merged(sketches, counters * 5);
    check_bounds(all, exact, counters);
    for (std::size_t i = 1; i < all.size(); ++i) RC_ASSERT(all[i - 1].count >= all[i].count);
    const auto most = *rc::gen::inRange<std::size_t>(0, 10);
    const auto first = merged(sketches, most);
    RC_ASSERT(first.size() == std::min(most, all.size()));
    for (std::size_t i = 0; i < first.size(); ++i) RC_ASSERT(first[i].hash == all[i].hash);
  });
}

TEST(HeavyHitters, AreAsNewWhenCleared) {
  core::check([] {
    HeavyHitters sketch(*rc::gen::inRange<std::size_t>(1, 20));
    Exact forgotten;
    count(*arrivals(), sketch, forgotten);
    sketch.clear();
    RC_ASSERT(sketch.size() == 0u);
    RC_ASSERT(sketch.max_untracked_count() == 0u);
    Exact exact;
    count(*arrivals(), sketch, exact);
    check_bounds(sketch.all(), exact, std::max<std::size_t>(sketch.size(), 1));
  });
}

}  // namespace
}  // namespace weir
