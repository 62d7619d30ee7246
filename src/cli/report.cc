#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

namespace weir::cli {

namespace {

constexpr std::size_t kShownProblems = 20;

void print_some(const policy::Source& source, const policy::Problems& problems,
                std::string_view what) {
  std::fflush(stdout);
  for (std::size_t i = 0; i < std::min(problems.size(), kShownProblems); ++i) {
    fmt::print(stderr, "{}", source.render(problems[i]));
  }
  if (problems.size() > kShownProblems) {
    fmt::print(stderr, "{}: and {} more {}\n", source.name, problems.size() - kShownProblems, what);
  }
}

}  // namespace

void print_problems(const policy::Source& source, const policy::Problems& problems) {
  print_some(source, problems, "problems");
}

void print_warnings(const policy::Source& source, policy::Problems warnings) {
  for (policy::Problem& warning : warnings) warning.message.insert(0, "warning: ");
  print_some(source, warnings, "warnings");
}

nlohmann::json problems_json(const policy::Problems& problems) {
  nlohmann::json list = nlohmann::json::array();
  for (const policy::Problem& problem : problems) {
    list.push_back({{"line", problem.place.line},
                    {"column", problem.place.column},
                    {"message", problem.message}});
  }
  return list;
}

void print_json(const nlohmann::json& json) {
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

}  // namespace weir::cli
