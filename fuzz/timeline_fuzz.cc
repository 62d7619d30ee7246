// Any bytes as a file of timelines give problems that can be printed, or cases that run.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "timeline/timeline.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const weir::policy::Source source{"fuzz.yaml",
                                    std::string(reinterpret_cast<const char*>(data), size)};
  weir::policy::Problems problems;
  auto cases = weir::timeline::read_cases(source, nullptr, problems);
  for (const auto& problem : problems) (void)source.render(problem);
  if (!problems.empty()) return 0;
  for (auto& test : cases) {
    // The millions of arrivals that a step may have only take time.
    for (auto& step : test.steps) step.n = std::min<std::int64_t>(step.n, 20);
    (void)weir::timeline::run(test, weir::timeline::Store::core);
    (void)weir::timeline::run(test, weir::timeline::Store::memory);
  }
  return 0;
}
