// Measures the time of the steps of the core. `bench/run` calls this and prints a table.

#include <benchmark/benchmark.h>

#include "steps.h"

int main(int argc, char** argv) {
  weir::bench::each_step([](const char* name, auto make) {
    benchmark::RegisterBenchmark(name, [make](benchmark::State& state) {
      auto step = make();
      for (auto _ : state) step();
      if (!step.as_expected()) state.SkipWithError("an answer was not the expected one");
    });
  });
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
