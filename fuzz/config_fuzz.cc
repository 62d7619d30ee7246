// Any bytes as a policy file give problems that can be printed, or policies that can decide.

#include <cstddef>
#include <cstdint>
#include <string>

#include "gateway/config_yaml.h"

namespace {

using namespace weir;

void ask(const policy::Policy& written, const std::string& text) {
  const policy::PatternIndex index(written.overrides);
  const Parts parts{{"user", text}, {"sku", "9"}};
  (void)index.find({.key = text, .parts = {}});
  (void)index.find({.key = {}, .parts = parts.all()});
  for (const policy::Override& own : written.overrides) (void)index.covering(own.pattern);
  // Around a change of the clocks for daylight saving, and at both ends of time.
  const Instant change = std::chrono::sys_days{std::chrono::year{2025} / 3 / 30};
  for (const Instant t : {change + std::chrono::hours{1}, Instant::min(), Instant::max()}) {
    if (!written.schedule.empty()) (void)policy::active_shift_at(written.schedule, t);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const policy::Source source{"fuzz.yaml", std::string(reinterpret_cast<const char*>(data), size)};
  policy::Problems problems;
  policy::Problems warnings;
  // (All file names in a gateway section refer to the same file.)
  const auto no_file = [](const std::string&) -> Result<std::string, Error> {
    return std::string{"<html>"};
  };
  const policy::DaemonConfig config =
      gateway::read_config(source, problems, warnings, no_file).config;
  for (const auto& problem : problems) (void)source.render(problem);
  for (const auto& warning : warnings) (void)source.render(warning);
  (void)policy::read_policies(source, problems);
  (void)policy::read_policy(source, policy::Sharing::none, problems);
  for (const auto& [name, written] : config.policies) ask(written, source.text);
  return 0;
}
