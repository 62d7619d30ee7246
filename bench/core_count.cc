// Runs one step of the core a given number of times, for callgrind to count instructions:
//
//   weir_core_count STEP TIMES
//   weir_core_count --list
//
// The difference between two counts, divided by the difference in TIMES, is the cost of the step;
// starting the program and building the workload cancel out. `bench/run` does that.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "steps.h"

int main(int argc, char** argv) {
  const bool list = argc == 2 && std::strcmp(argv[1], "--list") == 0;
  if (!list && argc != 3) {
    std::fputs("usage: weir_core_count STEP TIMES | --list\n", stderr);
    return 2;
  }
  bool found = list;
  bool as_expected = true;
  weir::bench::each_step([&](const char* name, auto make) {
    if (list) std::puts(name);
    if (list || std::strcmp(name, argv[1]) != 0) return;
    found = true;
    auto step = make();
    for (long left = std::strtol(argv[2], nullptr, 10); left > 0; --left) step();
    as_expected = step.as_expected();
  });
  if (!found) std::fprintf(stderr, "weir_core_count: no step '%s'\n", argv[1]);
  if (!as_expected) std::fputs("weir_core_count: an answer was not the expected one\n", stderr);
  return found && as_expected ? 0 : 1;
}
