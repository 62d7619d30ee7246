#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "weir/engine.h"

// The bodies of answers. Everything is appended to a string, which allocates nothing once it has
// grown.

namespace weir::wire {

// `text` in quotes. It may hold any bytes: what is no UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

// Whole milliseconds, rounded up: never 0 when it is more.
inline std::int64_t millis_up(Nanos duration) {
  constexpr std::int64_t unit = 1'000'000;
  return duration.count() / unit + (duration.count() % unit > 0 ? 1 : 0);
}

// What some answers say besides the decision. Left out when empty.
struct VerdictExtras {
  std::string_view receipt{};
  std::string_view holder{};
};

// {"allowed":true,"limit":10,"remaining":9,"retry_after_ms":0,…}, of a verdict without an error.
// What never passes has null for retry_after_ms.
void append_verdict(std::string& out, const Verdict& verdict, const VerdictExtras& extras = {});

// {"error":"…"}: what stands in the place of an item of a batch.
void append_item_error(std::string& out, std::string_view error);

// The media types of the bodies.
inline constexpr std::string_view kJson = "application/json";
inline constexpr std::string_view kProblemJson = "application/problem+json";

// Problems that have a name of their own, for refusals without the body of a decision.
inline constexpr std::string_view kQuotaExceeded =
    "https://iana.org/assignments/http-problem-types#quota-exceeded";
inline constexpr std::string_view kTemporaryReducedCapacity =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

// Why there is no decision, as RFC 9457 has it.
struct Problem {
  int status = 400;
  std::string_view detail{};
  std::string_view field{};  // of the request that it is about; left out when empty
  std::string_view type = "about:blank";
  std::string_view title{};                               // that of the status when empty
  std::span<const std::string_view> violated_policies{};  // left out when empty
};

void append_problem(std::string& out, const Problem& problem);

}  // namespace weir::wire
