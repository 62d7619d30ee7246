#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/int128.h"
#include "core/limit.h"

// States as texts, for scripts to reckon with and for people to read with GET: the format's digit
// and the algorithm's letter, then numbers. See docs/redis.md.

namespace weir::store::redis {

// What a text says: a state, and when this life of its key began; of a bucket also at which price
// it was written, and when.
struct Remembered {
  core::State state{};
  std::uint64_t birth = 0;
  Instant written{};
  core::Pace pace{};
};

// A time or a debt as scripts reckon with it: whole seconds, and parts of a nanosecond.
struct Pair {
  std::int64_t seconds = 0;
  std::int64_t sub = 0;
};
Pair pair_of(Int128 in_parts, std::int64_t parts);

char letter_of(const core::Limit& limit);

// The limit's price, as the text of a bucket has it; and what that text begins with.
void append_rate(std::string& out, const core::Bucket& limit);
void append_form(std::string& out, const core::Bucket& limit);

// For limits whose memory is a state. False if it is no text of that limit's algorithm.
bool read_text(const core::Limit& limit, std::string_view text, Remembered& remembered);
void append_text(std::string& out, const core::Limit& limit, const Remembered& remembered);

// What a list or a set of holders is to a decision, as the scripts tell it. Times are in
// microseconds, and 0 for none.
struct LogFacts {
  std::uint64_t birth = 0;
  std::int64_t used = 0;
  std::int64_t freed_at = 0;  // of a call that does not fit: when it would
  std::int64_t rest_at = 0;
  std::int64_t newest_at = 0;
  std::int64_t given_back = 0;
};
struct HolderFacts {
  std::int64_t own_until = 0;  // of the holder that asks, if it holds
  std::int64_t own_permits = 0;
  std::int64_t held = 0;
  std::int64_t freed_at = 0;
  std::int64_t rest_at = 0;
};
// The last refund by a receipt, as the key beside the limit's has it.
struct LastRefund {
  std::uint64_t number = 0;  // counted from one
  Permits back = 0;          // what was asked for
  bool is_exact = false;     // the state is as if that had never been taken
};
bool read_text(std::string_view text, LastRefund& last);
bool read_text(std::string_view text, LogFacts& facts);
bool read_text(std::string_view text, HolderFacts& facts);

}  // namespace weir::store::redis
