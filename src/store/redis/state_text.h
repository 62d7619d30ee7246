#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/int128.h"
#include "core/limit.h"

// The values of keys on Redis: texts that scripts can parse and people can read with GET. A text is
// the digit of the format's version, the letter of the algorithm, and numbers. See docs/redis.md.

namespace weir::store::redis {

// The content of a text: a state, and the birth of the key's incarnation; of a bucket also the
// price and the time at which it was written.
struct StoredState {
  core::State state{};
  std::uint64_t birth = 0;
  Instant written{};
  core::EmissionInterval interval{};
};

// A time or a debt for scripts, whose numbers are doubles: whole seconds, and the rest in parts of
// a nanosecond. The number of parts in a nanosecond is given by the limit's emission interval.
struct SecondsAndParts {
  std::int64_t seconds = 0;
  std::int64_t sub = 0;
};
SecondsAndParts in_seconds_and_parts(Int128 in_parts, std::int64_t parts);

char letter_of(const core::Limit& limit);

// The price in a bucket's text; and that text's prefix, which ends with the price.
void append_price(std::string& out, const core::Bucket& limit);
void append_price_prefix(std::string& out, const core::Bucket& limit);

// For limits whose value is a state, not a list. False if the text is not of that limit's
// algorithm.
bool read_text(const core::Limit& limit, std::string_view text, StoredState& remembered);
void append_text(std::string& out, const core::Limit& limit, const StoredState& remembered);

// Facts about an exact log or a set of holders, from a script's reply. Times are in microseconds, 0
// for none.
struct LogFacts {
  std::uint64_t birth = 0;
  std::int64_t used = 0;
  std::int64_t freed_at = 0;  // when a call that does not fit now would fit
  std::int64_t rest_at = 0;
  std::int64_t newest_at = 0;
  std::int64_t given_back = 0;
};
struct HolderFacts {
  std::int64_t own_until = 0;  // end of the requesting holder's lease; 0: it holds nothing
  std::int64_t own_permits = 0;
  std::int64_t held = 0;
  std::int64_t freed_at = 0;
  std::int64_t rest_at = 0;
};
// The last refund with a receipt: the value of the key <limit's key>:refund:<receipt's name>.
struct LastRefund {
  std::uint64_t number = 0;  // counted from one
  Permits back = 0;          // permits that the refund asked for
  bool is_exact = false;     // an exact undo: the state is as if they had never been taken
};
bool read_text(std::string_view text, LastRefund& last);
bool read_text(std::string_view text, LogFacts& facts);
bool read_text(std::string_view text, HolderFacts& facts);

}  // namespace weir::store::redis
