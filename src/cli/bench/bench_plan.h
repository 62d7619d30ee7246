#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/result.h"
#include "weir/time.h"

namespace weir::cli::bench {

enum class WireProtocol : std::uint8_t { resp, http };

// The kind of a request. `login` is AUTH, the first command of a connection with a password.
enum class RequestVerb : std::uint8_t { take, peek, settle, login };
inline constexpr std::array kVerbNames{"take", "peek", "settle"};

// The address of the daemon.
struct BenchTarget {
  WireProtocol protocol = WireProtocol::resp;
  std::string host = "127.0.0.1";
  std::uint16_t port = 7379;

  std::string text() const;
  std::string authority() const;  // host:port
};

// The mix of requests: the weight of each verb, relative to their sum.
struct Mix {
  std::array<std::uint32_t, kVerbNames.size()> parts{1, 0, 0};

  std::uint64_t sum() const;
  bool has(RequestVerb verb) const { return parts[static_cast<std::size_t>(verb)] > 0; }
};

// The options of a run.
struct BenchPlan {
  BenchTarget target{};
  std::string password{};  // empty: none

  std::string policy{};         // empty: requests bring `limit` (ad hoc)
  std::string limit = "100/s";  // used if `policy` is empty
  Permits permits = 1;          // of each request
  Mix mix{};
  std::uint64_t keys = 10'000;
  std::optional<double> zipf{};  // the exponent; none: uniform
  std::string prefix{};          // of the names of keys
  std::uint64_t seed = 0;

  std::size_t connections = 16;
  std::size_t pipeline = 1;  // requests in flight on each connection
  std::size_t threads = 1;
  double rate = 0;  // requests per second in total; 0: closed loop
  Nanos warmup{0};
  Nanos duration{10'000'000'000};
  std::optional<std::uint64_t> requests{};  // instead of the duration
  Nanos timeout{10'000'000'000};
  bool spin = false;

  bool open_loop() const { return rate > 0; }
};

// host:port is a RESP listener, http://host:port an HTTP listener.
Result<BenchTarget, Error> parse_target(std::string_view text);
// "take=90,peek=10"
Result<Mix, Error> parse_mix(std::string_view text);
// "uniform" (no exponent), "zipf" or "zipf:1.2".
Result<std::optional<double>, Error> parse_spread(std::string_view text);

// The error of an inconsistent or out-of-range plan, if it is one.
std::optional<Error> check(const BenchPlan& plan);

// The name of a key. All keys of a plan have names of the same length.
std::string key_name(const BenchPlan& plan, std::uint64_t number);
// The number of digits at the end of each name.
std::size_t key_digits(const BenchPlan& plan);

}  // namespace weir::cli::bench
