#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/bench/bench_plan.h"
#include "cli/bench/run.h"

namespace weir::cli::bench {

// The result of a run, with its derived figures. Borrows the plan and the run.
struct BenchReport {
  const BenchPlan& plan;
  const RunResult& result;
  std::string limits{};  // the limits measured, as text: "100/s burst 20"
  std::optional<std::uint64_t> ideal{};
  std::string no_ideal{};  // the reason if there is no ideal

  double seconds() const;  // without the warm-up
  double rate() const;
  // Admitted takes (warm-up included) divided by the ideal.
  std::optional<double> ideal_ratio() const;
};

// The report as text.
std::string to_text(const BenchReport& report);
// The report as JSON; docs/bench.md lists the fields.
nlohmann::json to_json(const BenchReport& report);
// The progress of a run, as one line of text.
std::string progress_line(const BenchPlan& plan, const RunResult& result);

}  // namespace weir::cli::bench
