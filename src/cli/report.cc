#include "cli/report.h"

#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace weir::cli {

namespace {

constexpr std::ptrdiff_t kFirstProblems = 20;

void print(const policy::Source& source, const policy::Problems& problems) {
  std::fflush(stdout);
  fmt::print(stderr, "{}", source.render_all(problems));
}

}  // namespace

int fail(std::string_view text, int exit_code) {
  std::cerr << "weir: " << text << '\n';
  return exit_code;
}

void print_problems(const policy::Source& source, const policy::Problems& problems,
                    ShowProblems shown) {
  const std::ptrdiff_t more = std::ssize(problems) - kFirstProblems;
  if (shown == ShowProblems::all || more <= 0) return print(source, problems);
  print(source, {problems.begin(), problems.begin() + kFirstProblems});
  fmt::print(stderr, "{}: and {} more problems\n", source.name, more);
}

void print_warnings(const policy::Source& source, policy::Problems warnings) {
  for (policy::Problem& warning : warnings) warning.message.insert(0, "warning: ");
  print(source, warnings);
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
