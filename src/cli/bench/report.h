#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/bench/plan.h"
#include "cli/bench/run.h"

namespace weir::cli::bench {

// What is said about a run in the end.
struct Report {
  const Plan& plan;
  const Ran& ran;
  std::string limits{};  // what was asked, as text: "100/s burst 20"
  std::optional<std::uint64_t> ideal{};
  std::string no_ideal{};  // why there is none

  double seconds() const;  // without the warm-up
  double rate() const;
  // Takes that passed, the warm-up included, by the ideal.
  std::optional<double> ideal_ratio() const;
};

// For people.
std::string to_text(const Report& report);
// For machines: docs/bench.md has the fields.
nlohmann::json to_json(const Report& report);
// How far it is, in one line.
std::string progress_line(const Plan& plan, const Ran& ran);

}  // namespace weir::cli::bench
