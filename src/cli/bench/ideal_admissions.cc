#include "cli/bench/ideal_admissions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "policy/limit_text.h"

namespace weir::cli::bench {

// Parses the line from its end: the name at its beginning may contain any text.
Result<KnownLimit, Error> read_explained(std::string_view line) {
  const Error wrong{fmt::format("cannot parse the daemon's description of a limit: {}", line)};
  constexpr std::string_view cost_mark = "; a cost of ";
  const std::size_t cost_at = line.rfind(cost_mark);
  if (cost_at == std::string_view::npos) return wrong;
  const std::string_view cost = line.substr(cost_at + cost_mark.size());
  const std::string_view head = line.substr(0, cost_at);
  const std::size_t state_at = head.rfind(": ");
  if (state_at == std::string_view::npos || state_at == 0) return wrong;
  const std::size_t limit_at = head.rfind(": ", state_at - 1);
  if (limit_at == std::string_view::npos) return wrong;
  const std::string_view text = head.substr(limit_at + 2, state_at - limit_at - 2);
  auto rule = policy::parse_limit(text);
  if (!rule) return wrong;
  KnownLimit known{.rule = *std::move(rule), .cost = 1, .shadow = line.ends_with("refuses)")};
  if (std::from_chars(cost.data(), cost.data() + cost.size(), known.cost).ec != std::errc{}) {
    return wrong;
  }
  return known;
}

Result<IdealAdmissions, Error> IdealAdmissions::of(const BenchPlan& plan,
                                                   std::vector<KnownLimit> limits) {
  if (plan.mix.has(RequestVerb::settle)) return Error{"settle charges permits without a decision"};
  if (!plan.mix.has(RequestVerb::take)) return Error{"the mix has no takes"};
  IdealAdmissions ideal;
  for (const KnownLimit& limit : limits) {
    if (limit.shadow || limit.cost == 0) continue;
    const auto* bucket = std::get_if<core::Bucket>(&limit.rule);
    if (const auto* cell = std::get_if<core::RedisCell>(&limit.rule)) {
      ideal.refills_.push_back({cell->capacity, limit.cost, cell->price.count(), 1});
    } else if (bucket != nullptr && !bucket->queue) {
      ideal.refills_.push_back(
          {bucket->capacity, limit.cost, bucket->interval.price, bucket->interval.parts});
    } else {
      return Error{fmt::format("it is defined for token buckets only, and \"{}\" is none",
                               policy::to_text(limit.rule))};
    }
  }
  return ideal;
}

std::uint64_t IdealAdmissions::for_key(Nanos elapsed) const {
  Int128 lowest = std::numeric_limits<std::int64_t>::max();
  for (const Refill& refill : refills_) {
    // A cost above the capacity never passes.
    const Int128 refilled = Int128{elapsed.count()} * refill.parts / refill.price;
    const Int128 admitted =
        refill.cost > refill.capacity ? 0 : (refill.capacity + refilled) / refill.cost;
    lowest = std::min(lowest, admitted);
  }
  return static_cast<std::uint64_t>(lowest);
}

std::uint64_t IdealAdmissions::for_all(const TakesPerKey& takes_per_key, Nanos elapsed) const {
  const std::uint64_t max_per_key = for_key(elapsed);
  std::uint64_t sum = 0;
  for (const auto& takes : takes_per_key) sum += std::min<std::uint64_t>(takes.load(), max_per_key);
  return sum;
}

}  // namespace weir::cli::bench
