#include "cli/top/snapshot.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace weir::cli::top {

namespace {

using nlohmann::json;

std::vector<HotKey> keys_of(const json& list) {
  std::vector<HotKey> keys;
  for (const json& each : list) {
    keys.push_back({.text = each.at("key").get<std::string>(),
                    .count = each.at("count").get<std::uint64_t>(),
                    .error = each.at("error").get<std::uint64_t>()});
  }
  return keys;
}

std::vector<std::string> texts_of(const json& policy, const char* field) {
  return policy.value(field, std::vector<std::string>{});
}

Snapshot snapshot_of(const json& response) {
  Snapshot snapshot{.seconds = response.at("seconds").get<std::int64_t>(),
                    .uptime = response.at("uptime_seconds").get<std::int64_t>(),
                    .generation = response.at("generation").get<std::uint64_t>()};
  for (const json& each : response.at("policies")) {
    snapshot.policies.push_back({.name = each.at("policy").get<std::string>(),
                                 .allowed = each.at("allowed").get<std::uint64_t>(),
                                 .refused = each.at("refused").get<std::uint64_t>(),
                                 .top_allowed = keys_of(each.at("top_allowed")),
                                 .top_refused = keys_of(each.at("top_refused")),
                                 .limits = texts_of(each, "limits"),
                                 .orders = texts_of(each, "orders")});
  }
  return snapshot;
}

double rate(std::uint64_t before, std::uint64_t now, double seconds) {
  return now < before || seconds <= 0 ? 0 : static_cast<double>(now - before) / seconds;
}

}  // namespace

Result<Snapshot, Error> read_snapshot(std::string_view body) try {
  return snapshot_of(json::parse(body));
} catch (const json::exception&) {
  return Error{"the response is not a list of keys: the daemon may be of another version"};
}

std::vector<PolicyRates> rows_between(const Snapshot& before, const Snapshot& now, double seconds) {
  std::map<std::string_view, const PolicyActivity*> earlier;
  if (now.uptime >= before.uptime) {
    for (const PolicyActivity& each : before.policies) earlier[each.name] = &each;
  }
  std::vector<PolicyRates> rows;
  for (const PolicyActivity& each : now.policies) {
    const auto found = earlier.find(each.name);
    const PolicyActivity none;
    const PolicyActivity& old = found == earlier.end() ? none : *found->second;
    rows.push_back({.policy = each,
                    .allowed = rate(old.allowed, each.allowed, seconds),
                    .refused = rate(old.refused, each.refused, seconds)});
  }
  const auto rank = [](const PolicyRates& row) {
    return std::tuple(-row.allowed - row.refused, ~(row.policy.allowed + row.policy.refused),
                      std::string_view{row.policy.name});
  };
  const auto busier = [&](const PolicyRates& a, const PolicyRates& b) { return rank(a) < rank(b); };
  std::ranges::sort(rows, busier);
  return rows;
}

}  // namespace weir::cli::top
