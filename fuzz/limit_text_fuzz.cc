// Any bytes as the text of a limit: an error with a position inside the text, or a limit that
// prints as a text which reads back as itself, and that decides without undefined behaviour.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/limit.h"
#include "policy/limit_text.h"

namespace {

using weir::Instant;
using weir::Nanos;
namespace core = weir::core;

void require(bool holds) {
  if (!holds) std::abort();
}

// A few calls at edge times and costs.
template <typename L>
void exercise(const L& limit) {
  if constexpr (core::kHasState<L>) {
    core::State state;
    for (const std::int64_t t : {std::int64_t{0}, std::int64_t{1'767'225'600'000'000'000},
                                 std::int64_t{1'767'225'599'999'999'999}, std::int64_t{1} << 62,
                                 std::int64_t{-1}, INT64_MAX}) {
      for (const weir::Permits cost : {weir::Permits{1}, weir::Permits{0}, core::capacity(limit),
                                       core::kMaxPermits, weir::Permits{-1}}) {
        const Instant now{Nanos{t}};
        const core::StepResult taken = core::take(limit, state, now, {cost, weir::kForever});
        require(taken.decision.remaining >= 0);
        require(taken.decision || taken.next == state);
        state = core::debit(limit, taken.next, now, 1);
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto limit = weir::policy::parse_limit(text);
  if (!limit) {
    require(!limit.error().message.empty());
    require(limit.error().place.column >= 1);
    require(static_cast<std::size_t>(limit.error().place.column) <= size + 1);
    return 0;
  }
  const std::string printed = weir::policy::to_text(*limit);
  const auto again = weir::policy::parse_limit(printed);
  require(static_cast<bool>(again));
  require(weir::policy::to_text(*again) == printed);
  std::visit([](const auto& l) { exercise(l); }, *limit);
  return 0;
}
