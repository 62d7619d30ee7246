#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/result.h"
#include "weir/time.h"

namespace weir::cli::bench {

enum class Door : std::uint8_t { resp, http };

// What a request asks. `login` is what a connection says first where there is a password.
enum class Verb : std::uint8_t { take, peek, settle, login };
inline constexpr std::array kVerbNames{"take", "peek", "settle"};

// Where the daemon is.
struct Target {
  Door door = Door::resp;
  std::string host = "127.0.0.1";
  std::uint16_t port = 7379;

  std::string text() const;
  std::string authority() const;  // host:port
};

// How many of all requests ask what, in parts of their sum.
struct Mix {
  std::array<std::uint32_t, kVerbNames.size()> parts{1, 0, 0};

  std::uint64_t sum() const;
  bool has(Verb verb) const { return parts[static_cast<std::size_t>(verb)] > 0; }
};

// Everything about a run that is known before it.
struct Plan {
  Target target{};
  std::string password{};  // empty: none

  std::string policy{};         // empty: the limit comes with the call
  std::string limit = "100/s";  // then
  Permits permits = 1;          // of each request
  Mix mix{};
  std::uint64_t keys = 10'000;
  std::optional<double> zipf{};  // nothing: all keys alike
  std::string prefix{};          // of their names
  std::uint64_t seed = 0;

  std::size_t connections = 16;
  std::size_t pipeline = 1;  // requests in flight on each
  std::size_t threads = 1;
  double rate = 0;  // requests a second, over all; 0: closed loop
  Nanos warmup{0};
  Nanos duration{10'000'000'000};
  std::optional<std::uint64_t> requests{};  // instead of the duration
  Nanos timeout{10'000'000'000};
  bool spin = false;

  bool open_loop() const { return rate > 0; }
};

// host:port is RESP, http://host:port HTTP.
Result<Target, Error> parse_target(std::string_view text);
// "take=90,peek=10"
Result<Mix, Error> parse_mix(std::string_view text);
// "uniform", "zipf", "zipf:1.2": the exponent, or nothing.
Result<std::optional<double>, Error> parse_spread(std::string_view text);

// What makes no sense about a plan, if something does.
std::optional<Error> check(const Plan& plan);

// The name of a key: all are of the same length.
std::string key_name(const Plan& plan, std::uint64_t number);
// The digits at the end of it.
std::size_t key_digits(const Plan& plan);

}  // namespace weir::cli::bench
