#include "policy/zone.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/ascii.h"
#include "base/suggest.h"
#include "policy/source.h"

namespace weir::policy {

namespace {

// Only names of IANA zones: cctz would open any file by its path.
bool is_zone_name(std::string_view name) {
  const auto allowed = [](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '+' || c == '/';
  };
  return !name.empty() && name.size() <= 64 && name.front() != '/' &&
         std::ranges::all_of(name, allowed);
}

// Zones to suggest, from the database's list; empty if it is not installed.
std::vector<std::string> listed_zones() {
  std::vector<std::string> zones{"UTC"};
  std::ifstream table("/usr/share/zoneinfo/tzdata.zi");
  for (std::string line; std::getline(table, line);) {
    const bool is_zone = line.starts_with("Z ");
    const bool is_link = line.starts_with("L ");
    if (!is_zone && !is_link) continue;
    const std::size_t start = is_zone ? 2 : line.find(' ', 2) + 1;
    zones.push_back(line.substr(start, line.find(' ', start) - start));
  }
  return zones;
}

std::string unknown_zone(const std::string& name) {
  const std::vector<std::string> zones = listed_zones();
  const std::vector<std::string_view> known(zones.begin(), zones.end());
  const std::string near = did_you_mean(name, known);
  return fmt::format("there is no time zone {}{}", in_quotes(name),
                     near.empty() ? "; write one like Europe/Berlin or UTC" : near);
}

}  // namespace

Result<cctz::time_zone, std::string> load_zone(const std::string& name) {
  cctz::time_zone zone;
  if (!is_zone_name(name) || !cctz::load_time_zone(name, &zone)) return unknown_zone(name);
  return zone;
}

}  // namespace weir::policy
