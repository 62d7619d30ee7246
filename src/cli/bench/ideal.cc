#include "cli/bench/ideal.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "policy/limit_text.h"

namespace weir::cli::bench {

// From behind: only the name, in front, may hold anything.
Result<KnownLimit, Error> read_explained(std::string_view line) {
  const Error wrong{fmt::format("cannot read what the daemon says of its limit: {}", line)};
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

Result<Ideal, Error> Ideal::of(const Plan& plan, std::vector<KnownLimit> limits) {
  if (plan.mix.has(Verb::settle)) return Error{"settling takes without asking"};
  if (!plan.mix.has(Verb::take)) return Error{"nothing is taken"};
  Ideal ideal;
  for (const KnownLimit& limit : limits) {
    if (limit.shadow || limit.cost == 0) continue;
    const auto* bucket = std::get_if<core::Bucket>(&limit.rule);
    if (const auto* cell = std::get_if<core::Cell>(&limit.rule)) {
      ideal.refills_.push_back({cell->capacity, limit.cost, cell->price.count(), 1});
    } else if (bucket != nullptr && !bucket->queue) {
      ideal.refills_.push_back(
          {bucket->capacity, limit.cost, bucket->pace.price, bucket->pace.parts});
    } else {
      return Error{fmt::format("only known for token buckets, and there is \"{}\"",
                               policy::to_text(limit.rule))};
    }
  }
  return ideal;
}

std::uint64_t Ideal::for_key(Nanos elapsed) const {
  Int128 least = std::numeric_limits<std::int64_t>::max();
  for (const Refill& refill : refills_) {
    // What costs more than the bucket ever holds never passes.
    const Int128 dripped = Int128{elapsed.count()} * refill.parts / refill.price;
    const Int128 most =
        refill.cost > refill.capacity ? 0 : (refill.capacity + dripped) / refill.cost;
    least = std::min(least, most);
  }
  return static_cast<std::uint64_t>(least);
}

std::uint64_t Ideal::for_all(const Asked& asked, Nanos elapsed) const {
  const std::uint64_t most = for_key(elapsed);
  std::uint64_t sum = 0;
  for (const auto& times : asked) sum += std::min<std::uint64_t>(times.load(), most);
  return sum;
}

}  // namespace weir::cli::bench
