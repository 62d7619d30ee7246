#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "base/utf8.h"
#include "engine/engine_access.h"
#include "server/format.h"
#include "server/resp_session.h"

// CL.THROTTLE, as in redis-cell.

namespace weir::server {

using wire::RespWriter;

namespace {

constexpr std::string_view kCellUsage =
    "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> "
    "[<quantity>]";

// As Rust parses integers, in which redis-cell is written: a plus sign is allowed.
std::optional<std::int64_t> cell_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return whole_number(text);
}

// The errors of redis-cell. A rate above one permit per nanosecond is zero there, too.
std::string_view cell_error(core::Flaw flaw) {
  const bool zero = flaw == core::Flaw::rate_not_positive ||
                    flaw == core::Flaw::period_not_positive || flaw == core::Flaw::rate_too_high;
  return zero ? "Cell error: Store error: Zero rates are not supported"
              : "Cell error: Store error: max_burst is out of range";
}

// Whole seconds, rounded up from one millisecond on.
std::int64_t cell_seconds(Nanos time) {
  const std::int64_t seconds = time.count() / 1'000'000'000;
  const std::int64_t beyond = time.count() % 1'000'000'000;
  return beyond >= 1'000'000 ? seconds + 1 : seconds;
}

void append_cell(RespWriter writer, const Verdict& verdict) {
  if (!verdict.error.empty()) return writer.error("ERR " + verdict.error);
  const Decision& decision = verdict.decision;
  const bool below_zero = decision.outcome == Outcome::impossible && decision.retry_after != kNever;
  if (below_zero) {
    return writer.error("Cell error: Store error: Error while setting key expire");
  }
  const bool can_retry = decision.outcome == Outcome::limited;
  writer.array(5);
  writer.integer(decision ? 0 : 1);
  writer.integer(decision.limit);
  writer.integer(decision.remaining);
  writer.integer(can_retry ? cell_seconds(decision.retry_after) : -1);
  writer.integer(cell_seconds(decision.reset_after));
}

}  // namespace

void RespSession::throttle(RespArguments arguments, std::string& out) {
  if (arguments.size() != 5 && arguments.size() != 6) return reply(out).error(kCellUsage);
  std::array<std::int64_t, 4> numbers{0, 0, 0, 1};  // burst, count, period, quantity
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const auto number = cell_number(arguments[i]);
    if (!number) {
      return reply(out).error(fmt::format("Cell error: Store error: Couldn't parse as integer: {}",
                                          shortened(arguments[i])));
    }
    numbers[i - 2] = *number;
  }
  const auto limit = core::RedisCell::make(numbers[0], numbers[1], numbers[2]);
  if (!limit) return reply(out).error(cell_error(limit.error()));
  AsyncEngine async_engine = engine();
  detail::EngineAccess::throttle(
      async_engine, *limit, arguments[1], numbers[3],
      [slot = responses_.add(), protocol = protocol_](const Verdict& verdict) {
        append_cell(RespWriter(slot->text, protocol), verdict);
        slot->complete();
      });
}

}  // namespace weir::server
