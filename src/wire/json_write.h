#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "weir/engine.h"

// Writes the JSON bodies of responses. Everything is appended to a string that is reused: writing
// allocates nothing once the string has grown.

namespace weir::wire {

// Appends `text` as a JSON string. It may hold any bytes: invalid UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

// Milliseconds, rounded up: 0 only if the duration is not positive.
inline std::int64_t millis_up(Nanos duration) {
  constexpr std::int64_t unit = 1'000'000;
  return duration.count() / unit + (duration.count() % unit > 0 ? 1 : 0);
}

// Optional members of a verdict. Left out when empty.
struct VerdictExtras {
  std::string_view receipt{};
  std::string_view holder{};
};

// Appends {"allowed":true,"limit":10,"remaining":9,"retry_after_ms":0,…} for a verdict without an
// error. A request that can never pass has null for retry_after_ms.
void append_verdict(std::string& out, const Verdict& verdict, const VerdictExtras& extras = {});

// Appends {"error":"…"}, the result of an invalid item of a batch.
void append_item_error(std::string& out, std::string_view error);

// The media types of the bodies.
inline constexpr std::string_view kJson = "application/json";
inline constexpr std::string_view kProblemJson = "application/problem+json";

// Problem types of refusals whose body is not a verdict.
inline constexpr std::string_view kQuotaExceeded =
    "https://iana.org/assignments/http-problem-types#quota-exceeded";
inline constexpr std::string_view kTemporaryReducedCapacity =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

// Why there is no decision, as RFC 9457 (Problem Details for HTTP APIs) defines it.
struct ProblemDetails {
  int status = 400;
  std::string_view detail{};
  std::string_view field{};  // the request's field that it is about; left out when empty
  std::string_view type = "about:blank";
  std::string_view title{};                               // the status's reason phrase when empty
  std::span<const std::string_view> violated_policies{};  // left out when empty
};

void append_problem(std::string& out, const ProblemDetails& problem);

}  // namespace weir::wire
