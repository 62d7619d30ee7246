#include "limiter/flaw.h"

#include <stdexcept>

namespace weir {

namespace {

const char* text_of(core::Flaw flaw) {
  switch (flaw) {
    case core::Flaw::rate_not_positive:
      return "weir: a limit must admit at least one permit in its period";
    case core::Flaw::rate_too_high:
      return "weir: this rate is too high: at most 10^12 permits a second (10^9 for a "
             "SmoothLimiter)";
    case core::Flaw::rate_too_low:
      return "weir: this rate is too low: one permit would take more than 73 years";
    case core::Flaw::period_not_positive:
      return "weir: a period must be above zero, such as 1s";
    case core::Flaw::period_too_long:
      return "weir: this period is too long: at most 73 years";
    case core::Flaw::too_many_decimals:
      return "weir: a rate has at most nine decimals";
    case core::Flaw::not_whole:
      return "weir: this limit counts whole permits: write per(1, 2s) for half a permit a second";
    case core::Flaw::capacity_too_small:
      return "weir: a limit must have room for at least one permit, and a queue for no fewer than "
             "0 places";
    case core::Flaw::capacity_too_large:
      return "weir: this is more than the limit can count: at most 2^61 permits, 4*10^9 for "
             "sliding, 4096 for sliding_exact";
    case core::Flaw::warmup_too_long:
      return "weir: this warm-up is too long: at most 4h";
    case core::Flaw::nginx_period:
      return "weir: a queue as in nginx needs a rate per second or per minute";
  }
  return "weir: this limit cannot be made";
}

}  // namespace

void throw_flaw(core::Flaw flaw) { throw std::invalid_argument(text_of(flaw)); }

core::Limit require_not_concurrent(core::Limit limit, const char* message) {
  if (std::holds_alternative<core::Concurrency>(limit)) throw std::invalid_argument(message);
  return limit;
}

}  // namespace weir
