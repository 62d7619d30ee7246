#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "base/utf8.h"
#include "engine/engine_access.h"
#include "server/resp_session.h"
#include "server/texts.h"

// redis-cell's command.

namespace weir::server {

using wire::RespWriter;

namespace {

constexpr std::string_view kCellUsage =
    "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> "
    "[<quantity>]";

// As Rust reads numbers, which redis-cell is written in: a plus is allowed.
std::optional<std::int64_t> cell_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return whole_number(text);
}

// What is wrong with a limit. More than one permit each nanosecond is none to redis-cell either.
std::string_view cell_flaw(core::Flaw flaw) {
  const bool zero = flaw == core::Flaw::rate_not_positive ||
                    flaw == core::Flaw::period_not_positive || flaw == core::Flaw::rate_too_high;
  return zero ? "Cell error: Store error: Zero rates are not supported"
              : "Cell error: Store error: max_burst is out of range";
}

// Seconds, rounded up once there is a millisecond beyond them.
std::int64_t cell_seconds(Nanos time) {
  const std::int64_t seconds = time.count() / 1'000'000'000;
  const std::int64_t beyond = time.count() % 1'000'000'000;
  return beyond >= 1'000'000 ? seconds + 1 : seconds;
}

void append_cell(RespWriter say, const Verdict& verdict) {
  if (!verdict.error.empty()) return say.error("ERR " + verdict.error);
  const Decision& decision = verdict.decision;
  const bool below_zero = decision.outcome == Outcome::impossible && decision.retry_after != kNever;
  if (below_zero) {
    return say.error("Cell error: Store error: Error while setting key expire");
  }
  const bool waits = decision.outcome == Outcome::limited;
  say.array(5);
  say.integer(decision ? 0 : 1);
  say.integer(decision.limit);
  say.integer(decision.remaining);
  say.integer(waits ? cell_seconds(decision.retry_after) : -1);
  say.integer(cell_seconds(decision.reset_after));
}

}  // namespace

void RespSession::throttle(Arguments arguments, std::string& out) {
  if (arguments.size() != 5 && arguments.size() != 6) return answer(out).error(kCellUsage);
  std::array<std::int64_t, 4> numbers{0, 0, 0, 1};  // burst, count, period, quantity
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const auto number = cell_number(arguments[i]);
    if (!number) {
      return answer(out).error(fmt::format("Cell error: Store error: Couldn't parse as integer: {}",
                                           shortened(arguments[i])));
    }
    numbers[i - 2] = *number;
  }
  const auto limit = core::Cell::make(numbers[0], numbers[1], numbers[2]);
  if (!limit) return answer(out).error(cell_flaw(limit.error()));
  AsyncEngine asked = engine();
  detail::EngineAccess::throttle(
      asked, *limit, arguments[1], numbers[3],
      [place = answers_.add(), protocol = protocol_](const Verdict& verdict) {
        append_cell(RespWriter(place->text, protocol), verdict);
        place->done();
      });
}

}  // namespace weir::server
