#include "cli/bench/bench_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/suggest.h"
#include "cli/bench/message.h"
#include "policy/endpoint.h"
#include "policy/source.h"

namespace weir::cli::bench {

namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::uint64_t kMaxKeys = 100'000'000;
constexpr std::size_t kMaxKeyBytes = 4096;

template <typename Number>
bool read_number(std::string_view text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return !text.empty() && error == std::errc{} && stop == end;
}

}  // namespace

std::string BenchTarget::authority() const {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

std::string BenchTarget::text() const {
  return protocol == WireProtocol::http ? std::string{kHttp} + authority() : authority();
}

std::uint64_t Mix::sum() const {
  std::uint64_t sum = 0;
  for (const std::uint32_t part : parts) sum += part;
  return sum;
}

Result<BenchTarget, Error> parse_target(std::string_view text) {
  const bool http = text.starts_with(kHttp);
  std::string_view where = text;
  if (http) where.remove_prefix(kHttp.size());
  if (http && where.ends_with('/')) where.remove_suffix(1);
  const auto endpoint = policy::parse_endpoint(where, {});
  if (!endpoint) {
    return Error{
        fmt::format("cannot parse the address {}: {}; for HTTP write http://127.0.0.1:7380",
                    policy::in_quotes(text), endpoint.error().message)};
  }
  return BenchTarget{.protocol = http ? WireProtocol::http : WireProtocol::resp,
                     .host = endpoint->host,
                     .port = endpoint->port};
}

Result<Mix, Error> parse_mix(std::string_view text) {
  Mix mix{.parts = {}};
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string_view item = text.substr(start, end - start);
    const std::size_t equals = item.find('=');
    const std::string_view name = item.substr(0, equals);
    const auto verb = std::find(kVerbNames.begin(), kVerbNames.end(), name);
    std::uint32_t part = 1;
    if (verb == kVerbNames.end()) {
      constexpr std::array<std::string_view, kVerbNames.size()> known{"take", "peek", "settle"};
      return Error{fmt::format("--mix: the verbs are take, peek and settle, not {}{}",
                               policy::in_quotes(name), did_you_mean(name, known))};
    }
    if (equals != std::string_view::npos &&
        (!read_number(item.substr(equals + 1), part) || part > 1'000'000)) {
      return Error{
          fmt::format("--mix: the weight of {} must be a whole number up to 1000000, as in "
                      "take=90,peek=10, not {}",
                      name, policy::in_quotes(item.substr(equals + 1)))};
    }
    mix.parts[static_cast<std::size_t>(verb - kVerbNames.begin())] += part;
    start = end + 1;
  }
  if (mix.sum() == 0)
    return Error{"--mix: at least one weight must be above 0, as in take=90,peek=10"};
  return mix;
}

Result<std::optional<double>, Error> parse_spread(std::string_view text) {
  if (text == "uniform") return std::optional<double>{};
  if (text == "zipf") return std::optional<double>{1.0};
  constexpr std::string_view zipf = "zipf:";
  double exponent = 0;
  const bool good = text.starts_with(zipf) && read_number(text.substr(zipf.size()), exponent) &&
                    exponent > 0 && exponent <= 10;
  if (good) return std::optional<double>{exponent};
  return Error{
      fmt::format("--spread must be uniform, zipf, or zipf:S with an exponent S above 0 and "
                  "at most 10, not {}",
                  policy::in_quotes(text))};
}

std::optional<Error> check(const BenchPlan& plan) {
  const bool only_takes = !plan.mix.has(RequestVerb::peek) && !plan.mix.has(RequestVerb::settle);
  if (plan.policy.empty() && !only_takes) {
    return Error{"--mix: peek and settle need a policy of the daemon: add --policy"};
  }
  if (plan.keys < 1 || plan.keys > kMaxKeys) {
    return Error{fmt::format("--keys must be from 1 to {}, not {}", kMaxKeys, plan.keys)};
  }
  if (plan.prefix.size() + key_digits(plan) > kMaxKeyBytes) {
    return Error{fmt::format("--prefix is too long: a key has at most {} bytes", kMaxKeyBytes)};
  }
  if (plan.rate != 0 && !(plan.rate >= 0.001 && plan.rate <= 1e9)) {
    return Error{"--rate must be from 0.001 to 1000000000 requests per second"};
  }
  if (plan.connections < plan.threads) {
    return Error{
        fmt::format("--threads {}: each thread needs a connection, but --connections is {}",
                    plan.threads, plan.connections)};
  }
  if (!plan.requests && plan.duration <= Nanos{0}) return Error{"--duration must be above 0"};
  if (plan.timeout <= Nanos{0}) return Error{"--timeout must be above 0"};
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
  if (std::any_of(plan.password.begin(), plan.password.end(), is_control)) {
    return Error{"--password must not contain line ends or other control characters"};
  }
  if (plan.policy.empty()) {
    if (const auto limit = ad_hoc_limit(plan); !limit) return limit.error();
  }
  return std::nullopt;
}

std::size_t key_digits(const BenchPlan& plan) { return std::to_string(plan.keys - 1).size(); }

std::string key_name(const BenchPlan& plan, std::uint64_t number) {
  return fmt::format("{}{:0{}}", plan.prefix, number, key_digits(plan));
}

}  // namespace weir::cli::bench
