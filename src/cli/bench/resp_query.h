#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/bench_plan.h"

namespace weir::cli::bench {

// Sends one command to the RESP listener of the target, after AUTH if the plan has a password, and
// blocks until the reply. Returns the strings of the reply (an array may have several).
// Errors: the connection failed or timed out, or the daemon replied with an error.
Result<std::vector<std::string>, Error> query_resp(const BenchPlan& plan,
                                                   std::initializer_list<std::string_view> words);

}  // namespace weir::cli::bench
